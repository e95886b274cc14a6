// The ABI skill_v1 for a guest in C without a standard library. Take this file and
// abi.c as they are, and write serve.
#pragma once
#include "wire.h"

// Methods of a skill, and of the host.
enum { DESCRIBE = 1, BUILD = 2, EVALUATE = 3, JUDGE = 4 };
enum { HOST_RUN = 1, HOST_MODEL = 2, HOST_ASK = 3, HOST_LOG = 4 };

// The author's own: serves one call into the empty writer answer. 0 means that it
// holds the answer's message, 1 that it holds an error's text.
int32_t serve(uint32_t method, struct bytes request, struct writer *answer);

// Asks the host and gives its reply: 0 with the answer's message, or 1 with an
// error's text.
int32_t ask(uint32_t method, struct bytes request, struct bytes *reply);

// Writes a line to the host's log. Capability "log". It never fails.
void log_line(struct bytes level, struct bytes text);

// Memory that lasts until the call ends; there is nothing to free. It traps when
// the host gives no more.
void *allocate(uint32_t len);
