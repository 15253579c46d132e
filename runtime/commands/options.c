/* SPDX-License-Identifier: MIT */
/* Options as a table: name, argument, which commands know it, what it does. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../../gen/isa.h"
#include "../../gen/nearest.h"

enum kind { TEXT, ISAS, COUNT, ROUNDS, COUNTS, SEED, SECONDS, FLAG, INIT, SET, VARY };

/* What is right where a value can be wrong. */
static const char *const legal[] = {
    [COUNT] = "a whole number from 0 to 2147483647", [ROUNDS] = "a whole number from 1 to 1000000",
    [COUNTS] = "whole numbers joined by commas, each at most 2147483647",
    [SEED] = "a whole number from 0 to 18446744073709551615", [SECONDS] = "a number from 0 to 3600",
    [INIT] = "xavier or normal"};

/* groups of commands that share options */
#define COMPILING \
    (COMMAND_CHECK | COMMAND_RUN | COMMAND_BENCH | COMMAND_HEATMAP | COMMAND_SWEEP | COMMAND_PACK | COMMAND_TUNE)
#define GENERATING (COMPILING | COMMAND_SELFTEST)
#define PLANNED (COMMAND_CHECK | COMMAND_RUN | COMMAND_BENCH | COMMAND_HEATMAP | COMMAND_SELFTEST | COMMAND_PACK)
#define DRAWING (COMMAND_CHECK | COMMAND_BENCH | COMMAND_SWEEP | COMMAND_SELFTEST | COMMAND_TUNE)
#define TIMED (COMMAND_BENCH | COMMAND_SWEEP)
#define TABLES (COMMAND_SWEEP | COMMAND_MERGE)
#define OF_WEIGHTS (COMMAND_PACK | COMMAND_RUN | COMMAND_HEATMAP)
#define FIELD(name) offsetof(struct options, name)

