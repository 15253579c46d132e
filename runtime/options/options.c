/* SPDX-License-Identifier: MIT */
/* The commands of attnrun and their options as tables. */
#include "options.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "plan/isa.h"
#include "timing/peak.h"

static const struct option_command commands[] = {
    {"check", COMMAND_CHECK, "a spec", true, "SPEC… [OPTION…]",
     "generates and compiles the layer's kernels, runs every instruction set of this machine on random inputs, and\n"
     "compares with the reference within the derived bound; checks the promises of the interface too"},
    {"run", COMMAND_RUN, "one spec", false,
     "SPEC --in A.safetensors [--weights W.safetensors] [--out B.safetensors] [OPTION…]",
     "runs the layer on the tensors of a file; compares y and attn if the file has them"},
    {"bench", COMMAND_BENCH, "a spec", true, "SPEC… [OPTION…]",
     "times the whole layer and each step on one core, and the peak of that core in the same rounds"},
    {"roof", COMMAND_ROOF, "one spec", false, "SPEC [-o F.svg] [OPTION…]",
     "times the steps of a layer beside the least that this core could take for them: its multiply-add peak, and how\n"
     "fast it reads from where the call's numbers lie"},
    {"tune", COMMAND_TUNE, "one spec", false, "SPEC -o FILE [OPTION…]",
     "checks and measures plans that may be faster on this machine, times the best again against the default, and\n"
     "writes a plan file for attngen --plan; if nothing is gained the file keeps the default"},
    {"selftest", COMMAND_SELFTEST, "one spec", false, "SPEC [-o NAME_test.c] [OPTION…]",
     "writes a C program that tests the layer's pair on the machine where it runs, against the reference's results,\n"
     "which it contains: it prints ok, or the first difference; its first comment says how to build it"},
    {"heatmap", COMMAND_HEATMAP, "one spec", false, "SPEC --in A.safetensors -o F.svg [--head I] [OPTION…]",
     "runs the layer on the tensors of a file and draws the attention weights of each head"},
    {"sweep", COMMAND_SWEEP, "one spec", false, "SPEC --vary KEY=VALUES [--vary KEY=VALUES]… [OPTION…]",
     "compiles, checks and times every combination of the values; prints a table, writes CSV, JSON lines, a page"},
    {"merge", COMMAND_MERGE, "a file of JSON lines", true, "A.jsonl B.jsonl… [OPTION…]",
     "joins the JSON lines of a sweep's shards and says what is missing; refuses results of different sweeps"},
    {"pack", COMMAND_PACK, "one spec", false, "SPEC --weights W.safetensors --isa LIST [-o FILE] [OPTION…]",
     "packs the weights for instruction sets that this machine need not have, and writes a block for each, as a C\n"
     "array or as a binary file with an assembler stub; NAME_open chooses the best one for its machine"},
};

/* groups of commands that share options */
#define BENCHES (COMMAND_BENCH | COMMAND_ROOF)
#define COMPILING \
    (COMMAND_CHECK | COMMAND_RUN | BENCHES | COMMAND_HEATMAP | COMMAND_SWEEP | COMMAND_PACK | COMMAND_TUNE)
#define GENERATING (COMPILING | COMMAND_SELFTEST)
#define PLANNED (COMMAND_CHECK | COMMAND_RUN | BENCHES | COMMAND_HEATMAP | COMMAND_SELFTEST | COMMAND_PACK)
#define DRAWING (COMMAND_CHECK | BENCHES | COMMAND_SWEEP | COMMAND_SELFTEST | COMMAND_TUNE)
#define TIMED (BENCHES | COMMAND_SWEEP)
#define TABLES (COMMAND_SWEEP | COMMAND_MERGE)
#define OF_WEIGHTS (COMMAND_PACK | COMMAND_RUN | COMMAND_HEATMAP)
#define FIELD(name) offsetof(struct options, name)
#define OUT TAKES("out", "FILE", FILE, out), .letter = 'o'

