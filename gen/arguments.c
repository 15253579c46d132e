/* SPDX-License-Identifier: MIT */
#include "arguments.h"

#include <string.h>

#include "base/diag.h"
#include "base/memory.h"
#include "base/text.h"
#include "plan/isa.h"

/* ---- the table ---- */

#define FIELD(name) offsetof(struct arguments, name)
#define EMITS (ARGUMENTS_SPECS | ARGUMENTS_MODEL)
#define ALL (EMITS | ARGUMENTS_IMPORT)

static const struct option_row options[] = {
    {TAKES("output", "DIR", FOLDER, folder), .letter = 'o', .commands = ALL,
     .help = "write into DIR, made if it is missing; default: the current folder"},
    {TAKES("isa", "LIST", ISAS, isas), .commands = ALL,
     .help = "the instruction sets to emit, joined by commas: all, or any of %a; default: %d, "
             "those of whole numbers where a layer has such products; always with scalar"},
    {TAKES("size", "fast|small", WORD, size), .commands = ALL,
     .help = "small: less code, slower; the same as --set plan.size=SIZE; default: fast"},
    {FLAG("split", split), .commands = ALL,
     .help = "write each instruction set's code into a file of its own, NAME_ISA.c, beside NAME.c and NAME_internal.h"},
    {FLAG("shim", shim), .commands = ARGUMENTS_SPECS,
     .help = "write NAME_shim.c too, a table of the pair's tensors and functions for programs that call any layer"},
    {TAKES("set", "KEY=VALUE", PAIRS, set), .commands = EMITS,
     .help = "set a key of each spec, overriding the file; may be repeated"},
    {FLAG("explain", explain), .commands = ARGUMENTS_SPECS,
     .help = "print the layer step by step and the plan with its reasons; write only if -o is given"},
    {TAKES("batch", "B", NUMBER, batch), .min = 1, .max = INT32_MAX, .commands = ARGUMENTS_SPECS,
     .help = "sequences in a call, for the speed that --explain predicts; default: 1"},
    {TAKES("plan", "FILE", FILE, plan), .commands = ARGUMENTS_SPECS,
     .help = "build with the plan that attnrun tune wrote for this layer"},
    {FLAG("any-cpu", any_cpu), .commands = ARGUMENTS_SPECS,
     .help = "do not warn if that plan was measured on another CPU"},
    {TAKES("deps", "FILE", FILE, deps), .commands = ALL,
     .help = "write Make rules that list what each pair, and a model, was made from"},
    {TAKES("templates", "DIR", FOLDER, templates), .commands = EMITS,
     .help = "read the templates from DIR, which must be trusted, instead of the built-in ones"},
    {TAKES("name", "NAME", TEXT, name), .commands = ARGUMENTS_IMPORT,
     .help = "prefix of the specs and of NAME.layers; default: the model's family"},
    {FLAG("specs", specs_alone), .commands = ARGUMENTS_IMPORT,
     .help = "write only the specs and NAME.layers, to be changed before attngen model makes C of them"},
    {TAKES("seq-len", "N", NUMBER, seq_len), .min = 1, .max = INT32_MAX, .commands = ARGUMENTS_IMPORT,
     .help = "maximum of tokens of a sequence in a call; default: the model's positions, with a cache at most 512"},
    {TAKES("cache", "rows|ring|paged|none", WORD, cache), .commands = ARGUMENTS_IMPORT,
     .help = "the cache of decoding layers; with ring, layers without a window have rows; default: rows"},
    {TAKES("cache-len", "N", NUMBER, cache_len), .min = 1, .max = INT32_MAX, .commands = ARGUMENTS_IMPORT,
     .help = "maximum of tokens of a sequence in a cache; default: the model's positions, at most 4096"},
    {TAKES("weight-type", "f32|bf16|f16|i8|i4", WORD, weight_type), .commands = ARGUMENTS_IMPORT,
     .help = "type of the packed weights of all layers; default: f32"},
    {TAKES("precision", "f32|i16|i8|bf16", WORD, precision), .commands = ARGUMENTS_IMPORT,
     .help = "operands of the products with matrices, in all layers; default: f32"},
    {TAKES("exact", "bound|portable", WORD, exact), .commands = ARGUMENTS_IMPORT,
     .help = "portable: results have the same bits on every machine; default: bound"},
    {TAKES("cache-type", "f32|bf16|f16|i8", WORD, cache_type), .commands = ARGUMENTS_IMPORT,
     .help = "type of keys and values in the caches of all layers; default: f32"},
    {TAKES("ignore", "KEY", PAIRS, ignore), .commands = ARGUMENTS_IMPORT,
     .help = "pass over this key of config.json, unknown to attngen, as it changes no result; may be repeated"},
    {FLAG("list", list), .commands = ARGUMENTS_IMPORT, .alone = true,
     .help = "write nothing, but print a table: with DIR what of it is known and what is missing, without one each "
             "model_type that is known, and the classes whose heads are read"},
    {ASK("keys", keys), .commands = ARGUMENTS_SPECS, .help = "the keys of a spec and their values"},
    {ASK("help", help), .letter = 'h', .commands = ALL, .help = "this text"},
    {ASK("version", version), .commands = ARGUMENTS_SPECS, .help = "the version"},
};

