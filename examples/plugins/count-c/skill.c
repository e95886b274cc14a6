// A small skill: say how many functions a repository defines.
#include "abi.h"

static const struct bytes name = {(const uint8_t *)"count-c", sizeof "count-c" - 1};

static void describe(struct writer *answer) {
  put_bytes(answer, 1, name);
  put_bytes(answer, 2, TEXT("0.1.0"));
  put_number(answer, 3, 1);  // the ABI
  put_element(answer, 4, TEXT("build"));
  put_element(answer, 4, TEXT("evaluate"));
}

// Counts the lines of a file that begin with "def ".
static uint32_t functions(struct bytes text) {
  const struct bytes def = TEXT("def ");
  uint32_t n = 0;
  for (uint32_t i = 0; i + def.len <= text.len; i++)
    if ((i == 0 || text.at[i - 1] == '\n') && same((struct bytes){text.at + i, def.len}, def)) n++;
  return n;
}

static void build(struct bytes request, struct writer *answer) {
  struct bytes record = find(request, 1), id = find(record, 1), workspace = find(record, 7);
  uint32_t n = 0;
  struct bytes rest = workspace;
  for (struct field f; next_field(&rest, &f) == 1;)
    if (f.number == 2) n += functions(find(f.data, 2));

  struct writer key = {0}, hidden = {0}, line = {0}, change = {0}, reference = {0}, task = {0};
  put_raw(&key, name);
  put_raw(&key, TEXT("/"));
  put_raw(&key, id);
  put_raw(&hidden, TEXT("answer="));
  put_decimal(&hidden, n);
  put_decimal(&line, n);
  put_raw(&line, TEXT("\n"));
  put_bytes(&change, 1, TEXT("answer.txt"));
  put_bytes(&change, 2, written(&line));
  put_element(&reference, 1, written(&change));

  put_bytes(&task, 1, written(&key));
  put_bytes(&task, 2, name);
  put_bytes(&task, 3, id);
  put_bytes(&task, 5, TEXT("How many functions do the Python files define?\nWrite the number to answer.txt."));
  put_bytes(&task, 6, workspace);
  put_element(&task, 7, TEXT("answer.txt"));
  put_bytes(&task, 8, written(&hidden));
  put_element(&task, 9, written(&reference));
  put_element(answer, 1, written(&task));
}

static int blank(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static struct bytes trim(struct bytes b) {
  for (; b.len > 0 && blank(b.at[0]); b.len--) b.at++;
  for (; b.len > 0 && blank(b.at[b.len - 1]);) b.len--;
  return b;
}

static void evaluate(struct bytes request, struct writer *answer) {
  struct bytes hidden = find(find(request, 1), 8), rest = find(request, 2);
  uint32_t changes = 0;
  int right = 0;
  for (struct field f; next_field(&rest, &f) == 1;) {
    if (f.number != 1) continue;
    struct writer said = {0};
    put_raw(&said, TEXT("answer="));
    put_raw(&said, trim(find(f.data, 2)));
    right |= same(written(&said), hidden);
    changes++;
  }

  struct writer line = {0};
  put_raw(&line, TEXT("changed files: "));
  put_decimal(&line, changes);
  log_line(TEXT("debug"), written(&line));

  put_double(answer, 1, right);
  put_bytes(answer, 3, right ? TEXT("the number is right") : TEXT("answer.txt does not give the number of functions"));
}

int32_t serve(uint32_t method, struct bytes request, struct writer *answer) {
  switch (method) {
    case DESCRIBE:
      describe(answer);
      return 0;
    case BUILD:
      build(request, answer);
      return 0;
    case EVALUATE:
      evaluate(request, answer);
      return 0;
  }
  put_raw(answer, TEXT("count-c has no method "));
  put_decimal(answer, method);
  return 1;
}