static const struct option_row rows[] = {
    {TAKES("isa", "LIST", ISAS, isa), .commands = COMMAND_CHECK | COMMAND_BENCH,
     .help = "all, or some of %a, joined by commas; default: those that attngen emits"},
    {TAKES("isa", "LIST", ISAS, isa),
     .commands = COMMAND_RUN | COMMAND_HEATMAP | COMMAND_SWEEP | COMMAND_TUNE | COMMAND_ROOF,
     .help = "all, or some of %a, joined by commas; default: the best of those that attngen emits"},
    {TAKES("isa", "LIST", ISAS, isa), .commands = COMMAND_PACK, .needed = COMMAND_PACK,
     .help = "all, or some of %a, joined by commas: a block for each; auto: those that programs on a machine like this "
             "choose among"},
    {TAKES("set", "KEY=VALUE", PAIRS, set), .commands = GENERATING,
     .help = "set a key of the spec, overriding the file"},
    {TAKES("in", "FILE", FILE, in), .commands = COMMAND_RUN | COMMAND_HEATMAP, .needed = COMMAND_RUN | COMMAND_HEATMAP,
     .help = "the layer's tensors, as safetensors"},
    {OUT, .commands = COMMAND_RUN, .help = "write y (and attn) there, as safetensors"},
    {OUT, .commands = COMMAND_SELFTEST, .help = "the program; default: NAME_test.c"},
    {OUT, .commands = COMMAND_HEATMAP, .needed = COMMAND_HEATMAP, .help = "the picture, as SVG"},
    {OUT, .commands = COMMAND_ROOF, .help = "a picture of all calls, as SVG"},
    {OUT, .commands = COMMAND_PACK, .help = "ends in .c, .S or .bin; default: NAME_packed.c"},
    {OUT, .commands = COMMAND_TUNE, .needed = COMMAND_TUNE, .help = "the plan file"},
    {TAKES("plan", "FILE", FILE, compile.plan), .commands = PLANNED,
     .help = "build kernels with the plan of this file, which attnrun tune wrote"},
    {TAKES("budget", "SECONDS", SECONDS, budget), .min = 0, .max = 3600, .commands = COMMAND_TUNE,
     .help = "time for one instruction set; default: 60; 0: as long as one other plan takes"},
    {TAKES("head", "I", SIZE, head), .min = 0, .max = INT32_MAX, .commands = COMMAND_HEATMAP,
     .help = "draw only this head, from 0 on; default: all"},
    {TAKES("sequence", "I", SIZE, sequence), .min = 0, .max = INT32_MAX, .commands = COMMAND_HEATMAP,
     .help = "which sequence of the batch, from 0 on; default: 0"},
    {TAKES("scale", "linear|sqrt|log", WORD, scale), .commands = COMMAND_HEATMAP,
     .help = "colour against weight, log over four decades; default: sqrt"},
    {TAKES("labels", "FILE", FILE, labels), .commands = COMMAND_HEATMAP,
     .help = "names of the positions of x, one a line"},
    {TAKES("source-labels", "FILE", FILE, source_labels), .commands = COMMAND_HEATMAP,
     .help = "names of the positions of source, one a line"},
    {TAKES("format", "c|blob", WORD, format), .commands = COMMAND_PACK,
     .help = "c: an array; blob: FILE.bin, and FILE.S that includes it; both with a header; default: by the suffix of "
             "FILE"},
    {TAKES("symbol", "NAME", TEXT, symbol), .commands = COMMAND_PACK,
     .help = "the name of the block; default: NAME_packed"},
    {TAKES("weights", "FILE", FILE, weights.path), .commands = COMMAND_PACK,
     .help = "the weights: safetensors of the layer or of a model, with attngen's, torch's or Hugging Face's names; "
             "needed unless the layer has none; with --all the model's folder"},
    {FLAG("all", all), .commands = COMMAND_PACK,
     .help = "pack a whole model into one file, for NAME_model_open: the spec is NAME.layers of attngen import, and -o "
             "the file; default: NAME.packed"},
    {TAKES("weights", "FILE", FILE, weights.path), .commands = COMMAND_RUN | COMMAND_HEATMAP,
     .help = "the weights, overriding those of --in: safetensors of the layer or of a model, with attngen's, torch's "
             "or Hugging Face's names"},
    {TAKES("prefix", "TEXT", TEXT, weights.prefix), .commands = OF_WEIGHTS,
     .help = "prefix of the layer's names in the file of weights, such as h.0.attn."},
    {FLAG("zero-bias", weights.zero_bias), .commands = OF_WEIGHTS,
     .help = "a bias that the file of weights lacks is zero"},
    {FLAG("norm-plus-one", weights.norm_plus_one), .commands = OF_WEIGHTS,
     .help = "add 1 to the file's weights of norms, which Gemma stores minus 1"},
    {FLAG("reference", reference), .commands = COMMAND_RUN,
     .help = "compute by the double-precision reference instead of a kernel"},
    {FLAG("backward", backward), .commands = BENCHES, .help = "time the backward pass of layers with train = true"},
    {FLAG("reference", reference), .commands = COMMAND_BENCH, .help = "time the double-precision reference too"},
    {TAKES("vary", "KEY=VALUES", PAIRS, vary), .commands = COMMAND_SWEEP, .needed = COMMAND_SWEEP,
     .help = "a key of the spec, isa, n, m, batch or past, and its values: 1,2,4 or 256:1024:64 (first:last:step); "
             "repeat it for the next key"},
    {TAKES("csv", "FILE", FILE, csv), .commands = TABLES,
     .help = "the table with every column, as CSV; -: to the standard output"},
    {TAKES("json", "FILE", FILE, json_lines), .commands = TABLES,
     .help = "JSON lines, one for each point, written when it is checked and replaced when it is timed; -: to the "
             "standard output, when it is timed"},
    {TAKES("html", "FILE", FILE, html), .commands = TABLES, .help = "one self-contained page with the table"},
    {FLAG("resume", resume), .commands = COMMAND_SWEEP, .help = "continue where the file of --json ends"},
    {TAKES("shard", "I/N", TEXT, shard), .commands = COMMAND_SWEEP,
     .help = "only the I-th of N parts of the points; see attnrun merge"},
    {TAKES("seed", "S", NUMBER, seed), .min = 0, .max = UINT64_MAX, .commands = DRAWING,
     .help = "seed of the random inputs; default: 1"},
    {TAKES("init", "xavier|normal", WORD, init_name), .commands = COMMAND_CHECK | TIMED | COMMAND_TUNE,
     .help = "distribution of the random weights"},
    {TAKES("batch", "B", SIZE, batch), .min = 0, .max = INT32_MAX, .commands = DRAWING,
     .help = "sequences; default: 1; check and selftest: 2, or 1 for a large layer"},
    {TAKES("n", "N", SIZE, n), .min = 0, .max = INT32_MAX, .commands = DRAWING & ~BENCHES,
     .help = "queries; default: seq_len; sweep with a cache: 1; selftest: at most 37, fewer for a large layer"},
    {TAKES("n", "N[,N...]", COUNTS, queries), .commands = BENCHES,
     .help = "queries, each number in turn; default: seq_len, with a cache also 1"},
    {TAKES("past", "P[,P...]", COUNTS, pasts), .commands = BENCHES,
     .help = "positions that a cache holds, each number in turn; default: 0 for seq_len queries, and for one query a "
             "quarter, a half and all but one of cache_len"},
    {TAKES("m", "M", SIZE, m), .min = 0, .max = INT32_MAX, .commands = DRAWING,
     .help = "keys in cross-attention; default: source_len; selftest: at most n + 6"},
    {TAKES("lengths", "L[,L...]", COUNTS, lengths), .commands = BENCHES | COMMAND_SELFTEST,
     .help = "keys of each sequence, with a padding mask; default: all; selftest: all of the first, random for others"},
    {TAKES("rounds", "R", SIZE, rounds), .min = 1, .max = 1000000, .commands = TIMED,
     .help = "minimum number of measurements; default: 15"},
    {TAKES("seconds", "S", SECONDS, seconds), .min = 0, .max = 3600, .commands = TIMED,
     .help = "approximate time to measure a kernel; default: 1"},
    {FLAG("json", json), .commands = BENCHES | COMMAND_TUNE, .help = "one JSON object a line"},
    {TAKES("against", "f32", WORD, against), .commands = COMMAND_CHECK,
     .help = "also print what the layer's number types cost: how far y is from that of the same layer in f32"},
    {FLAG("digest", digest), .commands = COMMAND_CHECK | COMMAND_RUN | COMMAND_BENCH,
     .help = "also print a digest of y, attn, lse and a cache: with exact = portable it is the same on every machine"},
    {FLAG("quiet", quiet), .commands = COMMAND_CHECK, .help = "print only failures and the last line"},
    {TAKES("cache", "DIR", FOLDER, compile.cache), .commands = COMPILING,
     .help = "keep compiled kernels there, in a folder that only you can write to; default: $XDG_CACHE_HOME/attngen"},
    {TAKES("templates", "DIR", FOLDER, compile.templates), .commands = GENERATING,
     .help = "read the generator's templates from DIR"},
    {TAKES("attngen", "PATH", FILE, compile.attngen), .commands = GENERATING,
     .help = "the generator; default: $ATTNGEN, or the one beside attnrun"},
    {ASK("help", help), .letter = 'h', .commands = ~0u, .help = "this text"},
};

