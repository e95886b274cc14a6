"""The protobuf encoding of dataclasses.

A class lists its fields once, each with its number; marshal and unmarshal walk
that list, so the two directions cannot drift apart:

    @dataclass
    class Pair:
        key: str = proto.text(1)
        value: str = proto.text(2)

Bytes are those of proto3: fields in ascending order, defaults left out, unknown
fields skipped.
"""

from __future__ import annotations

import functools
import math
import re
import struct
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Type, TypeVar

M = TypeVar("M")

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class DecodeError(ValueError):
    """Bytes that are no message; the text says at which field they stop making sense."""


@dataclass(frozen=True)
class Scalar:
    """A type that is no message: its name in proto3, its wire type and the two directions."""

    name: str
    wire: int
    python: type
    default: Any
    put: Callable[[Any], bytes]
    get: Callable[[Any], Any]


@dataclass(frozen=True)
class Field:
    """One line of a message's list. The type is a Scalar or the class of a message."""

    name: str
    number: int
    type: Any
    repeated: bool
    presence: bool  # absent is None

    @property
    def wire(self) -> int:
        return self.type.wire if isinstance(self.type, Scalar) else _BYTES


def text(number: int) -> str:
    """A string."""
    return _declare(number, _TEXT, default="")  # type: ignore[no-any-return]


def data(number: int) -> bytes:
    """Bytes."""
    return _declare(number, _DATA, default=b"")  # type: ignore[no-any-return]


def flag(number: int) -> bool:
    """A truth value."""
    return _declare(number, _FLAG, default=False)  # type: ignore[no-any-return]


def int64(number: int) -> int:
    """A signed number of 64 bits."""
    return _declare(number, _INT64, default=0)  # type: ignore[no-any-return]


def uint64(number: int) -> int:
    """An unsigned number of 64 bits."""
    return _declare(number, _UINT64, default=0)  # type: ignore[no-any-return]


def double(number: int) -> float:
    """A number with a fraction."""
    return _declare(number, _DOUBLE, default=0.0)  # type: ignore[no-any-return]


def texts(number: int) -> List[str]:
    """A list of strings."""
    return _declare(number, _TEXT, default_factory=list)  # type: ignore[no-any-return]


def one(number: int, message: Type[M]) -> M:
    """A message, left out when it is empty."""
    return _declare(number, message, default_factory=message)  # type: ignore[no-any-return]


def many(number: int, message: Type[M]) -> List[M]:
    """A list of messages."""
    return _declare(number, message, default_factory=list)  # type: ignore[no-any-return]


def optional(number: int, message: Type[M]) -> Optional[M]:
    """A message or None."""
    return _declare(number, message, default=None)  # type: ignore[no-any-return]


def _declare(number: int, type: Any, **default: Any) -> Any:
    return field(metadata={"number": number, "type": type}, **default)


@functools.lru_cache(maxsize=None)
def fields(message: Any) -> Dict[int, Field]:
    """A message's fields by their numbers, in ascending order."""
    listed = {}
    for f in sorted(dataclass_fields(message), key=lambda f: f.metadata["number"]):
        number, type = f.metadata["number"], f.metadata["type"]
        listed[number] = Field(f.name, number, type, f.default_factory is list, f.default is None)
    return listed


def marshal(m: Any) -> bytes:
    """Give a message's bytes. A value of another type than its field's is a TypeError, too large a number a ValueError."""
    out = bytearray()
    for f in fields(m.__class__).values():
        value = getattr(m, f.name)
        if f.repeated:
            if not isinstance(value, (list, tuple)):
                raise _mistyped(m, f, "list", value)
            for v in value:
                _append(out, f, _encode(m, f, v))
        elif value is not None or not f.presence:
            b = _encode(m, f, value)
            if f.presence or not _absent(f, value, b):
                _append(out, f, b)
    return bytes(out)


def unmarshal(b: bytes, message: Type[M]) -> M:
    """Read a message. Raises DecodeError."""
    m = message()
    _merge(m, b)
    return m


def _absent(f: Field, value: Any, b: bytes) -> bool:
    if not isinstance(f.type, Scalar):
        return not b
    if f.type is _DOUBLE and math.copysign(1, value) < 0:
        return False  # -0.0 equals the default and is another number
    return bool(value == f.type.default)


