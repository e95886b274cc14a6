"""The skill that test_process starts; it does what the request's prompt says."""

import os
import threading

import valence

arrived = threading.Barrier(40)


class Wild(valence.Skill):
    name = "wild"
    version = "1.0.0"

    def evaluate(self, host, request):
        what, _, more = request.task.prompt.partition(" ")
        if what == "error":
            raise valence.Error(more)
        if what == "bug":
            raise LookupError(more)
        if what == "print":
            print(more)
            os.system(f"echo child {more}")
        if what == "meet":
            arrived.wait(60)
        if what == "ask":
            return valence.Verdict(reason=host.run(valence.RunRequest(patches=[more])).logs[0].output)
        if what == "hang":
            threading.Event().wait()
        return valence.Verdict(score=1, reason=what)


if __name__ == "__main__":
    valence.serve(Wild())
