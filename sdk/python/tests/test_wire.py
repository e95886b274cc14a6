"""Holds the messages to sdk/wire: its skill.proto and the bytes that its tests keep."""

import dataclasses
import math
import random
import re
import unittest
from pathlib import Path

from valence import proto, wire

WIRE = Path(__file__).parents[2] / "wire"


def messages():
    return {c.__name__: c for c in vars(wire).values() if dataclasses.is_dataclass(c)}


def golden(name):
    """Read what hex.Dump of Go wrote."""
    out = bytearray()
    for line in (WIRE / "testdata" / f"{name}.hex").read_text().splitlines():
        out += bytes.fromhex("".join(line.split("|")[0].split()[1:]))
    return bytes(out)


def arbitrary(message, rng, depth=0):
    """Make a message of random contents, also of those at the edges."""

    def value(f):
        if not isinstance(f.type, proto.Scalar):
            return arbitrary(f.type, rng, depth + 1)
        return rng.choice({
            "string": ["", "a", "é\n", "😀" * rng.randrange(40), "\x00"],
            "bytes": [b"", b"\xff", rng.randbytes(rng.randrange(300))],
            "bool": [False, True],
            "int64": [0, 1, -1, 127, 128, 2**63 - 1, -(2**63), rng.randrange(-(2**40), 2**40)],
            "uint64": [0, 1, 2**64 - 1, 2**63, rng.randrange(2**64)],
            "double": [0.0, -0.0, 0.5, 1, math.inf, 5e-324, rng.random()],
        }[f.type.name])

    m = message()
    for f in proto.fields(message).values():
        if f.repeated:
            setattr(m, f.name, [value(f) for _ in range(rng.randrange(3 if depth < 3 else 1))])
        elif not f.presence or rng.random() < 0.5:
            setattr(m, f.name, value(f))
    return m


class Contract(unittest.TestCase):
    maxDiff = None

    def test_every_field_is_that_of_skill_proto(self):
        text = re.sub(r"//.*", "", (WIRE / "skill.proto").read_text())
        said = {}
        for name, body in re.findall(r"message (\w+) \{(.*?)\}", text, re.S):
            lines = [line.split() for line in body.split(";") if line.strip()]
            said[name] = [(int(w[-1]), w[-3], w[-4], w[0] == "repeated") for w in lines]
        ours = {
            name: [
                (f.number, f.name, f.type.name if isinstance(f.type, proto.Scalar) else f.type.__name__, f.repeated)
                for f in proto.fields(c).values()
            ]
            for name, c in messages().items()
        }
        self.assertEqual(ours, said)
        self.assertGreater(len(said), 25)

    def test_released_bytes(self):
        names = {p.stem for p in (WIRE / "testdata").glob("*.hex")}
        self.assertEqual(set(messages()), names)
        for name in sorted(names):
            with self.subTest(name):
                b = golden(name)
                m = proto.unmarshal(b, messages()[name])
                self.assertEqual(proto.marshal(m).hex(), b.hex())
                for f in proto.fields(type(m)).values():
                    self.assertNotIn(getattr(m, f.name), ("", b"", 0, False, [], None), f.name)


class RoundTrip(unittest.TestCase):
    def test_arbitrary_messages(self):
        for name, message in messages().items():
            for seed in range(50):
                m = arbitrary(message, random.Random(f"{name} {seed}"))
                b = proto.marshal(m)
                self.assertEqual(proto.unmarshal(b, message), m, name)

    def test_garbage_is_refused_or_read(self):
        rng = random.Random(1)
        names = sorted(messages())
        read = 0
        for _ in range(3000):
            name = rng.choice(names)
            b = bytearray(golden(name))
            for _ in range(rng.randrange(1, 4)):
                if b:
                    b[rng.randrange(len(b))] = rng.randrange(256)
            try:
                m = proto.unmarshal(bytes(b), messages()[name])
            except proto.DecodeError:
                continue
            read += 1
            again = proto.marshal(m)
            self.assertEqual(proto.marshal(proto.unmarshal(again, type(m))), again)
        self.assertGreater(read, 100)


