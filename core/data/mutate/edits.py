# Lists the functions of Python files and the small mistakes that can be made in each.
# Reads the names of files from its arguments and prints one JSON object a line:
# {"path", "name", "line", "edits": [[start, end, new, operator], ...]}, offsets in bytes.
# Nothing of the files is run: they are parsed and compiled.
import ast, json, sys, warnings

sys.setrecursionlimit(20000)
warnings.simplefilter("error")  # such as a comparison that is always true
MOST = 80  # edits of one function
LONGEST = 20000  # bytes of a function; longer ones are data

COMPARE = {
    ast.Lt: ("<", ["<=", ">"]), ast.LtE: ("<=", ["<", ">="]), ast.Gt: (">", [">=", "<"]), ast.GtE: (">=", [">", "<="]),
    ast.Eq: ("==", ["!="]), ast.NotEq: ("!=", ["=="]), ast.Is: ("is", ["is not"]), ast.IsNot: ("is not", ["is"]),
    ast.In: ("in", ["not in"]), ast.NotIn: ("not in", ["in"]),
}
BINARY = {
    ast.Add: ("+", ["-"]), ast.Sub: ("-", ["+"]), ast.Mult: ("*", ["+", "//"]), ast.Div: ("/", ["*", "//"]), ast.FloorDiv: ("//", ["/", "*"]),
    ast.Mod: ("%", ["//"]), ast.Pow: ("**", ["*"]), ast.BitAnd: ("&", ["|"]), ast.BitOr: ("|", ["&"]), ast.BitXor: ("^", ["&"]),
    ast.LShift: ("<<", [">>"]), ast.RShift: (">>", ["<<"]),
}


class Edits(ast.NodeVisitor):
    def __init__(self, source, starts):
        self.source, self.starts, self.out = source, starts, []

    def at(self, line, column):
        return self.starts[line - 1] + column

    def span(self, node):
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def text(self, node):
        a, b = self.span(node)
        return self.source[a:b].decode("utf-8")

    def put(self, a, b, new, operator):
        if self.source[a:b].decode("utf-8") != new:
            self.out.append((a, b, new, operator))

    def between(self, left, right, old, new, operator):
        a, b = self.span(left)[1], self.span(right)[0]
        gap = self.source[a:b]
        token = old.encode()
        if b"#" in gap or gap.count(token) != 1:
            return
        i = a + gap.index(token)
        self.put(i, i + len(token), new, operator)

    def visit_Compare(self, node):
        left = node.left
        for op, right in zip(node.ops, node.comparators):
            if type(op) in COMPARE:
                old, news = COMPARE[type(op)]
                for i, new in enumerate(news):
                    boundary = old in ("<", "<=", ">", ">=") and i == 0
                    self.between(left, right, old, new, "boundary" if boundary else "comparison")
            left = right
        self.generic_visit(node)

    def visit_BoolOp(self, node):
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:]):
            self.between(left, right, old, new, "boolean")
        for value in node.values:
            a, b = self.span(node)
            self.put(a, b, "(" + self.text(value) + ")", "condition")
        self.generic_visit(node)

    def visit_UnaryOp(self, node):
        if isinstance(node.op, (ast.Not, ast.USub)):
            a, b = self.span(node)
            self.put(a, b, "(" + self.text(node.operand) + ")", "negation")
        self.generic_visit(node)

    def visit_BinOp(self, node):
        text = isinstance(node.left, (ast.Constant, ast.JoinedStr)) and not isinstance(getattr(node.left, "value", 0), (int, float))
        if type(node.op) in BINARY and not text:
            old, news = BINARY[type(node.op)]
            for new in news:
                self.between(node.left, node.right, old, new, "arithmetic")
        self.generic_visit(node)

    def visit_AugAssign(self, node):
        if type(node.op) in BINARY:
            old, news = BINARY[type(node.op)]
            self.between(node.target, node.value, old + "=", news[0] + "=", "arithmetic")
        self.remove(node)
        self.generic_visit(node)

    def visit_Constant(self, node):
        a, b = self.span(node)
        v = node.value
        if v is True or v is False:
            self.put(a, b, str(not v), "constant")
        elif type(v) is int and abs(v) < 10**9:
            self.put(a, b, str(v + 1), "off by one")
            if v > 0:
                self.put(a, b, str(v - 1), "off by one")
        elif type(v) is float and v == v and abs(v) < 1e300:
            self.put(a, b, repr(v + 1.0), "constant")
        elif type(v) is str and 0 < len(v) <= 20 and self.source[a:a + 1] in (b"'", b'"'):
            self.put(a, b, '""', "constant")

    def visit_JoinedStr(self, node):
        pass  # places within are not told by all versions

    def visit_Return(self, node):
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            a, b = self.span(node.value)
            self.put(a, b, "None", "return")
        self.generic_visit(node)

    def remove(self, node):
        a, b = self.span(node)
        self.put(a, b, "pass", "statement")

    def visit_Expr(self, node):
        if isinstance(node.value, (ast.Call, ast.Await)):
            self.remove(node)
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Raise(self, node):
        self.remove(node)
        self.generic_visit(node)

    def visit_Break(self, node):
        a, b = self.span(node)
        self.put(a, b, "continue", "loop")

    def visit_Continue(self, node):
        a, b = self.span(node)
        self.put(a, b, "break", "loop")

    def condition(self, node):
        a, b = self.span(node.test)
        self.put(a, b, "not (" + self.text(node.test) + ")", "condition")
        self.generic_visit(node)

    visit_If = visit_IfExp = condition

    def visit_Call(self, node):
        args = node.args
        if len(args) >= 2 and not any(isinstance(x, ast.Starred) for x in args[:2]) and self.text(args[0]) != self.text(args[1]):
            (a, b), (c, d) = self.span(args[0]), self.span(args[1])
            between = self.source[b:c].decode("utf-8")
            self.put(a, d, self.text(args[1]) + between + self.text(args[0]), "argument order")
        if isinstance(node.func, ast.Name) and node.func.id in ("range", "len") and args and not isinstance(args[-1], ast.Starred):
            if node.func.id == "range":
                a, b = self.span(args[min(len(args), 2) - 1])
                for sign in "+-":
                    self.put(b, b, " " + sign + " 1", "off by one")
            else:
                a, b = self.span(node)
                self.put(a, b, "(" + self.text(node) + " - 1)", "off by one")
        self.generic_visit(node)

    def visit_Slice(self, node):
        for bound in (node.lower, node.upper):
            if bound is not None and not isinstance(bound, ast.Constant):
                a, b = self.span(bound)
                self.put(a, b, "(" + self.text(bound) + ") + 1", "off by one")
        self.generic_visit(node)

    def visit_FunctionDef(self, node):
        for statement in node.body:
            self.visit(statement)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node):
        self.visit(node.body)

    def visit_AnnAssign(self, node):
        if node.value is not None:
            self.visit(node.value)


