import os, sys


def main():
    given = sys.stdin.buffer.read().decode("utf-8").split("\n")
    nonce, wanted = given[0], [line.split("\t") for line in given[1:] if line]
    report = os.dup(1)
    os.set_inheritable(report, False)
    if hasattr(os, "memfd_create"):
        quiet = os.memfd_create("tests")
    else:
        quiet = os.open(os.devnull, os.O_RDWR)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)

    import unittest

    case, modules, write, leave = unittest.TestCase, sys.modules, os.write, os._exit
    kept = dict(vars(case))
    lines = 0

    def say(status, text):
        nonlocal lines
        lines += 1
        text = " ".join(text.split("\n"))
        data = (nonce + " " + status + " " + text + "\n").encode("utf-8", "replace")
        while data:
            data = data[write(report, data):]

    def whole():
        now = vars(case)
        return (
            modules.get("unittest") is unittest
            and unittest.TestCase is case
            and len(now) == len(kept)
            and all(now.get(k) is v for k, v in kept.items())
        )

    class Result(unittest.TestResult):
        def startTest(self, test):
            self.status = "failed"

        def stopTest(self, test):
            say(self.status if whole() else "tampered", test.id())

        def addSuccess(self, test):
            self.status = "passed"

        def addExpectedFailure(self, test, err):
            self.status = "passed"

        def addSkip(self, test, reason):
            self.status = "skipped"

        def addUnexpectedSuccess(self, test):
            self.status = "failed"

        def addFailure(self, test, err):
            self.status = "failed"
            self.show(test, err)

        def addError(self, test, err):
            self.status = "failed"
            self.show(test, err)
            if not isinstance(test, case):
                say("failed", test.id())

        def addSubTest(self, test, subtest, err):
            if err is not None:
                self.show(subtest, err)

        def show(self, test, err):
            text = "%s: %s: %s\n" % (test.id(), err[0].__name__, err[1])
            write(quiet, text[:400].encode("utf-8", "replace"))

    root = os.getcwd()
    for folder, _ in wanted:
        place = os.path.join(root, folder) if folder else root
        if place not in sys.path:
            sys.path.append(place)
    sys.argv = ["unittest"]
    result = Result()
    for _, name in wanted:
        try:
            __import__(name)
            suite = unittest.TestLoader().loadTestsFromModule(sys.modules[name])
        except BaseException as e:
            write(quiet, ("import %s: %s: %s\n" % (name, type(e).__name__, e)).encode("utf-8", "replace"))
            say("failed", name)
            continue
        suite.run(result)
    say("end", str(lines))
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass
    if hasattr(os, "memfd_create"):
        size = os.lseek(quiet, 0, os.SEEK_END)
        write(report, os.pread(quiet, 2000, max(0, size - 2000)))
    leave(0)


main()
