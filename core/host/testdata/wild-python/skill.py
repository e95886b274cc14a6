"""Misbehaves as the task's prompt tells it to."""

import os
import sys
import threading

import valence


class Wild(valence.Skill):
    name = "wild-python"
    version = "1.2.3"

    def evaluate(self, host: valence.Host, request: valence.EvaluateRequest) -> valence.Verdict:
        what = request.task.prompt
        if what == "error":
            raise valence.Error("an orderly error")
        if what == "bug":
            return valence.Verdict(score=1 / 0)
        if what == "mistyped":
            return valence.Verdict(reason=7)  # type: ignore[arg-type]
        if what == "exit":
            sys.exit("enough")
        if what == "recurse":
            return self.evaluate(host, request)
        if what == "memory":
            return valence.Verdict(reason=str(len(bytearray(1 << 40))))
        if what == "die":
            print("last words", flush=True)
            os._exit(7)
        if what == "loop":
            while True:
                pass
        if what == "wait":
            threading.Event().wait()
        if what == "score 1.5":
            return valence.Verdict(score=1.5)
        if what == "long answer":
            return valence.Verdict(reason="x" * (64 << 20))
        if what == "run":
            return valence.Verdict(score=0.5, reason=self.run(host, request.task.key))
        if what == "model":
            host.model(valence.ModelRequest())
        if what == "log":
            host.log("info", "a word")
        if what == "many":
            return self.many(host)
        if what == "environment":
            return valence.Verdict(reason=" ".join(sorted(os.environ)) + " in " + str(os.listdir(".")))
        return valence.Verdict(score=0.5)

    def run(self, host: valence.Host, command: str) -> str:
        return host.run(valence.RunRequest(commands=[valence.Command(shell=command)])).logs[0].output

    def many(self, host: valence.Host) -> valence.Verdict:
        """Ask the host over and over, at last from many threads at once."""
        right = [self.run(host, f"{n}") == f"ran {n}" for n in range(100)]

        def ask(n: int) -> None:
            right.append(self.run(host, f"{n}") == f"ran {n}")

        threads = [threading.Thread(target=ask, args=[n]) for n in range(32)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return valence.Verdict(score=float(right == [True] * 132))


if __name__ == "__main__":
    valence.serve(Wild())
