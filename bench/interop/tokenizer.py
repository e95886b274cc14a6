"""Check that a policy folder's tokenizer is the same in Hugging Face's libraries.

    python bench/interop/tokenizer.py FOLDER       check a folder
    python bench/interop/tokenizer.py --train TEXTS  learn one from files or folders of
                                                    text with both trainers, compare
                                                    the merges, then check it

Run it from the root of the repository, in a virtual environment that has
`tokenizers`, `transformers` and `jinja2`. It compares, between Go, `tokenizers` and
`transformers`: the ids of texts (source code, names in every surrounding, Unicode,
random text), the decoded ids (random ones too), conversations through the chat
template, and the folder after `save_pretrained` read back by Go. Exit status 0 means
that everything agreed.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
from transformers import AutoTokenizer

GO = ["go", "run", "./bench/interop/tokenize"]
SPECIALS = "<|pad|> <|system|> <|user|> <|assistant|> <|tool|> <|end|> <|bash|> <|str_replace|> <|arg|>".split()
PATTERN = r"\n *|[A-Za-z]+|\d|, ?|[^A-Za-z\d]"


def go(args, requests):
    lines = "".join(json.dumps(r) + "\n" for r in requests)
    out = subprocess.run(GO + args, input=lines, capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(out.stderr)
    return [json.loads(line) for line in out.stdout.split("\n") if line]


def texts(rng):
    out = ["", " ", "\n", "\n\n    x", "a, b,c ,  d", "\t\r\n  \x00\x7f", "naïve Ünïcode 漢字 🙂 ٣٤ ½", "e\u0301 \u00a0\u2028\ufeff"]
    for name in ("total", "item_price", "HTTPServer2"):
        out += [f"{name}", f" {name}", f"({name},{name}, {name})", f"\n    {name}={name}\n", f"é{name}漢"]
    for path in sorted(pathlib.Path(__file__).parent.parent.parent.rglob("*.go"))[:60]:
        out.append(path.read_text())
    alphabet = "abcxyzABC  \n\n,, .()=_<|>end0123456789\t\"'éß漢🙂٣\u0300\u200d"
    for _ in range(2000):
        out.append("".join(rng.choice(alphabet) for _ in range(rng.randrange(60))))
    for _ in range(1000):
        points = (rng.randrange(rng.choice([0x80, 0x800, 0x10000, 0x110000])) for _ in range(rng.randrange(20)))
        out.append("".join(chr(p) for p in points if not 0xD800 <= p < 0xE000))
    # In Go the names of special tokens are text; here they are markers.
    return [t for t in out if not any(s in t for s in SPECIALS)]


def call(tool, **arguments):
    return {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": tool, "arguments": arguments}}]}


def conversations():
    start = [{"role": "user", "content": " Fix the bug, please.\n"}]
    middle = start + [
        call("bash", command="ls -l\n"),
        {"role": "tool", "content": " a.py\n"},
        call("str_replace", command="view", path="a.py"),
        {"role": "tool", "content": ""},
        call("str_replace", command="create", path="b.py", file_text="x = 1\n"),
        {"role": "tool", "content": "ok"},
        call("str_replace", command="replace", path="b.py", old_str="1\n", new_str=""),
        {"role": "tool", "content": "ok"},
        call("str_replace", command="insert", path="b.py", insert_line="0", new_str="\n# {{ x }}"),
        {"role": "tool", "content": "ok"},
    ]
    system = [{"role": "system", "content": "Be brief."}]
    done = [{"role": "assistant", "content": "Done. "}]
    for messages, generate in ((start, True), (system + start, True), (middle, True), (middle + done, False), (system + middle + done, False)):
        yield {"messages": messages, "generate": generate}


class Report:
    def __init__(self):
        self.failed = 0

    def compare(self, what, pairs):
        wrong = [(k, a, b) for k, a, b in pairs if a != b]
        print(f"{'ok  ' if not wrong else 'FAIL'}  {what}: {len(pairs) - len(wrong)}/{len(pairs)}")
        for key, ours, theirs in wrong[:3]:
            print(f"      {key!r:.200}\n        go     {ours!r:.300}\n        python {theirs!r:.300}")
        self.failed += bool(wrong)


def check(folder, report):
    rng = random.Random(1)
    fast = Tokenizer.from_file(f"{folder}/tokenizer.json")
    auto = AutoTokenizer.from_pretrained(folder)
    inputs = texts(rng)
    ours = go([folder], [{"text": t} for t in inputs])
    report.compare("ids, tokenizers", [(t, o["ids"], fast.encode(t).ids) for t, o in zip(inputs, ours)])
    report.compare("ids, transformers", [(t, o["ids"], auto(t)["input_ids"]) for t, o in zip(inputs, ours)])
    report.compare("decoded, tokenizers", [(t, o["text"], fast.decode(o["ids"], skip_special_tokens=False)) for t, o in zip(inputs, ours)])
    report.compare("decoded, transformers", [(t, t, auto.decode(o["ids"])) for t, o in zip(inputs, ours)])
    fast.encode_special_tokens = True
    named = ["a<|end|>b", "<|user|>", " ".join(SPECIALS)]
    report.compare("ids of markers' names as text, tokenizers", [(t, o["ids"], fast.encode(t).ids) for t, o in zip(named, go([folder], [{"text": t} for t in named]))])
    report.compare("ids of markers' names as text, transformers", [(t, o["ids"], auto(t, split_special_tokens=True)["input_ids"]) for t, o in zip(named, go([folder], [{"text": t} for t in named]))])
    report.compare("special tokens", [(s, i, fast.token_to_id(s)) for i, s in enumerate(SPECIALS)])
    talks = list(conversations())
    rendered = go([folder], talks)
    for what, key, tokenize in (("ids", "ids", True), ("text", "text", False)):
        pairs = []
        for talk, o in zip(talks, rendered):
            got = auto.apply_chat_template(talk["messages"], add_generation_prompt=talk["generate"], tokenize=tokenize)
            if tokenize and not isinstance(got, list):
                got = got["input_ids"]
            pairs.append((talk, o[key], got))
        report.compare(f"chat template, {what}", pairs)
    for bad in ([call("python", command="x")], [call("str_replace", command="undo", path="a")], [dict(call("bash", command="x"), content="I look.")], [{"role": "critic", "content": "x"}]):
        try:
            auto.apply_chat_template(bad, tokenize=False)
            report.compare("chat template refuses", [(bad, "an error", "none")])
        except Exception as e:  # noqa: BLE001 (the class differs between versions)
            if "unknown" not in str(e) and "one tool call" not in str(e):
                report.compare("chat template refuses", [(bad, "its own error", str(e))])
    with tempfile.TemporaryDirectory() as again, tempfile.TemporaryDirectory() as third:
        auto.save_pretrained(again)
        back = go([again], [{"text": t} for t in inputs])
        report.compare("saved by transformers, read by Go", [(t, o, b) for t, o, b in zip(inputs, ours, back)])
        go(["-save", third, again], [])
        first, last = (json.loads(pathlib.Path(d, "tokenizer.json").read_text()) for d in (folder, third))
        report.compare("tokenizer.json after the way there and back", [(k, first[k], last[k]) for k in first])
        template = [AutoTokenizer.from_pretrained(d).chat_template for d in (folder, third)]
        report.compare("chat template after the way there and back", [("", *template)])


def merges(path):
    return [tuple(m) for m in json.loads(pathlib.Path(path, "tokenizer.json").read_text())["model"]["merges"]]


def train(paths, size, report):
    files = []
    for p in map(pathlib.Path, paths):
        files += sorted(f for f in p.rglob("*") if f.suffix in (".py", ".go", ".md", ".txt")) if p.is_dir() else [p]
    corpus = [f.read_text(errors="replace") for f in files]
    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
        go(["-train", ours, "-size", str(size)], [{"text": t} for t in corpus])
        t = Tokenizer(models.BPE())
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERN), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=size, special_tokens=SPECIALS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
        t.save(f"{theirs}/tokenizer.json")
        a, b = merges(ours), merges(theirs)
        b = list(dict.fromkeys(b))
        report.compare(f"merges learnt from {len(files)} files", [(i, x, y) for i, (x, y) in enumerate(zip(a, b))] + [("count", len(a), len(b))])
        check(ours, report)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--train", action="store_true")
    p.add_argument("--size", type=int, default=512)
    p.add_argument("paths", nargs="+")
    a = p.parse_args()
    report = Report()
    if a.train:
        train(a.paths, a.size, report)
    else:
        check(a.paths[0], report)
    sys.exit(1 if report.failed else 0)


main()
