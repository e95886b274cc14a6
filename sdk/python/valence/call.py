"""One call of a skill, from bytes to bytes. What carries the bytes is elsewhere."""

from __future__ import annotations

import sys
import traceback
from typing import Any, Callable, Dict, List, NamedTuple, Type, TypeVar

from . import proto, wire
from .skill import Error, Host, Skill

Ask = Callable[[str, bytes], bytes]
"""Takes one request to the host, by the method's name in skill.proto. Raises Error."""

M = TypeVar("M")


class Role(NamedTuple):
    """What a skill may do: the name in plugin.toml is that of the method."""

    name: str
    request: type
    answer: type


ROLES: Dict[str, Role] = {
    "Build": Role("build", wire.BuildRequest, wire.BuildResponse),
    "Evaluate": Role("evaluate", wire.EvaluateRequest, wire.Verdict),
    "Judge": Role("judge", wire.JudgeRequest, wire.JudgeResponse),
}
"""The roles by their methods' names in skill.proto."""

METHODS: List[str] = ["Describe", *ROLES]


def call(skill: Skill, ask: Ask, method: str, request: bytes) -> bytes:
    """Serve one method of skill.proto on skill. Every failure is an Error with the text for the host."""
    try:
        return _serve(skill, ask, method, request)
    except Error:
        raise
    except BaseException as e:  # not even sys.exit ends the process, which serves other calls
        traceback.print_exc(file=sys.stderr)
        sys.stderr.flush()
        said = str(e)
        raise Error(f"panic: {type(e).__name__}" + (f": {said}" if said else "")) from None


def describe(skill: Skill) -> wire.Description:
    """Say what skill is."""
    roles = [r.name for r in ROLES.values() if _offers(skill, r)]
    return wire.Description(name=skill.name, version=skill.version, abi=wire.ABI, roles=roles)


def _offers(skill: Skill, role: Role) -> bool:
    return getattr(type(skill), role.name) is not getattr(Skill, role.name)


def _serve(skill: Skill, ask: Ask, method: str, request: bytes) -> bytes:
    if method == "Describe":
        _read(request, wire.DescribeRequest)
        return _written("answer", describe(skill))
    role = ROLES[method]
    if not _offers(skill, role):
        raise Error(f"plugin {skill.name} does not offer the role {role.name}")
    answer: Any = getattr(skill, role.name)(_Services(ask), _read(request, role.request))
    if answer is None:
        raise Error("the plugin returned neither an answer nor an error")
    if not isinstance(answer, role.answer):
        raise Error(f"{role.name} returned {type(answer).__name__}, want {role.answer.__name__}")
    return _written("answer", answer)


def _written(what: str, message: Any) -> bytes:
    b = proto.marshal(message)
    if len(b) > wire.MAX_MESSAGE:
        raise Error(f"{what} of {len(b)} bytes, {wire.MAX_MESSAGE} is the most")
    return b


def _read(b: bytes, message: Type[M]) -> M:
    try:
        return proto.unmarshal(b, message)
    except proto.DecodeError as e:
        raise Error(f"wire: {e}") from None


class _Services(Host):
    """The host's services for one call."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def run(self, request: wire.RunRequest) -> wire.RunResponse:
        return _read(self._ask("Run", _written("request", request)), wire.RunResponse)

    def model(self, request: wire.ModelRequest) -> wire.ModelResponse:
        return _read(self._ask("Model", _written("request", request)), wire.ModelResponse)

    def ask(self, request: wire.JudgeRequest) -> wire.JudgeResponse:
        return _read(self._ask("Ask", _written("request", request)), wire.JudgeResponse)

    def log(self, level: str, text: str) -> None:
        try:
            self._ask("Log", _written("request", wire.LogLine(level=level, text=text)))
        except Error:
            pass
