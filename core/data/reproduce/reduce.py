# Prints the least part of a test file that a test needs, as a script that runs it.
# Arguments: the file, its dotted name, "unittest" or "pytest", the test's path in the
# file (Class.method, or a function's name). The file is parsed and not run.
import ast, sys


def names(node):
    for n in ast.walk(node):
        if isinstance(n, ast.Name):
            yield n.id
        elif isinstance(n, ast.arg):
            yield n.arg  # a fixture


def binds(node):
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(a.asname or a.name).split(".")[0] for a in node.names}
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def first(node):
    return min([node.lineno] + [d.lineno for d in getattr(node, "decorator_list", [])])


def is_test(name):
    return name.startswith("test")


def main():
    path, module, kind, test = sys.argv[1:5]
    with open(path, "rb") as f:
        text = f.read().decode("utf-8")
    lines = text.splitlines(keepends=True)
    tree = ast.parse(text)
    head, _, method = test.rpartition(".")
    top = (head or method).split(".")[0]
    wanted, keep = {top}, []
    package = module.split(".")[:-1]
    for node in reversed(tree.body):
        bound = binds(node)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            if getattr(node, "module", "") == "__future__" or "*" in bound or bound & wanted:
                keep.append(node)
            continue
        if isinstance(node, ast.If) and "__name__" in names(node.test):
            continue
        if not bound & wanted and not (isinstance(node, (ast.If, ast.Try)) and bound & wanted):
            continue
        keep.append(node)
        if isinstance(node, ast.ClassDef) and node.name == top and method != top:
            for part in node.decorator_list + node.bases + node.keywords:
                wanted.update(names(part))
            for item in node.body:
                if not (isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and is_test(item.name) and item.name != method):
                    wanted.update(names(item))
        else:
            wanted.update(names(node))
    out = []
    for node in reversed(keep):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            node = ast.ImportFrom(".".join(base + ([node.module] if node.module else [])), node.names, 0)
            out.append(ast.unparse(ast.fix_missing_locations(ast.Module([node], []))) + "\n")
            continue
        drop = set()
        if isinstance(node, ast.ClassDef) and node.name == top and method != top:
            for item in node.body:
                if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and is_test(item.name) and item.name != method:
                    drop.update(range(first(item), item.end_lineno + 1))
        block = "".join(l for i, l in enumerate(lines[first(node) - 1 : node.end_lineno], first(node)) if i not in drop)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            block = "\n\n" + block.rstrip() + "\n"
        out.append(block if block.endswith("\n") else block + "\n")
    script = "".join(out).lstrip("\n")
    if kind == "unittest":
        if "import unittest\n" not in script:
            script = "import unittest\n" + script if "from __future__" not in script else script.replace("\n", "\nimport unittest\n", 1)
        script += '\n\nif __name__ == "__main__":\n    unittest.main(argv=["reproduce.py", "-v", %r])\n' % test
    else:
        script += '\n\nif __name__ == "__main__":\n    import sys\n\n    import pytest\n\n    sys.exit(pytest.main(["-rA", "--tb=short", "-p", "no:cacheprovider", "-o", "addopts=", __file__ + %r]))\n' % ("::" + test.replace(".", "::"))
    compile(script, "reproduce.py", "exec")
    sys.stdout.write(script)


main()