class Reading(unittest.TestCase):
    def test_refusals(self):
        for name, b, message, want in [
            ("field number 0", "00 00", wire.Pair, "bad field tag"),
            ("tag cut short", "80", wire.Pair, "bad field tag, 1 bytes before the end"),
            ("number cut short", "18 80", wire.Target, "field 3: bad number"),
            ("number of 11 bytes", "18 ff ff ff ff ff ff ff ff ff ff 01", wire.Target, "field 3: bad number"),
            ("number of 65 bits", "18 ff ff ff ff ff ff ff ff ff 02", wire.Target, "field 3: bad number"),
            ("text longer than the rest", "0a 05 61", wire.Pair, "field 1: says 5 bytes, 1 are left"),
            ("double cut short", "11 00 00", wire.Component, "field 2: cut short"),
            ("fixed32 cut short", "7d 00 00", wire.Component, "field 15: cut short"),
            ("group", "0b", wire.Pair, "field 1: unknown wire type 3"),
            ("text that is not UTF-8", "0a 01 ff", wire.Pair, "field 1: not UTF-8"),
            ("number where a text belongs", "08 01", wire.Pair, "field 1: wire type 0, want 2"),
            ("inside of a message", "0a 02 0a 05", wire.RunResponse, "field 1: field 1: says 5 bytes, 0 are left"),
        ]:
            with self.subTest(name), self.assertRaisesRegex(proto.DecodeError, want):
                proto.unmarshal(bytes.fromhex(b), message)

    def test_what_is_new_is_skipped(self):
        known = proto.marshal(wire.Pair("k", "v"))
        for more in ["98060a", "9a0603616263", "99060000000000000000", "9d0600000000"]:  # fields 99
            b = bytes.fromhex(more)
            self.assertEqual(proto.unmarshal(b + known + b, wire.Pair), wire.Pair("k", "v"))

    def test_merges_like_protobuf(self):
        a = proto.marshal(wire.RunRequest(workspace=wire.Workspace(dir="/a", env=["A=1"]), patches=["p"]))
        b = proto.marshal(wire.RunRequest(workspace=wire.Workspace(dir="/b", env=["B=2"]), patches=["q"]))
        want = wire.RunRequest(workspace=wire.Workspace(dir="/b", env=["A=1", "B=2"]), patches=["p", "q"])
        self.assertEqual(proto.unmarshal(a + b, wire.RunRequest), want)


class Writing(unittest.TestCase):
    def test_mistyped_values_are_named(self):
        for m, want in [
            (wire.Change(data="x"), "Change.data: want bytes, got str"),
            (wire.Change(path=b"x"), "Change.path: want str, got bytes"),
            (wire.Change(exec=1), "Change.exec: want bool, got int"),
            (wire.Verdict(score=True), "Verdict.score: want float, got bool"),
            (wire.Verdict(score=None), "Verdict.score: want float, got NoneType"),
            (wire.Task(collect="answer.txt"), "Task.collect: want list, got str"),
            (wire.Task(collect=[b"answer.txt"]), "Task.collect: want str, got bytes"),
            (wire.Task(workspace=None), "Task.workspace: want Workspace, got NoneType"),
            (wire.Task(reference=wire.Change()), "Task.reference: want Reference, got Change"),
            (wire.BuildResponse(tasks=[wire.Pair()]), "BuildResponse.tasks: want Task, got Pair"),
        ]:
            with self.subTest(want), self.assertRaisesRegex(TypeError, f"^{want}$"):
                proto.marshal(m)

    def test_numbers_that_do_not_fit(self):
        for m, want in [
            (wire.Target(line=2**63), "Target.line: 9223372036854775808 does not fit int64"),
            (wire.BuildRequest(seed=-1), "BuildRequest.seed: -1 does not fit uint64"),
            (wire.Verdict(score=10**400), "Verdict.score: 10+ does not fit double"),
        ]:
            with self.subTest(want), self.assertRaisesRegex(ValueError, f"^{want}$"):
                proto.marshal(m)

    def test_a_lone_surrogate_is_replaced(self):
        b = proto.marshal(wire.Log(output="a\udcffb"))
        self.assertEqual(proto.unmarshal(b, wire.Log).output, "a\ufffdb")

    def test_whole_numbers_are_numbers(self):
        self.assertEqual(proto.marshal(wire.Verdict(score=1)), proto.marshal(wire.Verdict(score=1.0)))


if __name__ == "__main__":
    unittest.main()
