"""check.py WORDS: is after.py what before.py is, but with a docstring of so many words
in every function? Exit status 0, or 1 and why. It reads both and runs neither."""

import ast
import sys


def functions(tree):
    return [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]


def code(tree):
    """The code without its functions' docstrings."""
    for f in functions(tree):
        if ast.get_docstring(f) is not None:
            f.body = f.body[1:] or [ast.Pass()]
    return ast.dump(tree)


before = ast.parse(open("before.py", "rb").read())
try:
    after = ast.parse(open("after.py", "rb").read())
    short = [f.name for f in functions(after) if len((ast.get_docstring(f) or "").split()) < int(sys.argv[1])]
    same = code(before) == code(after)
except Exception as e:
    sys.exit("it is no Python: %s" % type(e).__name__)
if short:
    sys.exit("too short a docstring: " + ", ".join(short))
if not same:
    sys.exit("more than docstrings was changed")