static const struct entry {
    const char *name, *argument;
    enum kind kind;
    size_t field;
    unsigned commands;
    const char *help;
    unsigned needed; /* the commands that do not go without it */
} entries[] = {
    {"isa", "LIST", ISAS, FIELD(isa), COMMAND_CHECK | COMMAND_BENCH,
     "joined by commas; what attngen emits if not given", 0},
    {"isa", "LIST", ISAS, FIELD(isa), COMMAND_RUN | COMMAND_HEATMAP | COMMAND_SWEEP | COMMAND_TUNE,
     "joined by commas; the best of what attngen emits if not given", 0},
    {"isa", "LIST", ISAS, FIELD(isa), COMMAND_PACK,
     "joined by commas: a block for each; auto: those that programs for this kind of machine choose among", COMMAND_PACK},
    {"set", "KEY=VALUE", SET, 0, GENERATING, "overrides a key of the spec", 0},
    {"in", "FILE", TEXT, FIELD(in), COMMAND_RUN | COMMAND_HEATMAP, "safetensors with the layer's tensors",
     COMMAND_RUN | COMMAND_HEATMAP},
    {"out", "FILE", TEXT, FIELD(out), COMMAND_RUN, "where y (and attn) go, as safetensors", 0},
    {"out", "FILE", TEXT, FIELD(out), COMMAND_SELFTEST, "the program; NAME_test.c here if not given", 0},
    {"out", "FILE", TEXT, FIELD(out), COMMAND_HEATMAP, "the picture, as SVG", COMMAND_HEATMAP},
    {"out", "FILE", TEXT, FIELD(out), COMMAND_PACK, "ends in .c, .S or .bin; NAME_packed.c here if not given", 0},
    {"out", "FILE", TEXT, FIELD(out), COMMAND_TUNE, "the plan file", COMMAND_TUNE},
    {"plan", "FILE", TEXT, FIELD(compile.plan), PLANNED, "kernels are built as this plan file of attnrun tune says", 0},
    {"budget", "SECONDS", SECONDS, FIELD(budget), COMMAND_TUNE,
     "for an instruction set, all in all; 60 if not given; 0: for one other plan, however long", 0},
    {"head", "I", COUNT, FIELD(head), COMMAND_HEATMAP, "this head alone, from 0 on; all if not given", 0},
    {"sequence", "I", COUNT, FIELD(sequence), COMMAND_HEATMAP, "of the file's batch, from 0 on; 0 if not given", 0},
    {"scale", "NAME", TEXT, FIELD(scale), COMMAND_HEATMAP,
     "colour against weight: linear, sqrt or log (four decades); sqrt if not given", 0},
    {"labels", "FILE", TEXT, FIELD(labels), COMMAND_HEATMAP, "names of the positions of x, one a line", 0},
    {"source-labels", "FILE", TEXT, FIELD(source_labels), COMMAND_HEATMAP,
     "names of the positions of source, one a line", 0},
    {"format", "c|blob", TEXT, FIELD(format), COMMAND_PACK,
     "c: an array; blob: FILE.bin, and FILE.S that takes it in; both with a header; if not given, as FILE ends", 0},
    {"symbol", "NAME", TEXT, FIELD(symbol), COMMAND_PACK,
     "of the block; NAME_packed of the layer's name if not given", 0},
    {"weights", "FILE", TEXT, FIELD(weights.path), COMMAND_PACK,
     "safetensors with the weights, alone or among a model's, under attngen's, torch's or Hugging Face's names",
     COMMAND_PACK},
    {"weights", "FILE", TEXT, FIELD(weights.path), COMMAND_RUN | COMMAND_HEATMAP,
     "safetensors with the weights, taken in place of any in the file of --in: alone or among a model's, under "
     "attngen's, torch's or Hugging Face's names", 0},
    {"prefix", "TEXT", TEXT, FIELD(weights.prefix), OF_WEIGHTS,
     "how the layer's names begin in the file of weights, as h.0.attn.", 0},
    {"zero-bias", NULL, FLAG, FIELD(weights.zero_bias), OF_WEIGHTS,
     "a bias that the file of weights lacks is zero", 0},
    {"reference", NULL, FLAG, FIELD(reference), COMMAND_RUN,
     "compute by the double-precision reference instead of a kernel", 0},
    {"reference", NULL, FLAG, FIELD(reference), COMMAND_BENCH, "time the double-precision reference too", 0},
    {"vary", "KEY=VALUES", VARY, 0, COMMAND_SWEEP,
     "a key of the spec, isa, n, m or batch, and its values: 1,2,4 or 256:1024:64 (first:last:step); again "
     "for the next key", COMMAND_SWEEP},
    {"csv", "FILE", TEXT, FIELD(csv), TABLES, "the table with every column, as CSV; -: to the standard output", 0},
    {"json", "FILE", TEXT, FIELD(json_lines), TABLES,
     "JSON lines, one a point; sweep writes each as soon as its point is done; -: to the standard output", 0},
    {"html", "FILE", TEXT, FIELD(html), TABLES, "one self-contained page with the table and plots", 0},
    {"resume", NULL, FLAG, FIELD(resume), COMMAND_SWEEP, "goes on where the file of --json ends", 0},
    {"shard", "I/N", TEXT, FIELD(shard), COMMAND_SWEEP, "only the I-th of N parts of the points; see attnrun merge", 0},
    {"seed", "S", SEED, FIELD(seed), DRAWING, "of the drawn inputs; 1 if not given", 0},
    {"init", "xavier|normal", INIT, 0, COMMAND_CHECK | TIMED | COMMAND_TUNE, "how weights are drawn", 0},
    {"batch", "B", COUNT, FIELD(batch), DRAWING,
     "sequences; 1 if not given, check and selftest: 2, or 1 of a large layer", 0},
    {"n", "N", COUNT, FIELD(n), DRAWING,
     "queries; seq_len if not given, selftest: at most 37, fewer of a large layer", 0},
    {"m", "M", COUNT, FIELD(m), DRAWING,
     "keys in cross-attention; source_len if not given, selftest: at most n + 6", 0},
    {"lengths", "L[,L...]", COUNTS, FIELD(lengths), COMMAND_BENCH | COMMAND_SELFTEST,
     "keys of each sequence, with a padding mask; all if not given, selftest: the first all, the others drawn", 0},
    {"rounds", "R", ROUNDS, FIELD(rounds), TIMED, "measurements at least; 15 if not given", 0},
    {"seconds", "S", SECONDS, FIELD(seconds), TIMED, "time that a kernel is measured, about; 1 if not given", 0},
    {"json", NULL, FLAG, FIELD(json), COMMAND_BENCH | COMMAND_TUNE, "one JSON object a line", 0},
    {"quiet", NULL, FLAG, FIELD(quiet), COMMAND_CHECK, "only what fails, and the last line", 0},
    {"cache", "DIR", TEXT, FIELD(compile.cache), COMPILING,
     "compiled kernels, in a folder of yours alone; $XDG_CACHE_HOME/attngen if not given", 0},
    {"templates", "DIR", TEXT, FIELD(compile.templates), GENERATING, "the generator's templates, read from disk", 0},
    {"attngen", "PATH", TEXT, FIELD(compile.attngen), GENERATING,
     "the generator; $ATTNGEN or the one beside attnrun", 0},
};

