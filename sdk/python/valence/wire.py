"""What crosses the border between the host and a skill.

The messages of sdk/wire/skill.proto, which says more of each field, under the
same names. A new message has proto3's defaults: "", 0, False, an empty list. The
host and a skill may know different versions: each skips the fields that are new
to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional

from . import proto

ABI = 1
"""The version of the contract that this package speaks: skill_v1."""

MAX_MESSAGE = 64 << 20
"""The largest request, answer or host call, in bytes."""


@dataclass
class File:
    """One file of a tree. Paths are relative, slash-separated and clean."""

    path: str = proto.text(1)
    data: bytes = proto.data(2)
    exec: bool = proto.flag(3)  # executable


@dataclass
class Change:
    """A file as it is after something was done to a tree, or its removal."""

    path: str = proto.text(1)
    data: bytes = proto.data(2)  # whole content afterwards; empty when deleted
    exec: bool = proto.flag(3)
    deleted: bool = proto.flag(4)
    symlink: str = proto.text(5)  # target, when the path is now a symbolic link


@dataclass
class Workspace:
    """What a sandbox holds when it starts: an image's tree or the files, then the patches in order."""

    image: str = proto.text(1)  # an OCI reference; "" for the host's tool chain with files
    files: List[File] = proto.many(2, File)
    patches: List[str] = proto.texts(3)  # unified diffs
    dir: str = proto.text(4)  # absolute; "" means the directory that the image names, else /workspace
    env: List[str] = proto.texts(5)  # KEY=VALUE of every command


@dataclass
class Target:
    """A function to test, in the fixed workspace."""

    path: str = proto.text(1)
    name: str = proto.text(2)
    line: int = proto.int64(3)


@dataclass
class Mutant:
    """One buggy variant: whole files that replace those of the fixed workspace."""

    id: str = proto.text(1)
    target: str = proto.text(2)  # the target's name
    files: List[File] = proto.many(3, File)


@dataclass
class Candidate:
    """A proposed fix with its label, found by running the tests."""

    patch: str = proto.text(1)  # unified diff on the workspace
    correct: bool = proto.flag(2)
    origin: str = proto.text(3)  # who made it: "gold", "mutated-gold", a policy's name


@dataclass
class Pair:
    """A named text."""

    key: str = proto.text(1)
    value: str = proto.text(2)


@dataclass
class Record:
    """One item of a source. Builders read it, agents never do."""

    id: str = proto.text(1)  # unique in its source
    repo: str = proto.text(2)
    base_commit: str = proto.text(3)
    source: str = proto.text(4)  # kind of the source: pocket, swebench, git, harbor
    language: str = proto.text(5)  # "python"
    problem: str = proto.text(6)  # as an issue's author wrote it
    workspace: Workspace = proto.one(7, Workspace)
    patch: str = proto.text(8)  # gold patch, a unified diff on the workspace, which has the bug
    test_patch: str = proto.text(9)  # brings the tests of fail_to_pass
    fail_to_pass: List[str] = proto.texts(10)
    pass_to_pass: List[str] = proto.texts(11)
    test_command: str = proto.text(12)  # shell; runs the tests of test_files and names each with its status
    test_files: List[str] = proto.texts(13)  # restored before tests are run
    log_parser: str = proto.text(14)  # how the command's output is read: "unittest", "pytest"
    targets: List[Target] = proto.many(15, Target)  # functions worth testing
    mutants: List[Mutant] = proto.many(16, Mutant)  # buggy variants of targets, each caught by the golden tests
    candidates: List[Candidate] = proto.many(17, Candidate)  # fixes to review
    reproduce: str = proto.text(18)  # a script that shows the issue: exit 0 once it is fixed
    test_reference: str = proto.text(19)  # contents for unit_test_file: passes, and catches every mutant
    meta: List[Pair] = proto.many(20, Pair)  # facts for reports: family, split, phrasing
    unit_test_file: str = proto.text(21)  # the file the unit-test skill asks for
    unit_test_command: str = proto.text(22)  # shell; exit status 0 means that its tests passed


@dataclass
class Reference:
    """An answer that scores 1."""

    changes: List[Change] = proto.many(1, Change)
    message: str = proto.text(2)


@dataclass
class Task:
    """An immutable input with its context. Everything but hidden, reference and meta may be seen by the agent."""

    key: str = proto.text(1)  # stable and unique: skill/record or skill/record#n
    skill: str = proto.text(2)
    record: str = proto.text(3)  # the record's id
    system: str = proto.text(4)  # system prompt; may be empty
    prompt: str = proto.text(5)  # the user's message
    workspace: Workspace = proto.one(6, Workspace)
    collect: List[str] = proto.texts(7)  # globs: output is restricted to them; none: everything
    hidden: bytes = proto.data(8)  # the evaluator's own; never enters the agent's sandbox
    reference: Optional[Reference] = proto.optional(9, Reference)  # what a perfect agent leaves; None if unknown
    meta: List[Pair] = proto.many(10, Pair)


