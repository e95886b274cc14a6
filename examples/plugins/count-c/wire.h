// Protobuf as far as skill_v1 needs it: a reader that copies nothing and a writer.
// Take this file and wire.c as they are.
#pragma once
#include <stdint.h>

// Some bytes, which belong to somebody else.
struct bytes {
  const uint8_t *at;
  uint32_t len;
};

// The bytes of a string literal.
#define TEXT(literal) ((struct bytes){(const uint8_t *)(literal), sizeof(literal) - 1})

// One occurrence of a field in a message.
struct field {
  uint32_t number;
  uint64_t value;     // of a number; the bits of a double
  struct bytes data;  // of a text, bytes or a message, within the message read
};

// Reads the next field off rest: 1, or 0 at the end, or -1 if rest makes no sense.
int next_field(struct bytes *rest, struct field *f);

// The data of the last field with this number, empty if there is none; a message
// that makes no sense counts as one that ends there.
struct bytes find(struct bytes message, uint32_t number);

// A message being written. The zero writer is empty; it lives until the call ends.
struct writer {
  uint8_t *at;
  uint32_t len, cap;
};

// The bytes written so far.
struct bytes written(const struct writer *w);

// Appends bytes without a tag, such as a part of a text.
void put_raw(struct writer *w, struct bytes b);

// Appends n as decimal digits, without a tag.
void put_decimal(struct writer *w, uint64_t n);

// Fields with proto3's default are left out by the next three.
void put_bytes(struct writer *w, uint32_t number, struct bytes b);  // also a text
void put_number(struct writer *w, uint32_t number, uint64_t n);     // int64, uint64, bool
void put_double(struct writer *w, uint32_t number, double d);

// A message or an element of a list, written also when it is empty.
void put_element(struct writer *w, uint32_t number, struct bytes b);

int same(struct bytes a, struct bytes b);
