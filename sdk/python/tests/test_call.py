"""One call, from bytes to bytes."""

import contextlib
import io
import unittest

import valence
from valence import proto, wire
from valence.call import call, describe


class Named(valence.Skill):
    name = "named"
    version = "1.0.0"


class Full(Named):
    def build(self, host, request):
        return wire.BuildResponse(skipped=request.record.id)

    def evaluate(self, host, request):
        what = request.task.prompt
        if what == "error":
            raise valence.Error("an error")
        if what == "bug":
            raise KeyError("k")
        if what == "bare bug":
            raise ValueError
        if what == "exit":
            raise SystemExit(3)
        if what == "recursion":
            return self.evaluate(host, request)
        if what == "nothing":
            return None
        if what == "another type":
            return 1.0
        if what == "mistyped":
            return wire.Verdict(score="1")
        if what == "run":
            return wire.Verdict(reason=host.run(wire.RunRequest(patches=["p"])).logs[0].output)
        if what == "log":
            host.log("info", "a line")
        return wire.Verdict(score=1, reason=what)

    def judge(self, host, request):
        return wire.JudgeResponse(rationale=host.ask(request).rationale)


def refuse(method, request):
    raise valence.Error(f"capability {method}: denied")


def prompt(what):
    return proto.marshal(wire.EvaluateRequest(task=wire.Task(prompt=what)))


class Answers(unittest.TestCase):
    def check(self, skill, ask, method, request, want):
        self.assertEqual(call(skill, ask, method, request), proto.marshal(want))

    def test_answers(self):
        self.check(Full(), refuse, "Build", proto.marshal(wire.BuildRequest(record=wire.Record(id="x"))), wire.BuildResponse(skipped="x"))
        self.check(Full(), refuse, "Evaluate", prompt("p"), wire.Verdict(score=1, reason="p"))

    def test_describe(self):
        self.check(Full(), refuse, "Describe", b"", wire.Description("named", "1.0.0", 1, ["build", "evaluate", "judge"]))
        self.assertEqual(describe(Named()).roles, [])

        class Inherits(Full):
            pass

        self.assertEqual(describe(Inherits()).roles, ["build", "evaluate", "judge"])

    def test_services(self):
        asked = []

        def answer(method, request):
            asked.append((method, request))
            return proto.marshal({
                "Run": wire.RunResponse(logs=[wire.Log(output="ran")]),
                "Ask": wire.JudgeResponse(rationale="because"),
                "Log": wire.Empty(),
            }[method])

        self.check(Full(), answer, "Evaluate", prompt("run"), wire.Verdict(reason="ran"))
        self.check(Full(), answer, "Evaluate", prompt("log"), wire.Verdict(score=1, reason="log"))
        question = wire.JudgeRequest(issue="i")
        self.check(Full(), answer, "Judge", proto.marshal(question), wire.JudgeResponse(rationale="because"))
        self.assertEqual(asked, [
            ("Run", proto.marshal(wire.RunRequest(patches=["p"]))),
            ("Log", proto.marshal(wire.LogLine("info", "a line"))),
            ("Ask", proto.marshal(question)),
        ])

    def test_a_log_that_is_refused_does_no_harm(self):
        self.check(Full(), refuse, "Evaluate", prompt("log"), wire.Verdict(score=1, reason="log"))


class Failures(unittest.TestCase):
    def test_failures(self):
        for skill, method, request, want, traced in [
            (Named(), "Build", b"", "plugin named does not offer the role build", False),
            (Named(), "Evaluate", b"", "plugin named does not offer the role evaluate", False),
            (Named(), "Judge", b"", "plugin named does not offer the role judge", False),
            (Full(), "Describe", b"\xff", "wire: bad field tag, 1 bytes before the end", False),
            (Full(), "Build", b"\xff", "wire: bad field tag, 1 bytes before the end", False),
            (Full(), "Evaluate", prompt("error"), "an error", False),
            (Full(), "Evaluate", prompt("run"), "capability Run: denied", False),
            (Full(), "Evaluate", prompt("nothing"), "the plugin returned neither an answer nor an error", False),
            (Full(), "Evaluate", prompt("another type"), "evaluate returned float, want Verdict", False),
            (Full(), "Evaluate", prompt("mistyped"), "panic: TypeError: Verdict.score: want float, got str", True),
            (Full(), "Evaluate", prompt("bug"), "panic: KeyError: 'k'", True),
            (Full(), "Evaluate", prompt("bare bug"), "panic: ValueError", True),
            (Full(), "Evaluate", prompt("exit"), "panic: SystemExit: 3", True),
            (Full(), "Evaluate", prompt("recursion"), "panic: RecursionError: maximum recursion depth exceeded", True),
        ]:
            printed = io.StringIO()
            with self.subTest(want), contextlib.redirect_stderr(printed):
                with self.assertRaises(valence.Error) as caught:
                    call(skill, refuse, method, request)
                self.assertTrue(str(caught.exception).startswith(want), caught.exception)
                self.assertEqual("Traceback" in printed.getvalue(), traced)


if __name__ == "__main__":
    unittest.main()
