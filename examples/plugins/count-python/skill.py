"""A small skill: say how many functions a repository defines."""

import valence


class Count(valence.Skill):
    name = "count-python"
    version = "0.1.0"

    def build(self, host: valence.Host, request: valence.BuildRequest) -> valence.BuildResponse:
        record = request.record
        answer = sum((b"\n" + f.data).count(b"\ndef ") for f in record.workspace.files)
        return valence.BuildResponse(tasks=[valence.Task(
            key=f"{self.name}/{record.id}",
            skill=self.name,
            record=record.id,
            prompt="How many functions do the Python files define?\nWrite the number to answer.txt.",
            workspace=record.workspace,
            collect=["answer.txt"],
            hidden=b"answer=%d" % answer,
            reference=valence.Reference(changes=[valence.Change(path="answer.txt", data=b"%d\n" % answer)]),
        )])

    def evaluate(self, host: valence.Host, request: valence.EvaluateRequest) -> valence.Verdict:
        host.log("debug", f"changed files: {len(request.output.changes)}")
        for change in request.output.changes:
            if b"answer=" + change.data.strip() == request.task.hidden:
                return valence.Verdict(score=1.0, reason="the number is right")
        return valence.Verdict(reason="answer.txt does not give the number of functions")


if __name__ == "__main__":
    valence.serve(Count())
