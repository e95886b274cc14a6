"""The plugin of this benchmark in Python: it answers with the number of files that it is given."""

import valence


class Bench(valence.Skill):
    name = "bench"
    version = "0.1.0"

    def evaluate(self, host: valence.Host, request: valence.EvaluateRequest) -> valence.Verdict:
        n = len(request.task.workspace.files) + len(request.output.changes)
        return valence.Verdict(score=1.0, components=[valence.Component(name="files", value=float(n))], reason=str(n))


if __name__ == "__main__":
    valence.serve(Bench())
