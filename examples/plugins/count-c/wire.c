#include "wire.h"

#include "abi.h"

enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };

static int varint(struct bytes *rest, uint64_t *n) {
  *n = 0;
  for (uint32_t i = 0; i < 10 && i < rest->len; i++) {
    *n |= (uint64_t)(rest->at[i] & 0x7f) << (7 * i);
    if (rest->at[i] < 0x80) {
      rest->at += i + 1;
      rest->len -= i + 1;
      return 1;
    }
  }
  return 0;
}

static int fixed(struct bytes *rest, uint32_t width, uint64_t *n) {
  if (rest->len < width) return 0;
  *n = 0;
  for (uint32_t i = 0; i < width; i++) *n |= (uint64_t)rest->at[i] << (8 * i);
  rest->at += width;
  rest->len -= width;
  return 1;
}

int next_field(struct bytes *rest, struct field *f) {
  uint64_t tag, n;
  if (rest->len == 0) return 0;
  *f = (struct field){0};
  if (!varint(rest, &tag) || tag >> 3 == 0 || tag >> 32 != 0) return -1;
  f->number = (uint32_t)(tag >> 3);
  switch (tag & 7) {
    case VARINT:
      return varint(rest, &f->value) ? 1 : -1;
    case FIXED64:
      return fixed(rest, 8, &f->value) ? 1 : -1;
    case FIXED32:
      return fixed(rest, 4, &f->value) ? 1 : -1;
    case LENGTH:
      if (!varint(rest, &n) || n > rest->len) return -1;
      f->data = (struct bytes){rest->at, (uint32_t)n};
      rest->at += n;
      rest->len -= (uint32_t)n;
      return 1;
  }
  return -1;
}

struct bytes find(struct bytes message, uint32_t number) {
  struct bytes found = {0};
  for (struct field f; next_field(&message, &f) == 1;)
    if (f.number == number) found = f.data;
  return found;
}

struct bytes written(const struct writer *w) { return (struct bytes){w->at, w->len}; }

void put_raw(struct writer *w, struct bytes b) {
  if (w->cap - w->len < b.len) {
    uint32_t cap = 2 * w->cap + b.len;
    uint8_t *at = allocate(cap);
    for (uint32_t i = 0; i < w->len; i++) at[i] = w->at[i];
    w->at = at;
    w->cap = cap;
  }
  for (uint32_t i = 0; i < b.len; i++) w->at[w->len + i] = b.at[i];
  w->len += b.len;
}

static void put_varint(struct writer *w, uint64_t n) {
  uint8_t digits[10];
  uint32_t len = 0;
  for (; n > 0x7f; n >>= 7) digits[len++] = (uint8_t)(n & 0x7f) | 0x80;
  digits[len++] = (uint8_t)n;
  put_raw(w, (struct bytes){digits, len});
}

static void put_tag(struct writer *w, uint32_t number, uint32_t type) { put_varint(w, (uint64_t)number << 3 | type); }

void put_decimal(struct writer *w, uint64_t n) {
  uint8_t digits[20];
  uint32_t at = sizeof digits;
  do {
    digits[--at] = (uint8_t)('0' + n % 10);
    n /= 10;
  } while (n > 0);
  put_raw(w, (struct bytes){digits + at, sizeof digits - at});
}

void put_element(struct writer *w, uint32_t number, struct bytes b) {
  put_tag(w, number, LENGTH);
  put_varint(w, b.len);
  put_raw(w, b);
}

void put_bytes(struct writer *w, uint32_t number, struct bytes b) {
  if (b.len > 0) put_element(w, number, b);
}

void put_number(struct writer *w, uint32_t number, uint64_t n) {
  if (n == 0) return;
  put_tag(w, number, VARINT);
  put_varint(w, n);
}

void put_double(struct writer *w, uint32_t number, double d) {
  union {
    double d;
    uint64_t bits;
  } u = {d};
  uint8_t b[8];
  if (u.bits == 0) return;
  for (int i = 0; i < 8; i++) b[i] = (uint8_t)(u.bits >> (8 * i));
  put_tag(w, number, FIXED64);
  put_raw(w, (struct bytes){b, 8});
}

int same(struct bytes a, struct bytes b) {
  if (a.len != b.len) return 0;
  for (uint32_t i = 0; i < a.len; i++)
    if (a.at[i] != b.at[i]) return 0;
  return 1;
}
