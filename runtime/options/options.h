/* SPDX-License-Identifier: MIT */
/* The command line of attnrun. Left out on purpose: what the commands do with it. */
#pragma once

#include "base/options.h"
#include "inputs/inputs.h"
#include "inputs/weights.h"
#include "kernels/compile.h"

#define UNSET SIZE_MAX

struct options {
    const char *const *specs; /* arguments: specs, or what the command takes instead */
    size_t spec_count;
    struct compile_options compile; /* .set is that of `set` */
    struct option_texts set, vary;
    const char *isa; /* "a,b"; NULL: all of the kernel's sets */
    uint64_t seed;
    enum inputs_init init;
    const char *init_name;
    const char *lengths, *pasts, *queries; /* numbers joined by commas, or NULL; queries: n of bench */
    size_t batch, n, m, rounds;     /* UNSET: the command's default */
    double seconds, budget;
    const char *in, *out;
    size_t head, sequence;
    const char *labels, *source_labels, *scale;
    const char *csv, *json_lines, *html, *shard;
    const char *format, *symbol;
    const char *against; /* f32, or NULL */
    struct weights_choice weights;
    bool digest, quiet, json, reference, backward, resume, all, help;
    bool each_isa; /* --isa was given: each set of the list, not the best one */
};

/* Commands, as bits: those that know an option */
enum command_bit {
    COMMAND_CHECK = 1,
    COMMAND_RUN = 2,
    COMMAND_BENCH = 4,
    COMMAND_SWEEP = 8,
    COMMAND_MERGE = 16,
    COMMAND_TUNE = 32,
    COMMAND_PACK = 64,
    COMMAND_SELFTEST = 128,
    COMMAND_HEATMAP = 256,
    COMMAND_ROOF = 512
};

extern const struct option_program attnrun_program;

/* argv[0] is the name of `command`. False with the reason in `diag`; true as well where help is asked for.
 * options_free() in any case. */
bool options_parse(struct options *options, int argc, char **argv, const struct option_command *command,
                   struct diag *diag);
void options_free(struct options *options);
/* Prints "  repeat: …": the command that does the same again in a shell, with variables, the options that were given,
 * and the seed. */
void options_repeat(const struct options *options, enum command_bit command, const char *spec, FILE *out);
/* Whether they suit the layer; else `diag` says why not. */
bool options_fit(const struct options *options, const struct layer *layer, const char *spec, struct diag *diag);
/* What the options say of the call to draw: else `batch` sequences of all positions. */
struct inputs_draw options_draw(const struct options *options, const struct layer *layer, size_t batch);
/* Whether `name` stands in the list given with --isa, or there is none. */
bool options_want_isa(const struct options *options, const char *name);
/* Whether it stands there by its own name: that it is left out has to be said. */
bool options_name_isa(const struct options *options, const char *name);
/* The rows of isa_table that pack makes blocks for; where none are named, of those in `possible`. */
unsigned options_blocks(const struct options *options, unsigned possible, struct diag *diag);

static inline size_t given_or(size_t given, int64_t otherwise) { return given != UNSET ? given : (size_t)otherwise; }