static const struct option_command commands[] = {
    {NULL, ARGUMENTS_SPECS, "a spec", true, "[-o DIR] [OPTION…] SPEC…",
     "Reads the spec of a layer and writes the C that computes it: NAME.c and NAME.h. A pair is the same whether\n"
     "its spec is given alone or with others; if one spec is bad, nothing is written. A file that would not change\n"
     "keeps its time"},
    {"import", ARGUMENTS_IMPORT, "one folder of a model", false, "DIR [-o DIR] [--name NAME] [OPTION…]",
     "reads the config.json of a Hugging Face model and the headers of its safetensors. Writes a spec for each\n"
     "distinct layer; NAME.layers, with the order of the layers and the places of their weights; and the C that\n"
     "attngen model makes from these: NAME_model.c, NAME_model.h and the pair of each spec"},
    {"model", ARGUMENTS_MODEL, "one NAME.layers", false, "NAME.layers [-o DIR] [OPTION…]",
     "writes the C of a model that attngen import has read: NAME_model.c and NAME_model.h, and the pair of each spec"},
};

const struct option_program attngen_program = {"attngen", commands, sizeof commands / sizeof *commands, options,
                                               sizeof options / sizeof *options, true, isa_list_in_help};

/* ---- reading ---- */

/* --size is a short way to write a --set. */
static void add_size(struct arguments *a)
{
    static const char *const sets[] = {"plan.size=fast", "plan.size=small"};
    for (size_t i = 0; a->size != NULL && i < sizeof sets / sizeof *sets; i++)
        if (strcmp(strchr(sets[i], '=') + 1, a->size) == 0)
            a->set.text[a->set.count++] = sets[i];
}

bool arguments_read(struct arguments *a, int argc, char **argv, struct diag *diag)
{
    const bool help = argc > 2 && strcmp(argv[1], "help") == 0; /* help COMMAND; "help" alone may be a spec */
    const struct option_command *named = argc > 1 + help ? options_find(&attngen_program, argv[1 + help]) : NULL;
    *a = (struct arguments){.command = named != NULL ? named : commands};
    if (help && named != NULL)
        return a->help = true;
    argv += named != NULL;
    argc -= named != NULL;
    if (!options_read(&attngen_program, a->command, argc, argv, a, &a->specs, diag) || a->keys || a->help ||
        a->version)
        return diag->errors == 0;
    if (a->explain && a->folder == NULL && a->deps != NULL)
        diag_error(diag, "attngen", "--deps with --explain needs -o, or nothing is written");
    const struct { const char *name; bool given, of_c; } writes[] = { /* what is for files, and for C alone */
        {"split", a->split, true}, {"size", a->size != NULL, true}, {"isa", a->isas != NULL, false},
        {"deps", a->deps != NULL, false}, {"specs", a->specs_alone, false}};
    for (size_t i = 0; i < sizeof writes / sizeof *writes && diag->errors == 0; i++)
        if (writes[i].given && a->list)
            diag_error(diag, "attngen import", "--list writes nothing, which --%s is for; leave out one of them",
                       writes[i].name);
        else if (writes[i].given && a->specs_alone && writes[i].of_c)
            diag_error(diag, "attngen import", "--specs writes no C, which --%s is for; give it to attngen model",
                       writes[i].name);
    if (a->any_cpu && a->plan == NULL)
        diag_error(diag, "attngen", "--any-cpu needs --plan; only a plan names a CPU");
    if (a->batch != 0 && !a->explain)
        diag_error(diag, "attngen", "--batch needs --explain; a kernel takes any batch");
    add_size(a);
    return diag->errors == 0;
}

void arguments_free(struct arguments *a)
{
    options_forget(&attngen_program, a);
}

void arguments_help(const struct arguments *a, FILE *out)
{
    options_help(&attngen_program, a->command, out);
    if (a->command == commands)
        fputs("\nattngen import DIR writes the specs and the C of a model, attngen model NAME.layers its C again from\n"
              "changed specs; see attngen help import\n", out);
    fputs("\nexit codes: 0 success; 2 wrong usage, spec, model or template; 3 the machine failed (no memory, "
          "unwritable file)\n", out);
}

/* ---- the command line that the product names ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static void print_isas(FILE *out, unsigned isas)
{
    const unsigned scalar = 1; /* row 0, which others imply */
    char names[200];
    if (isas == isa_default())
        return;
    isa_list_names(names, sizeof names, isas == scalar ? scalar : isas & ~scalar, ",");
    fprintf(out, " --isa %s", isas == isa_all() ? "all" : names);
}

char *arguments_command(const struct arguments *a, const char *spec, unsigned isas)
{
    struct text text;
    FILE *out = text_begin(&text);
    fputs("attngen", out);
    print_isas(out, isas);
    if (a->split)
        fputs(" --split", out);
    for (size_t i = 0; i < a->set.count; i++) {
        fputs(" --set", out);
        text_print_word(out, a->set.text[i]);
    }
    if (a->plan != NULL) {
        fputs(" --plan", out);
        text_print_word(out, base_name(a->plan));
    }
    text_print_word(out, base_name(spec));
    return text_end(&text);
}