def functions(tree, prefix=""):
    for node in getattr(tree, "body", []):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, prefix + node.name + ".")
        elif isinstance(node, (ast.If, ast.Try)):
            yield from functions(node, prefix)


def main():
    for path in sys.argv[1:]:
        try:
            with open(path, "rb") as f:
                source = f.read()
            if source.startswith(b"\xef\xbb\xbf") or b"\f" in source:
                continue
            source.decode("utf-8")
            tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError, OSError):
            continue
        starts = [0]
        for line in source.split(b"\n"):
            starts.append(starts[-1] + len(line) + 1)
        for name, node in functions(tree):
            # The function alone, at its indentation.
            begin, end = starts[node.lineno - 1], starts[node.end_lineno]
            if end - begin > LONGEST:
                continue
            block = b"" if node.col_offset == 0 else b"if 1:\n"
            whole = ast.dump(ast.parse(block + source[begin:end]))
            edits = Edits(source, starts)
            try:
                edits.visit(node)
            except (UnicodeDecodeError, RecursionError, AttributeError):
                continue
            all = sorted(set(edits.out))
            # Spread over the function where there are too many.
            if len(all) > MOST:
                all = [all[i * len(all) // MOST] for i in range(MOST)]
            good, seen = [], set()
            for a, b, new, operator in all:
                text = block + source[begin:a] + new.encode() + source[b:end]
                if text in seen:
                    continue
                seen.add(text)
                try:
                    again = ast.parse(text)
                    compile(again, path, "exec")
                except Exception:
                    continue
                if ast.dump(again) != whole:
                    good.append([a, b, new, operator])
            if good:
                print(json.dumps({"path": path, "name": name, "line": node.lineno, "end": node.end_lineno, "edits": good}))


main()
