/* SPDX-License-Identifier: MIT */
/* The command line of attngen: its options, and how the product names it.
 *
 * Left out on purpose: what the options do; main.c.
 */
#pragma once

#include <stdbool.h>

#include "base/options.h"

struct diag;

/* Bits of attngen's commands; the first has no name. */
enum { ARGUMENTS_SPECS = 1, ARGUMENTS_IMPORT = 2, ARGUMENTS_MODEL = 4 };

struct arguments {
    const struct option_command *command;
    struct option_texts specs, set; /* set: KEY=VALUE texts; specs: of import a folder, of model a NAME.layers */
    struct option_texts ignore;     /* keys of config.json */
    const char *folder;             /* each NULL where it is not given */
    const char *isas, *deps, *templates, *plan, *size, *name, *cache, *weight_type, *cache_type;
    const char *precision, *exact;
    uint64_t batch, seq_len, cache_len; /* 0: not given */
    bool split, shim, explain, any_cpu, keys, help, version, specs_alone, list;
};

extern const struct option_program attngen_program;

/* False, with errors in diag, for a wrong command line. Call arguments_free() either way. */
bool arguments_read(struct arguments *arguments, int argc, char **argv, struct diag *diag);
void arguments_free(struct arguments *arguments);
/* The usage, the options, the exit codes of the command. */
void arguments_help(const struct arguments *arguments, FILE *out);
/* "attngen --isa avx2 tiny.layer", as the banner has it: without -o, paths and other specs, so that it does not depend
 * on folders or on the order of the instruction sets. malloc'd; NULL without memory. */
char *arguments_command(const struct arguments *arguments, const char *spec, unsigned isas);
