# One request a line: {"a": calls, "g": lines of the function f, "m": [[line, text], ...]}.
# One answer a line: {"g": what each call gives, "m": for each variant of f the calls
# that give something else, or null if the variant cannot be told from noise}.
# A value is its repr; "!Name" stands for an exception, "?" for a value unfit to print.
import builtins
import json
import signal
import sys


class Expired(BaseException):
    pass


def expire(signum, frame):
    raise Expired


signal.signal(signal.SIGVTALRM, expire)
ALLOWED = "abs all any bool dict enumerate filter float int isinstance len list map max min range repr reversed round set sorted str sum tuple zip"
BUILTINS = {name: getattr(builtins, name) for name in ALLOWED.split()}


def load(lines):
    space = {"__builtins__": BUILTINS}
    exec(compile("\n".join(lines), "f", "exec"), space)
    return space["f"]


def give(f, args):
    return f(*[a[:] if type(a) is list else a for a in args])


def show(value):
    text = repr(value)
    return text if len(text) <= 40 and text[0] != "<" else "?"


def golden(f, calls):
    values, texts = [], []
    for args in calls:
        try:
            value = give(f, args)
            text = show(value)
        except Exception as e:
            value, text = None, "!" + type(e).__name__
        values.append(value)
        texts.append(text)
    return values, texts


def differences(f, calls, values, texts):
    out = {}
    for i, args in enumerate(calls):
        if texts[i][0] in "!?":
            continue
        try:
            value = give(f, args)
            if value == values[i]:
                continue
            text = show(value)
            if text == "?":
                return None
        except Exception as e:
            text = "!" + type(e).__name__
        out[i] = text
    return out


def limited(work, *args):
    # CPU time, not the clock: a busy machine must not change the answer.
    signal.setitimer(signal.ITIMER_VIRTUAL, 2)
    try:
        return work(*args)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def answer(request):
    calls, lines = request["a"], request["g"]
    values, texts = limited(golden, load(lines), calls)
    variants = []
    for at, text in request["m"]:
        try:
            f = load(lines[:at] + [text] + lines[at + 1:])
            variants.append(limited(differences, f, calls, values, texts))
        except (Expired, SyntaxError):
            variants.append(None)
    return {"g": texts, "m": variants}


out = [json.dumps(answer(json.loads(line)), separators=(",", ":")) for line in sys.stdin]
sys.stdout.write("\n".join(out) + "\n")
