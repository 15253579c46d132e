/* Options as a table: name, argument, which commands know it, what it does. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum kind { TEXT, COUNT, SEED, SECONDS, FLAG, INIT, SET };

#define ALL (COMMAND_CHECK | COMMAND_RUN | COMMAND_BENCH)
#define FIELD(name) offsetof(struct options, name)

static const struct entry {
    const char *name, *argument;
    enum kind kind;
    size_t field;
    unsigned commands;
    const char *help;
} entries[] = {
    {"isa", "LIST", TEXT, FIELD(isa), ALL,
     "all, or some of scalar, avx2, avx512, joined by commas; if not given: all, but run takes the best"},
    {"set", "KEY=VALUE", SET, 0, ALL, "overrides a key of the spec"},
    {"in", "FILE", TEXT, FIELD(in), COMMAND_RUN, "safetensors with the layer's tensors"},
    {"out", "FILE", TEXT, FIELD(out), COMMAND_RUN, "where y (and attn) go, as safetensors"},
    {"reference", NULL, FLAG, FIELD(reference), COMMAND_RUN | COMMAND_BENCH,
     "run: compute by the double-precision reference instead of a kernel; bench: time it too"},
    {"seed", "S", SEED, FIELD(seed), COMMAND_CHECK | COMMAND_BENCH, "of the drawn inputs; 1 if not given"},
    {"init", "xavier|normal", INIT, 0, COMMAND_CHECK | COMMAND_BENCH, "how weights are drawn"},
    {"batch", "B", COUNT, FIELD(batch), COMMAND_CHECK | COMMAND_BENCH, "sequences; check: 2, or 1 of a large layer"},
    {"n", "N", COUNT, FIELD(n), COMMAND_CHECK | COMMAND_BENCH, "queries; seq_len if not given"},
    {"m", "M", COUNT, FIELD(m), COMMAND_CHECK | COMMAND_BENCH, "keys in cross-attention; source_len if not given"},
    {"lengths", "L", COUNT, FIELD(lengths), COMMAND_BENCH, "keys of each sequence, with a padding mask; all if not given"},
    {"rounds", "R", COUNT, FIELD(rounds), COMMAND_BENCH, "measurements at least; 15 if not given"},
    {"seconds", "S", SECONDS, FIELD(seconds), COMMAND_BENCH, "time a kernel is measured, about; 1 if not given"},
    {"json", NULL, FLAG, FIELD(json), COMMAND_BENCH, "one JSON object a line"},
    {"quiet", NULL, FLAG, FIELD(quiet), COMMAND_CHECK, "only what fails, and the last line"},
    {"cache", "DIR", TEXT, FIELD(compile.cache), ALL, "compiled kernels; $XDG_CACHE_HOME/attngen if not given"},
    {"templates", "DIR", TEXT, FIELD(compile.templates), ALL, "the generator's templates, read from disk"},
    {"attngen", "PATH", TEXT, FIELD(compile.attngen), ALL, "the generator; $ATTNGEN or the one beside attnrun"},
};

#define ENTRIES (sizeof entries / sizeof *entries)

void options_help(FILE *out, unsigned command)
{
    for (size_t i = 0; i < ENTRIES; i++) {
        char left[40];
        if (!(entries[i].commands & command))
            continue;
        snprintf(left, sizeof left, "--%s %s", entries[i].name, entries[i].argument != NULL ? entries[i].argument : "");
        fprintf(out, "  %-22s %s\n", left, entries[i].help);
    }
}

static bool parse_count(uint64_t *value, const char *text, uint64_t limit)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    *value = number;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && number <= limit;
}

/* Stores one option's argument; says what is wrong with it. */
static bool store(struct options *options, const struct entry *entry, const char *text, struct diag *diag)
{
    void *field = (char *)options + entry->field;
    uint64_t number = 0;
    bool good = true;
    switch (entry->kind) {
    case TEXT:
        *(const char **)field = text;
        break;
    case FLAG:
        *(bool *)field = true;
        break;
    case COUNT:
        good = parse_count(&number, text, INT32_MAX);
        *(size_t *)field = (size_t)number;
        break;
    case SEED:
        good = parse_count(field, text, UINT64_MAX);
        break;
    case SECONDS: {
        char *end;
        *(double *)field = strtod(text, &end);
        good = end != text && *end == '\0' && *(double *)field >= 0 && *(double *)field <= 3600;
        break;
    }
    case INIT:
        good = strcmp(text, "xavier") == 0 || strcmp(text, "normal") == 0;
        options->init = strcmp(text, "normal") == 0 ? INIT_NORMAL : INIT_XAVIER;
        break;
    case SET:
        options->set[options->compile.set_count++] = text;
        break;
    }
    if (!good)
        diag_error(diag, "command line", "--%s cannot be \"%s\"; %s is needed", entry->name, text, entry->argument);
    return good;
}

bool options_parse(struct options *options, int argc, char **argv, unsigned command, struct diag *diag)
{
    struct option table[ENTRIES + 1] = {{0}};
    *options = (struct options){.seed = 1, .batch = UNSET, .n = UNSET, .m = UNSET, .lengths = UNSET,
                                .rounds = UNSET, .seconds = 1};
    options->set = calloc((size_t)argc + 1, sizeof *options->set);
    if (options->set == NULL) {
        diag_environment(diag, NULL, "out of memory");
        return false;
    }
    for (size_t i = 0; i < ENTRIES; i++)
        table[i] = (struct option){entries[i].name, entries[i].argument != NULL, NULL, (int)i + 256};
    opterr = 0;
    optind = 0;
    for (int found; (found = getopt_long(argc, argv, ":", table, NULL)) != -1;) {
        const struct entry *entry = found >= 256 ? &entries[found - 256] : NULL;
        if (entry == NULL || !(entry->commands & command)) {
            diag_error(diag, "command line", "%s \"%s\"; see attnrun help %s",
                       found == ':' ? "no argument behind" : "unknown option", argv[optind - 1], argv[0]);
            return false;
        }
        if (!store(options, entry, optarg, diag))
            return false;
    }
    options->specs = (const char *const *)argv + optind;
    options->spec_count = (size_t)(argc - optind);
    options->compile.set = options->set;
    options->each_isa = options->isa != NULL;
    if (options->isa != NULL && strcmp(options->isa, "all") == 0)
        options->isa = NULL;
    options->compile.isa = options->isa;
    if (options->spec_count == 0 || (command == COMMAND_RUN && options->spec_count != 1))
        diag_error(diag, "command line", "%s needs %s spec; see attnrun help %s", argv[0],
                   command == COMMAND_RUN ? "one" : "a", argv[0]);
    if (command == COMMAND_RUN && options->in == NULL)
        diag_error(diag, "command line", "run needs --in FILE; see attnrun help run");
    return diag->errors == 0;
}

void options_free(struct options *options)
{
    free(options->set);
    options->set = NULL;
}

bool options_want_isa(const struct options *options, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = options->isa; at != NULL; at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    return options->isa == NULL;
}
