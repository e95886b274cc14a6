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

    import types, unittest
    from importlib.util import spec_from_file_location

    case, modules, write, leave = unittest.TestCase, sys.modules, os.write, os._exit
    plain, fresh, load = case.assertEqual, types.ModuleType, unittest.TestLoader().loadTestsFromModule
    lines = 0

    def say(status, text):
        nonlocal lines
        lines += 1
        text = " ".join(text.split("\n"))
        data = (nonce + " " + status + " " + text + "\n").encode("utf-8", "replace")
        while data:
            data = data[write(report, data):]

    def show(text):
        write(quiet, text[:400].encode("utf-8", "replace"))

    # A value that would equal another one as well is no result: its class says yes
    # to everything. Only the tests themselves may have such classes, as matchers.
    def anything(a, b):
        if type(a) is type(b):
            if type(a) in (list, tuple):
                return any(anything(x, y) for x, y in zip(a, b))
            if type(a) is dict:
                return any(anything(a[k], b[k]) for k in a if k in b)
            return False
        for x, y in (a, b), (b, a):
            if type(y) in others and type(x) not in others and "test" not in str(type(x).__module__):
                try:
                    if x == others[type(y)](y):
                        return True
                except Exception:
                    pass
        return False

    others = {
        int: lambda v: v + 1000003, float: lambda v: v + 1000003.0, complex: lambda v: v + 1000003,
        str: lambda v: v + "\0other", bytes: lambda v: v + b"\0other", bool: lambda v: "other",
        type(None): lambda v: "other", list: lambda v: v + ["other"], tuple: lambda v: v + ("other",),
        dict: lambda v: {**v, "\0other": v}, set: lambda v: v | {"\0other"}, frozenset: lambda v: v | {"\0other"},
    }

    def assertEqual(self, first, second, msg=None):
        plain(self, first, second, msg)
        if anything(first, second):
            self.fail("a result that equals everything")

    case.assertEqual = assertEqual

    # Everything that decides a result, as it was before the code under test was
    # loaded; of the tests, their methods as they were before the first test.
    kept, size = {}, len(vars(case))

    def codes(value):
        inner = getattr(value, "__wrapped__", value)
        return getattr(value, "__code__", None), getattr(inner, "__code__", None)

    def keep(thing, wanted):
        kept[thing] = set(vars(thing)), [(k, v, codes(v)) for k, v in vars(thing).items() if wanted(k, v)]

    for name, module in list(modules.items()):
        if name.split(".")[0] in ("unittest", "contextlib"):
            keep(module, lambda k, v: k not in ("_MAX_LENGTH", "_interrupt_handler"))
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == name:
                    keep(value, lambda k, v: k not in ("maxDiff", "longMessage"))
    tools = set(kept)
    api = {k for k in dir(case) if callable(getattr(case, k))} - {"setUp", "tearDown", "setUpClass", "tearDownClass", "failureException"}

    def keep_tests(suite):
        for test in suite:
            if not isinstance(test, case):
                keep_tests(test)
                continue
            for thing in type(test).__mro__[:-1]:
                if thing not in kept:
                    keep(thing, lambda k, v: callable(v) or isinstance(v, (classmethod, staticmethod, property)))

    def same(thing):
        now, (names, was) = vars(thing), kept[thing]
        if thing not in tools and not api.isdisjoint(now.keys() - names):
            return False
        return all(now.get(k, kept) is v and codes(v) == c for k, v, c in was)

    def whole(test):
        return (
            modules.get("unittest") is unittest
            and unittest.TestCase is case
            and len(vars(case)) == size
            and all(same(thing) for thing in kept)
        )

    class Result(unittest.TestResult):
        def startTest(self, test):
            self.status = "failed"

        def stopTest(self, test):
            say(self.status if whole(test) else "tampered", test.id())

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
            show("%s: %s: %s\n" % (test.id(), err[0].__name__, err[1]))

    # The tests are read before any of them can run other code, and what is loaded
    # is what came of that text, whatever the code puts in its place.
    root = os.getcwd()
    texts, made = {}, {}
    for folder, name in wanted:
        place = os.path.join(root, folder) if folder else root
        if place not in sys.path:
            sys.path.append(place)
        path = os.path.join(place, *name.split(".")) + ".py"
        if os.path.isfile(path):
            with open(path, "rb") as f:
                texts[name] = path, f.read()

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name in texts:
                return spec_from_file_location(name, texts[name][0], loader=Finder)

        @staticmethod
        def create_module(spec):
            return None

        @staticmethod
        def exec_module(module):
            name = module.__spec__.name
            path, text = texts[name]
            space = vars(module)
            exec(compile(text, path, "exec", dont_inherit=True), space)
            made[name] = space

    sys.meta_path.insert(0, Finder)
    sys.argv = ["unittest"]
    result = Result()
    for _, name in wanted:
        try:
            __import__(name)
            if name not in made:
                raise ImportError("another module took its place")
            module = fresh(name)
            vars(module).update(made[name])
            suite = load(module)
            keep_tests(suite)
        except BaseException as e:
            show("import %s: %s: %s\n" % (name, type(e).__name__, e))
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
