"""Document every function of a Python file and change nothing else."""

import re
from pathlib import Path

import valence

CHECK = Path(__file__).with_name("check.py").read_bytes()
HEAD = re.compile(rb"(?m)^( *)def (\w+)\(.*\):\n")
DOC = re.compile(rb'(?ms)^( *def [^\n]*:\n)\s+""".*?"""\n')


class Docstrings(valence.Skill):
    name = "docstrings-python"
    version = "0.1.0"

    def build(self, host: valence.Host, request: valence.BuildRequest) -> valence.BuildResponse:
        words = request.config[0].value  # the only setting in plugin.toml: the run's, or its default
        workspace = request.record.workspace
        for f in workspace.files:
            if not f.path.endswith(".py") or not HEAD.search(f.data):
                continue
            bare = DOC.sub(rb"\1", f.data)
            gold = HEAD.sub(rb'\g<0>\1    """\2' + b" word" * 50 + b'"""\n', bare)
            # A task whose own reference does not pass is no task.
            why = check(host, words, bare, gold)
            if why:
                return valence.BuildResponse(skipped=why)
            f.data = bare
            return valence.BuildResponse(tasks=[valence.Task(
                key=f"{self.name}/{request.record.id}",
                skill=self.name,
                record=request.record.id,
                prompt=f"Give every function in {f.path} a docstring of at least {words} words.\nChange nothing else.",
                workspace=workspace,
                collect=[f.path],
                reference=valence.Reference(changes=[valence.Change(path=f.path, data=gold)]),
            )])
        return valence.BuildResponse(skipped="no file of the workspace has a function")

    def evaluate(self, host: valence.Host, request: valence.EvaluateRequest) -> valence.Verdict:
        if not request.output.changes:
            return valence.Verdict(reason="the file was not changed")
        after = request.output.changes[0]  # there is one at most: collect names one file
        before = next(f for f in request.task.workspace.files if f.path == after.path)
        why = check(host, request.config[0].value, before.data, after.data)
        if why:
            return valence.Verdict(reason=why)
        return valence.Verdict(score=1.0, reason="every function is documented")


def check(host: valence.Host, words: str, before: bytes, after: bytes) -> str:
    """Say in a fresh sandbox what is wrong with after, or ""."""
    files = {"check.py": CHECK, "before.py": before, "after.py": after}
    log = host.run(valence.RunRequest(
        workspace=valence.Workspace(files=[valence.File(path=p, data=d) for p, d in files.items()]),
        commands=[valence.Command(shell=f"python3 -I check.py {words}")],
    )).logs[0]
    if log.exit_code == 127:
        raise valence.Error("the sandbox has no python3")  # no verdict: the host tries again
    return f"exit status {log.exit_code}: {log.output.strip()}" if log.exit_code else ""


if __name__ == "__main__":
    valence.serve(Docstrings())