@dataclass
class Output:
    """What the agent left, collected by the host from the file system."""

    changes: List[Change] = proto.many(1, Change)  # within the task's collect, sorted by path
    outside: List[str] = proto.texts(2)  # paths that were changed outside of it, sorted
    message: str = proto.text(3)  # the final message
    end: str = proto.text(4)  # why the episode ended: "submitted" or a limit's name


@dataclass
class Component:
    """A named part of a verdict."""

    name: str = proto.text(1)
    value: float = proto.double(2)  # finite


@dataclass
class Verdict:
    """An evaluator's answer: always a score. What is not a score is an error."""

    score: float = proto.double(1)  # in [0,1]
    components: List[Component] = proto.many(2, Component)
    reason: str = proto.text(3)  # in words


@dataclass
class DescribeRequest:
    """Asks a skill what it is."""

    abi: int = proto.int64(1)  # that the host speaks


@dataclass
class Description:
    """The skill's answer, which must agree with its plugin.toml."""

    name: str = proto.text(1)
    version: str = proto.text(2)
    abi: int = proto.int64(3)
    roles: List[str] = proto.texts(4)  # "build", "evaluate", "judge"


@dataclass
class BuildRequest:
    """Asks for the tasks of one record."""

    record: Record = proto.one(1, Record)
    template: str = proto.text(2)  # "full", "brief", or the text of a template (it has a line break or a brace)
    config: List[Pair] = proto.many(3, Pair)  # the skill's own keys of the run's TOML
    seed: int = proto.uint64(4)  # for every choice the builder makes


@dataclass
class BuildResponse:
    """The tasks, or why there is none."""

    tasks: List[Task] = proto.many(1, Task)
    skipped: str = proto.text(2)  # reason, when there are no tasks


@dataclass
class EvaluateRequest:
    """Asks for the verdict on one output."""

    task: Task = proto.one(1, Task)  # with hidden
    output: Output = proto.one(2, Output)
    config: List[Pair] = proto.many(3, Pair)
    seed: int = proto.uint64(4)
    timeout: int = proto.int64(5)  # milliseconds for the whole evaluation


@dataclass
class Log:
    """How one command ended."""

    output: str = proto.text(1)  # stdout and stderr together; invalid UTF-8 is replaced
    exit_code: int = proto.int64(2)  # 128+n after signal n
    timed_out: bool = proto.flag(3)
    truncated: bool = proto.flag(4)
    millis: int = proto.int64(5)


@dataclass
class JudgeRequest:
    """Asks whether two logs show that a script reproduces an issue."""

    issue: str = proto.text(1)
    script: str = proto.text(2)
    before: Log = proto.one(3, Log)  # on the original code
    after: Log = proto.one(4, Log)  # with the gold patch
    config: List[Pair] = proto.many(5, Pair)  # the judge's own settings


@dataclass
class JudgeResponse:
    """The judge's opinion."""

    verdict: bool = proto.flag(1)
    confidence: float = proto.double(2)  # in [0,1]
    rationale: str = proto.text(3)


@dataclass
class Command:
    """One shell command of a RunRequest."""

    shell: str = proto.text(1)
    env: List[str] = proto.texts(2)
    millis: int = proto.int64(3)  # deadline; 0: the run's default


@dataclass
class RunRequest:
    """Asks the host for one fresh sandbox.

    It is made from workspace, changed by patches and then by changes; there the
    commands run in order, and then it is destroyed.
    """

    workspace: Workspace = proto.one(1, Workspace)
    patches: List[str] = proto.texts(2)
    changes: List[Change] = proto.many(3, Change)
    commands: List[Command] = proto.many(4, Command)


@dataclass
class RunResponse:
    """One log a command."""

    logs: List[Log] = proto.many(1, Log)


@dataclass
class ModelMessage:
    """One turn."""

    role: str = proto.text(1)  # system, user or assistant
    content: str = proto.text(2)


@dataclass
class ModelRequest:
    """Asks a model for texts."""

    messages: List[ModelMessage] = proto.many(1, ModelMessage)
    temperature: float = proto.double(2)
    max_tokens: int = proto.int64(3)
    seed: int = proto.uint64(4)
    n: int = proto.int64(5)  # answers; 0 means 1
    schema: str = proto.text(6)  # a JSON schema that the answers are to have; "" for plain text


@dataclass
class ModelResponse:
    """The texts."""

    texts: List[str] = proto.texts(1)


@dataclass
class LogLine:
    """A message for the host's log."""

    level: str = proto.text(1)  # debug, info, warn, error
    text: str = proto.text(2)


@dataclass
class Empty:
    """An answer without content."""