def _encode(m: Any, f: Field, value: Any) -> bytes:
    if not isinstance(f.type, Scalar):
        if not isinstance(value, f.type):
            raise _mistyped(m, f, f.type.__name__, value)
        return marshal(value)
    want = f.type.python
    if not isinstance(value, (int, float) if want is float else want) or (isinstance(value, bool) and want is not bool):
        raise _mistyped(m, f, want.__name__, value)
    try:
        return f.type.put(value)
    except (OverflowError, struct.error):
        raise ValueError(f"{type(m).__name__}.{f.name}: {value} does not fit {f.type.name}") from None


def _mistyped(m: Any, f: Field, want: str, value: Any) -> TypeError:
    return TypeError(f"{type(m).__name__}.{f.name}: want {want}, got {type(value).__name__}")


def _append(out: bytearray, f: Field, b: bytes) -> None:
    out += _varint(f.number << 3 | f.wire)
    if f.wire == _BYTES:
        out += _varint(len(b))
    out += b


def _merge(m: Any, b: bytes) -> None:
    """Read b into m as proto3 does: the last scalar wins, lists grow, messages merge."""
    known = fields(m.__class__)
    for number, wire, value in _scan(b):
        f = known.get(number)
        if f is None:
            continue
        if wire != f.wire:
            raise DecodeError(f"field {number}: wire type {wire}, want {f.wire}")
        try:
            if isinstance(f.type, Scalar):
                v = f.type.get(value)
            else:
                v = None if f.repeated else getattr(m, f.name)
                v = f.type() if v is None else v
                _merge(v, value)
        except UnicodeDecodeError:
            raise DecodeError(f"field {number}: not UTF-8") from None
        except DecodeError as e:
            raise DecodeError(f"field {number}: {e}") from None
        if f.repeated:
            getattr(m, f.name).append(v)
        else:
            setattr(m, f.name, v)


def _scan(b: bytes) -> Iterator[Tuple[int, int, Any]]:
    """Visit the occurrences of fields: number, wire type, and an int or bytes."""
    at = 0
    while at < len(b):
        left = len(b) - at
        tag, at = _read(b, at)
        number, wire = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise DecodeError(f"bad field tag, {left} bytes before the end")
        if wire == _VARINT:
            value, at = _read(b, at)
            if at < 0:
                raise DecodeError(f"field {number}: bad number")
            yield number, wire, value
            continue
        if wire == _BYTES:
            n, start = _read(b, at)
            at = max(start, at)
            if start < 0 or n > len(b) - at:
                raise DecodeError(f"field {number}: says {n} bytes, {len(b) - at} are left")
        elif wire in (_FIXED64, _FIXED32):
            n = 8 if wire == _FIXED64 else 4
            if n > len(b) - at:
                raise DecodeError(f"field {number}: cut short")
        else:
            raise DecodeError(f"field {number}: unknown wire type {wire}")
        yield number, wire, b[at : at + n]
        at += n


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def _read(b: bytes, at: int) -> Tuple[int, int]:
    """Read a number of at most 64 bits, and the place after it; 0 and -1 if there is none."""
    n = 0
    for i in range(min(10, len(b) - at)):
        n |= (b[at + i] & 0x7F) << 7 * i
        if b[at + i] < 0x80:
            return (n, at + i + 1) if n < 1 << 64 else (0, -1)
    return 0, -1


def _signed(n: int) -> bytes:
    return _varint(int.from_bytes(struct.pack("<q", n), "little"))


def _unsigned(n: int) -> bytes:
    return _varint(int.from_bytes(struct.pack("<Q", n), "little"))


def _utf8(s: str) -> bytes:
    try:
        return s.encode()
    except UnicodeEncodeError:  # a lone surrogate, which other decoders refuse
        return re.sub("[\ud800-\udfff]", "\ufffd", s).encode()


_TEXT = Scalar("string", _BYTES, str, "", _utf8, lambda b: b.decode())
_DATA = Scalar("bytes", _BYTES, bytes, b"", bytes, bytes)
_FLAG = Scalar("bool", _VARINT, bool, False, lambda v: _varint(int(v)), lambda n: n != 0)
_INT64 = Scalar("int64", _VARINT, int, 0, _signed, lambda n: n - (1 << 64) if n >> 63 else n)
_UINT64 = Scalar("uint64", _VARINT, int, 0, _unsigned, lambda n: n)
_DOUBLE = Scalar("double", _FIXED64, float, 0.0, lambda v: struct.pack("<d", v), lambda b: struct.unpack("<d", b)[0])
