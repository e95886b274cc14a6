#include "abi.h"

#include <stddef.h>

#define IMPORT(name) __attribute__((import_module("skill_v1"), import_name(name)))

IMPORT("input") void host_input(void *to, uint32_t len);
IMPORT("output") void host_output(const void *from, uint32_t len);
IMPORT("host_call") int64_t host_call(uint32_t method, const void *from, uint32_t len);
IMPORT("host_result") void host_result(void *to, uint32_t len);

extern uint8_t __heap_base;  // of the linker: where free memory begins
static uintptr_t top;

void *allocate(uint32_t len) {
  enum { PAGE = 65536 };
  uintptr_t at = (top + 7) & ~(uintptr_t)7;
  uintptr_t have = __builtin_wasm_memory_size(0) * PAGE;
  if (len > UINTPTR_MAX - at - PAGE) __builtin_trap();
  top = at + len;
  if (top > have && __builtin_wasm_memory_grow(0, (top - have + PAGE - 1) / PAGE) == SIZE_MAX) __builtin_trap();
  return (void *)at;
}

__attribute__((export_name("skill_v1_call"))) int32_t skill_v1_call(uint32_t method, uint32_t len) {
  top = (uintptr_t)&__heap_base;  // what an earlier call took is free again
  uint8_t *request = allocate(len);
  if (len > 0) host_input(request, len);
  struct writer answer = {0};
  int32_t status = serve(method, (struct bytes){request, len}, &answer);
  if (answer.len > 0) host_output(answer.at, answer.len);
  return status;
}

int32_t ask(uint32_t method, struct bytes request, struct bytes *reply) {
  int64_t result = host_call(method, request.at, request.len);
  uint32_t len = (uint32_t)result;
  uint8_t *at = allocate(len);
  if (len > 0) host_result(at, len);
  *reply = (struct bytes){at, len};
  return result < 0;
}

void log_line(struct bytes level, struct bytes text) {
  struct writer line = {0};
  struct bytes reply;
  put_bytes(&line, 1, level);
  put_bytes(&line, 2, text);
  ask(HOST_LOG, written(&line), &reply);
}

// The compiler calls these two for large structures, whatever its flags.
void *memcpy(void *restrict to, const void *restrict from, size_t n) {
  for (size_t i = 0; i < n; i++) ((uint8_t *)to)[i] = ((const uint8_t *)from)[i];
  return to;
}

void *memset(void *to, int byte, size_t n) {
  for (size_t i = 0; i < n; i++) ((uint8_t *)to)[i] = (uint8_t)byte;
  return to;
}
