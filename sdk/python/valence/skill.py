"""The interfaces that a skill's author fills in or calls."""

from __future__ import annotations

from typing import Protocol

from .wire import (
    BuildRequest,
    BuildResponse,
    EvaluateRequest,
    JudgeRequest,
    JudgeResponse,
    ModelRequest,
    ModelResponse,
    RunRequest,
    RunResponse,
    Verdict,
)


class Error(Exception):
    """A failure that is told to the host in the author's words.

    What the host's services raise is an Error, too. Any other exception that
    leaves a skill's method is taken for a bug: the host is told "panic: " with its
    type and text, and its traceback goes to standard error.
    """


class Host(Protocol):
    """What the framework offers to a skill, each method one capability.

    plugin.toml declares them and the run grants them. A call that was not granted
    raises an Error that names the capability. Calls block until answered, and may
    be made from any thread until the method that was given the host has returned.
    """

    def run(self, request: RunRequest) -> RunResponse:
        """Run commands in one fresh sandbox. Capability "sandbox"."""

    def model(self, request: ModelRequest) -> ModelResponse:
        """Ask the run's model. Capability "model"."""

    def ask(self, request: JudgeRequest) -> JudgeResponse:
        """Ask the skill's judge. Capability "judge"."""

    def log(self, level: str, text: str) -> None:
        """Write a line to the host's log. Capability "log". It never fails."""


class Skill:
    """The base of every skill. Its roles are the methods that a subclass defines.

    Calls come on many threads at the same time, all on one instance, so that
    nothing should be kept on it between calls. The same request must give the same
    answer: take every random choice from the request's seed.
    """

    name: str = ""
    """Equal to the name in plugin.toml."""

    version: str = ""
    """Equal to the version in plugin.toml."""

    def build(self, host: Host, request: BuildRequest) -> BuildResponse:
        """Make the tasks of a record.

        A record that does not suit the skill gives no task and a reason in
        skipped, not an exception.
        """
        raise NotImplementedError

    def evaluate(self, host: Host, request: EvaluateRequest) -> Verdict:
        """Score one output.

        Do not trust the agent's words where a file can be read or a command run.
        Every command runs in a sandbox of its own through host.run.
        """
        raise NotImplementedError

    def judge(self, host: Host, request: JudgeRequest) -> JudgeResponse:
        """Decide from two logs whether an issue was reproduced."""
        raise NotImplementedError
