"""What the author of a skill imports.

A skill is a class with a name, a version and one or more of the methods build,
evaluate and judge; serve hands it to the host:

    import valence

    class Count(valence.Skill):
        name = "count"
        version = "0.1.0"

        def evaluate(self, host, request):
            return valence.Verdict(score=1.0, reason="always right")

    valence.serve(Count())

An exception that leaves a method is a failure of the skill: the episode is
retried and at last excluded. A bad answer by the agent is a Verdict with a score
of 0, never an exception.
"""

from .process import serve
from .skill import Error, Host, Skill
from .wire import (
    BuildRequest,
    BuildResponse,
    Candidate,
    Change,
    Command,
    Component,
    EvaluateRequest,
    File,
    JudgeRequest,
    JudgeResponse,
    Log,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    Mutant,
    Output,
    Pair,
    Record,
    Reference,
    RunRequest,
    RunResponse,
    Target,
    Task,
    Verdict,
    Workspace,
)

__all__ = [
    "BuildRequest",
    "BuildResponse",
    "Candidate",
    "Change",
    "Command",
    "Component",
    "Error",
    "EvaluateRequest",
    "File",
    "Host",
    "JudgeRequest",
    "JudgeResponse",
    "Log",
    "ModelMessage",
    "ModelRequest",
    "ModelResponse",
    "Mutant",
    "Output",
    "Pair",
    "Record",
    "Reference",
    "RunRequest",
    "RunResponse",
    "Skill",
    "Target",
    "Task",
    "Verdict",
    "Workspace",
    "serve",
]