const struct option_program attnrun_program = {"attnrun", commands, sizeof commands / sizeof *commands, rows,
                                               sizeof rows / sizeof *rows, false, isa_list_in_help};

bool options_parse(struct options *options, int argc, char **argv, const struct option_command *command,
                   struct diag *diag)
{
    struct option_texts specs;
    *options = (struct options){.seed = 1, .batch = UNSET, .n = UNSET, .m = UNSET, .rounds = UNSET, .head = UNSET,
                                .sequence = UNSET, .seconds = 1, .budget = 60};
    const bool good = options_read(&attnrun_program, command, argc, argv, options, &specs, diag);
    options->specs = specs.text;
    options->spec_count = specs.count;
    options->compile.set = options->set.text;
    options->compile.set_count = options->set.count;
    options->init = options->init_name != NULL && strcmp(options->init_name, "normal") == 0 ? INIT_NORMAL : INIT_XAVIER;
    options->each_isa = options->isa != NULL;
    options->compile.isa = options->isa;
    if (options->isa != NULL && strcmp(options->isa, "all") == 0 &&
        command->bit != COMMAND_PACK) /* which reads it itself */
        options->isa = NULL;
    return good;
}

void options_free(struct options *options)
{
    options_forget(&attnrun_program, options);
}

static void print_quoted(const char *text, FILE *out)
{
    putc('\'', out);
    for (; *text != '\0'; text++)
        if (*text == '\'')
            fputs("'\\''", out);
        else
            putc(*text, out);
    putc('\'', out);
}

