// A small skill: say how many functions a repository defines.
import { Answer, BUILD, DESCRIBE, EVALUATE, log } from "./abi";
import { find, findAll, text, utf8, Writer } from "./wire";

const NAME = "count-assemblyscript";

export function serve(method: u32, request: Uint8Array): Answer {
  switch (method) {
    case DESCRIBE:
      return new Answer(describe());
    case BUILD:
      return new Answer(build(request));
    case EVALUATE:
      return new Answer(evaluate(request));
  }
  return new Answer(utf8(NAME + " has no method " + method.toString()), true);
}

function describe(): Uint8Array {
  const answer = new Writer().text(1, NAME).text(2, "0.1.0").number(3, 1);
  return answer.text(4, "build").text(4, "evaluate").done();
}

function build(request: Uint8Array): Uint8Array {
  const record = find(request, 1);
  const id = text(find(record, 1));
  const workspace = find(record, 7);
  let n = 0;
  const files = findAll(workspace, 2);
  for (let i = 0; i < files.length; i++) n += functions(find(files[i], 2));
  const answer = n.toString();

  const change = new Writer().text(1, "answer.txt").text(2, answer + "\n").done();
  const task = new Writer()
    .text(1, NAME + "/" + id)
    .text(2, NAME)
    .text(3, id)
    .text(5, "How many functions do the Python files define?\nWrite the number to answer.txt.")
    .bytes(6, workspace)
    .text(7, "answer.txt")
    .text(8, "answer=" + answer)
    .element(9, new Writer().element(1, change).done());
  return new Writer().element(1, task.done()).done();
}

/** The number of lines that begin with "def ". */
function functions(file: Uint8Array): i32 {
  const def = utf8("def ");
  let n = 0;
  for (let i = 0; i + def.length <= file.length; i++) {
    if ((i == 0 || file[i - 1] == 0x0a) && same(file.subarray(i, i + def.length), def)) n++;
  }
  return n;
}

function evaluate(request: Uint8Array): Uint8Array {
  const hidden = find(find(request, 1), 8);
  const prefix = utf8("answer=");
  const changes = findAll(find(request, 2), 1);
  log("debug", "changed files: " + changes.length.toString());
  for (let i = 0; i < changes.length; i++) {
    const said = trim(find(changes[i], 2));
    if (same(hidden.subarray(0, prefix.length), prefix) && same(hidden.subarray(prefix.length), said)) {
      return new Writer().double(1, 1).text(3, "the number is right").done();
    }
  }
  return new Writer().text(3, "answer.txt does not give the number of functions").done();
}

function trim(b: Uint8Array): Uint8Array {
  let from = 0;
  let to = b.length;
  while (from < to && blank(b[from])) from++;
  while (from < to && blank(b[to - 1])) to--;
  return b.subarray(from, to);
}

function blank(c: u8): bool {
  return c == 0x20 || (c >= 0x09 && c <= 0x0d);
}

function same(a: Uint8Array, b: Uint8Array): bool {
  return a.length == b.length && memory.compare(a.dataStart, b.dataStart, a.length) == 0;
}
