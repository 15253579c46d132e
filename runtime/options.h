/* The command line of attnrun. Left out on purpose: what the commands do with it. */
#ifndef ATTNRUN_OPTIONS_H
#define ATTNRUN_OPTIONS_H

#include "compile.h"
#include "inputs.h"

#define UNSET SIZE_MAX

struct options {
    const char *const *specs;
    size_t spec_count;
    struct compile_options compile; /* .set points to `set` */
    const char **set;
    const char *isa; /* "a,b", "all" or NULL: all */
    uint64_t seed;
    enum inputs_init init;
    size_t batch, n, m, lengths, rounds; /* UNSET: the command's default */
    double seconds;
    const char *in, *out;
    bool quiet, json, reference;
    bool each_isa; /* --isa was given: each of the list, not the best one */
};

/* Commands, as bits: which of them know an option. */
enum command_bit { COMMAND_CHECK = 1, COMMAND_RUN = 2, COMMAND_BENCH = 4 };

/* argv[0] is the command's name. False with the reason in `diag`. options_free() in any case. */
bool options_parse(struct options *options, int argc, char **argv, unsigned command, struct diag *diag);
void options_free(struct options *options);
/* The options that this command knows, one a line. */
void options_help(FILE *out, unsigned command);
/* Whether `name` stands in the list given with --isa. */
bool options_want_isa(const struct options *options, const char *name);

#endif
