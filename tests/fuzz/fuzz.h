/* SPDX-License-Identifier: MIT */
/* What the fuzzers share: properties that end the program, a fuzzer's bytes as numbers, files of them, messages.
 *
 * A fuzzer is one file, tests/fuzz/NAME.c, with LLVMFuzzerTestOneInput(); its seeds lie in tests/fuzz/corpus/NAME, its words
 * in NAME.dict where it has some. tests/fuzz/test_fuzz.sh builds and runs them all; docs at its head.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "plan/planfile.h"
#include "spec/layer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A property; where it does not hold, the input is a finding. */
#define REQUIRE(condition, ...) \
    ((condition) ? (void)0 : fuzz_fail(__FILE__, __LINE__, #condition, "" __VA_ARGS__))
_Noreturn void fuzz_fail(const char *file, int line, const char *condition, const char *format, ...) DIAG_PRINTF(4, 5);

/* Bytes that a structured fuzzer draws its choices from; 0 when none are left. */
struct bytes {
    const uint8_t *at, *end;
};
unsigned take(struct bytes *bytes);
uint32_t take_word(struct bytes *bytes);
size_t take_below(struct bytes *bytes, size_t limit);

/* The same for the same input, and of no use to whoever looks for coverage: for what is too slow for every input. */
uint32_t fuzz_hash(const uint8_t *data, size_t size);

/* Writes a file of this name into a folder that goes with the program; its path holds till the next call with this name. */
const char *fuzz_file(const char *name, const void *bytes, size_t size);
/* The bytes as a string of its own. */
char *fuzz_text(const uint8_t *data, size_t size);

/* What a reader that failed must have said, and one that did not must not: "place: error: …", with no byte that steers a
 * terminal. Frees the messages. */
void fuzz_diag(struct diag *diag, bool good);

/* A plan file that is good, printed and read again: it must say the same. */
struct plan_file fuzz_reread(const struct plan_file *file, const struct layer *layer);
/* A layer of a spec that must be good. */
struct layer *fuzz_layer(const char *spec);
/* Whether both are the same but for where they were read. */
bool fuzz_same_layer(const struct layer *a, const struct layer *b);

#endif
