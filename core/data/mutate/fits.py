# Prints which of some versions of a function can stand in the place of the first:
# they compile, differ in more than blanks, and have no comment that it has not.
# Arguments are names of files, each the lines of a function at its own indentation.
# Nothing of them is run.
import ast, io, sys, tokenize


def read(name):
    with open(name, encoding="utf-8") as f:
        text = f.read()
    if text[:1] in " \t":
        text = "if 1:\n" + text
    tree = ast.parse(text)
    compile(tree, name, "exec")
    comments = {t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.COMMENT}
    return ast.dump(tree), comments


def main():
    first, told = read(sys.argv[1])
    seen = {first}
    for name in sys.argv[2:]:
        try:
            code, comments = read(name)
        except Exception:
            continue
        if code not in seen and comments <= told:
            seen.add(code)
            print(name)


main()