static void print_word(const char *word, FILE *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
    if (*word == '\0' || word[strspn(word, plain)] != '\0')
        print_quoted(word, out);
    else
        fputs(word, out);
}

/* An option as it was given, after a blank */
static void print_option(const struct option_row *row, const void *field, FILE *out)
{
    const struct option_texts *texts = field;
    const char *const *text = field;
    const size_t *size = field;
    switch (row->kind) {
    case OPTION_ASK: case OPTION_SECONDS:
        break;
    case OPTION_FLAG:
        if (*(const bool *)field)
            fprintf(out, " --%s", row->name);
        break;
    case OPTION_SIZE:
        if (*size != UNSET)
            fprintf(out, " --%s %zu", row->name, *size);
        break;
    case OPTION_NUMBER:
        fprintf(out, " --%s %llu", row->name, (unsigned long long)*(const uint64_t *)field);
        break;
    case OPTION_PAIRS:
        for (size_t i = 0; i < texts->count; i++) {
            fprintf(out, " --%s ", row->name);
            print_quoted(texts->text[i], out);
        }
        break;
    default:
        if (*text != NULL) {
            fprintf(out, " --%s ", row->name);
            print_word(*text, out);
        }
    }
}

void options_repeat(const struct options *options, enum command_bit command, const char *spec, FILE *out)
{
    static const char *const variables[] = {"CC", "CFLAGS", "ATTNRUN_LIMIT"};
    size_t c = 0;
    while (commands[c].bit != command)
        c++;
    fputs("  repeat: ", out);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        if (value == NULL)
            continue;
        fprintf(out, "%s=", variables[i]);
        print_quoted(value, out);
        putc(' ', out);
    }
    fprintf(out, "attnrun %s ", commands[c].name);
    print_word(spec, out);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if ((rows[i].commands & command) != 0)
            print_option(&rows[i], (const char *)options + rows[i].field, out);
    putc('\n', out);
}

struct inputs_draw options_draw(const struct options *options, const struct layer *layer, size_t batch)
{
    const size_t n = given_or(options->n, layer->seq_len);
    return (struct inputs_draw){.seed = options->seed, .init = options->init, .n = n,
                                .m = layer_is_square(layer) ? n : given_or(options->m, layer->source_len),
                                .batch = given_or(options->batch, (int64_t)batch)};
}

bool options_fit(const struct options *options, const struct layer *layer, const char *spec, struct diag *diag)
{
    return options->m == UNSET || options->spec_count > 1 || !layer_is_square(layer) ||
           diag_error(diag, spec, "--m is for cross-attention; this layer has as many keys as queries, --n");
}

/* Whether `name` is in a list joined by commas; NULL is an empty list */
static bool lists(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

unsigned options_blocks(const struct options *options, unsigned possible, struct diag *diag)
{
    const bool here = strcmp(options->isa, "auto") == 0, all = strcmp(options->isa, "all") == 0;
    /* scalar is in, asked for or not */
    const unsigned rows = here ? isa_default() : isa_parse_list(options->isa, diag);
    unsigned blocks = 0;
    for (size_t row = isa_count; diag->errors == 0 && row-- > 0;) {
        const struct isa *const isa = &isa_table[row];
        const bool wanted = all || (here ? peak_knows(isa->name) : lists(options->isa, isa->name));
        blocks |= wanted && (rows >> row & 1u) != 0 ? 1u << row : 0;
        if (here && (blocks >> row & 1u) != 0 && isa->needs[0].name == NULL)
            break; /* every machine of this kind has it: no other is the last resort */
    }
    return here || all ? blocks & possible : blocks;
}

bool options_name_isa(const struct options *options, const char *name)
{
    return lists(options->isa, name);
}

bool options_want_isa(const struct options *options, const char *name)
{
    return options->isa == NULL || options_name_isa(options, name);
}