#define ENTRIES (sizeof entries / sizeof *entries)

/* The one option with a short form: -o. */
static bool is_out(const struct entry *entry)
{
    return strcmp(entry->name, "out") == 0;
}

/* The row of -o for a command; the first where it has none, so that a message can name the option. */
static const struct entry *out_entry(unsigned command)
{
    const struct entry *first = NULL;
    for (size_t i = 0; i < ENTRIES; i++) {
        if (!is_out(&entries[i]))
            continue;
        if (entries[i].commands & command)
            return &entries[i];
        first = first != NULL ? first : &entries[i];
    }
    return first;
}

/* The words of a help text behind column 25, none past column 120. */
static void print_help(FILE *out, const char *left, const char *text)
{
    size_t column = (size_t)fprintf(out, "  %-22s", left);
    while (*text != '\0') {
        const size_t length = strcspn(text, " ");
        if (column + 1 + length > 120)
            column = (size_t)fprintf(out, "\n%24s", "") - 1;
        column += (size_t)fprintf(out, " %.*s", (int)length, text);
        text += length + strspn(text + length, " ");
    }
    fputc('\n', out);
}

void options_help(FILE *out, unsigned command)
{
    char names[200], text[400];
    isa_list_names(names, sizeof names, isa_all(), ", ");
    for (size_t i = 0; i < ENTRIES; i++) {
        char left[40];
        if (!(entries[i].commands & command))
            continue;
        snprintf(left, sizeof left, "%s--%s %s", is_out(&entries[i]) ? "-o, " : "", entries[i].name,
                 entries[i].argument != NULL ? entries[i].argument : "");
        if (entries[i].kind == ISAS)
            snprintf(text, sizeof text, "all, or some of %s, %s", names, entries[i].help);
        else
            snprintf(text, sizeof text, "%s", entries[i].help);
        print_help(out, left, text);
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

/* Whether `text` is numbers joined by commas. */
static bool are_counts(const char *text)
{
    for (;; text++) {
        char one[12];
        uint64_t number;
        const size_t length = strcspn(text, ",");
        snprintf(one, sizeof one, "%.*s", (int)(length < sizeof one ? length : sizeof one - 1), text);
        if (length >= sizeof one || !parse_count(&number, one, INT32_MAX))
            return false;
        text += length;
        if (*text == '\0')
            return true;
    }
}

/* Stores one option's argument; says what is wrong with it. */
static bool store(struct options *options, const struct entry *entry, const char *text, struct diag *diag)
{
    void *field = (char *)options + entry->field;
    uint64_t number = 0;
    bool good = true;
    switch (entry->kind) {
    case TEXT:
    case ISAS:
        *(const char **)field = text;
        break;
    case FLAG:
        *(bool *)field = true;
        break;
    case COUNT:
    case ROUNDS:
        good = parse_count(&number, text, entry->kind == ROUNDS ? 1000000 : INT32_MAX) &&
               (number > 0 || entry->kind == COUNT);
        *(size_t *)field = (size_t)number;
        break;
    case COUNTS:
        good = are_counts(text);
        *(const char **)field = text;
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
    case VARY:
        options->vary[options->vary_count++] = text;
        break;
    }
    if (!good)
        diag_error(diag, "command line", "--%s cannot be \"%s\"; write %s", entry->name, text, legal[entry->kind]);
    return good;
}

/* What stands behind the options of a command, if it is not any number of specs. */
static const struct {
    unsigned commands;
    const char *one;
    bool several;
} arguments[] = {
    {COMMAND_RUN | COMMAND_SWEEP | COMMAND_SELFTEST | COMMAND_HEATMAP | COMMAND_PACK | COMMAND_TUNE, "one spec", false},
    {COMMAND_MERGE, "a file of JSON lines", true},
    {~0u, "a spec", true},
};

static void check_arguments(const struct options *options, const char *name, unsigned command, struct diag *diag)
{
    size_t i = 0;
    while (!(arguments[i].commands & command))
        i++;
    if (options->spec_count == 0 || (options->spec_count > 1 && !arguments[i].several))
        diag_error(diag, "command line", "%s needs %s; see attnrun help %s", name, arguments[i].one, name);
}

/* Whether an option that some command needs, a text or texts, was not given. */
static bool is_missing(const struct options *options, const struct entry *entry)
{
    const char *const *field = (const void *)((const char *)options + entry->field);
    return entry->kind == VARY ? options->vary_count == 0 : *field == NULL;
}

/* The options that a command does not go without. */
static void check_needed(const struct options *options, const char *name, unsigned command, struct diag *diag)
{
    for (size_t i = 0; i < ENTRIES; i++) {
        if ((entries[i].needed & command) && is_missing(options, &entries[i]))
            diag_error(diag, "command line", "%s needs --%s %s; see attnrun help %s", name, entries[i].name,
                       entries[i].argument, name);
    }
}

static void unknown_option(const char *word, const char *name, unsigned command, struct diag *diag)
{
    const char *option = word + strspn(word, "-");
    struct nearest nearest = nearest_to(option, strcspn(option, "="));
    char text[NEAREST_TEXT], see[NEAREST_TEXT];
    nearest.before = "--";
    for (size_t i = 0; i < ENTRIES; i++)
        if (entries[i].commands & command)
            nearest_offer(&nearest, entries[i].name);
    snprintf(see, sizeof see, "see attnrun help %s", name);
    diag_error(diag, "command line", "unknown option \"%s\"; %s", word, nearest_ask(&nearest, text, see));
}

bool options_parse(struct options *options, int argc, char **argv, unsigned command, struct diag *diag)
{
    struct option table[ENTRIES + 1] = {{0}};
    *options = (struct options){.seed = 1, .batch = UNSET, .n = UNSET, .m = UNSET, .rounds = UNSET, .head = UNSET,
                                .sequence = UNSET, .seconds = 1, .budget = 60};
    options->set = calloc((size_t)argc + 1, sizeof *options->set);
    options->vary = calloc((size_t)argc + 1, sizeof *options->vary);
    if (options->set == NULL || options->vary == NULL) {
        diag_environment(diag, NULL, "out of memory");
        return false;
    }
    for (size_t i = 0, known = 0; i < ENTRIES; i++)
        if (entries[i].commands & command)
            table[known++] = (struct option){entries[i].name, entries[i].argument != NULL, NULL, (int)i + 256};
    opterr = 0;
    optind = 0;
    for (int found; (found = getopt_long(argc, argv, ":o:", table, NULL)) != -1;) {
        const struct entry *entry = found == 'o' ? out_entry(command) : found >= 256 ? &entries[found - 256] : NULL;
        if (entry == NULL || !(entry->commands & command)) {
            if (entry != NULL)
                diag_error(diag, "command line", "%s has no option --%s; see attnrun help %s", argv[0], entry->name,
                           argv[0]);
            else if (found == ':')
                diag_error(diag, "command line", "no argument behind \"%s\"; see attnrun help %s", argv[optind - 1],
                           argv[0]);
            else
                unknown_option(argv[optind - 1], argv[0], command, diag);
            return false;
        }
        if (!store(options, entry, optarg, diag))
            return false;
    }
    options->specs = (const char *const *)argv + optind;
    options->spec_count = (size_t)(argc - optind);
    options->compile.set = options->set;
    options->each_isa = options->isa != NULL;
    options->compile.isa = options->isa;
    if (options->isa != NULL && strcmp(options->isa, "all") == 0 && command != COMMAND_PACK) /* which reads it itself */
        options->isa = NULL;
    check_arguments(options, argv[0], command, diag);
    check_needed(options, argv[0], command, diag);
    return diag->errors == 0;
}

void options_free(struct options *options)
{
    free(options->set);
    free(options->vary);
    options->set = options->vary = NULL;
}

bool options_lists(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

bool options_name_isa(const struct options *options, const char *name)
{
    return options_lists(options->isa, name);
}

bool options_want_isa(const struct options *options, const char *name)
{
    return options->isa == NULL || options_name_isa(options, name);
}
