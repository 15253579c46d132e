/* SPDX-License-Identifier: MIT */
/* attngen: from a layer's spec to the C file that computes it. main() is the table of contents.
 *
 * Left out on purpose: every decision. layer.c knows the spec, plan.c decides, the templates spell, emit.c writes.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "diag.h"
#include "emit.h"
#include "expect.h"
#include "explain.h"
#include "isa.h"
#include "layer.h"
#include "nearest.h"
#include "plan.h"
#include "planfile.h"
#include "system.h"
#include "version.h"

static const char usage_line[] =
    "usage: attngen [-o DIR] [--isa LIST] [--size SIZE] [--set KEY=VALUE]... [--explain] [--batch B]\n"
    "               [--plan FILE [--any-cpu]] [--deps FILE] [--templates DIR] SPEC...\n";

static const char help_text[] =
    "\n"
    "Reads the spec of an attention layer and writes the C that computes it: NAME.c and NAME.h. Of several specs each\n"
    "gives its pair, the same as alone; where one is bad, nothing is written.\n"
    "\n"
    "  -o, --output DIR    write into DIR, made if it is missing (default: here)\n"
    "  --isa LIST          the instruction sets to emit: all, or any of %s\n"
    "                      (default: %s; scalar is always in)\n"
    "  --size SIZE         fast (default), or small: less code, slower; the same as --set plan.size=SIZE\n"
    "  --set KEY=VALUE     set a key of each spec, over what the file says; as often as wanted\n"
    "  --explain           print the layer step by step and the plan with its reasons; write only if -o is given\n"
    "  --batch B           sequences in a call, for the speed that --explain expects (default: 1)\n"
    "  --plan FILE         build as the plan file says that attnrun tune wrote for this layer\n"
    "  --any-cpu           no warning where that was measured on another CPU than this one\n"
    "  --deps FILE         write a Make rule for each pair that says what it was made from\n"
    "  --templates DIR     read the templates from DIR instead of the built-in ones\n"
    "  --help, --version\n"
    "\n"
    "Exit codes: 0 good, 2 wrong usage or spec or template, 3 the machine failed (no memory, unwritable file).\n";

struct options {
    char *const *specs;
    size_t spec_count;
    const char *folder; /* NULL: not given */
    const char *isas;
    const char *deps;
    const char *templates;
    const char *plan;
    const char *batch;
    const char *size;
    const char **set; /* KEY=VALUE texts */
    size_t set_count;
    bool explain, any_cpu, help, version;
};

/* One spec and what becomes of it: paths and texts of NAME.c and NAME.h. */
struct pair {
    const char *spec;
    struct layer *layer;
    struct plan *plan;
    char *path[2], *text[2];
    size_t length[2];
};

/* The .c is written first: should a kill leave one new file and one old, the new .c refuses any other header than its
 * own, even one from before headers had a number. */
static const struct { const char *template_name, *suffix; } outlines[2] = {
    {"kernel.c.in", ".c"},
    {"kernel.h.in", ".h"},
};

/* Where the pair's number goes, a C constant as long as this. */
static const char pair_place[] = "0x@attngen's.pair@";

/* ---- options ---- */

enum {
    OPT_ISA = 256, OPT_SIZE, OPT_SET, OPT_EXPLAIN, OPT_BATCH, OPT_DEPS, OPT_TEMPLATES, OPT_PLAN, OPT_ANY_CPU, OPT_HELP,
    OPT_VERSION
};

static const struct option long_options[] = {
    {"output", required_argument, NULL, 'o'},
    {"isa", required_argument, NULL, OPT_ISA},
    {"size", required_argument, NULL, OPT_SIZE},
    {"set", required_argument, NULL, OPT_SET},
    {"explain", no_argument, NULL, OPT_EXPLAIN},
    {"batch", required_argument, NULL, OPT_BATCH},
    {"deps", required_argument, NULL, OPT_DEPS},
    {"templates", required_argument, NULL, OPT_TEMPLATES},
    {"plan", required_argument, NULL, OPT_PLAN},
    {"any-cpu", no_argument, NULL, OPT_ANY_CPU},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

/* An option whose value is `text`; false when it was given before or is empty. */
static bool once(const char **slot, const char *text)
{
    if (*slot || !*text)
        return false;
    *slot = text;
    return true;
}

static bool take_option(struct options *options, int option, const char *value)
{
    switch (option) {
    case 'o':
        return once(&options->folder, value);
    case OPT_ISA:
        if (options->isas)
            return false;
        options->isas = value; /* an empty list is isa_parse_list()'s to refuse */
        return true;
    case OPT_SIZE:
        return once(&options->size, value);
    case OPT_SET:
        options->set[options->set_count++] = value;
        return true;
    case OPT_BATCH:
        return once(&options->batch, value);
    case OPT_DEPS:
        return once(&options->deps, value);
    case OPT_TEMPLATES:
        return once(&options->templates, value);
    case OPT_PLAN:
        return once(&options->plan, value);
    case OPT_ANY_CPU:
        return options->any_cpu = true;
    case OPT_EXPLAIN:
        return options->explain = true;
    case 'h':
    case OPT_HELP:
        return options->help = true;
    case OPT_VERSION:
        return options->version = true;
    default:
        return false;
    }
}

/* The number that `text` is, 0 if it is none from 1 to 2^31 - 1. */
static int64_t read_batch(const char *text)
{
    int64_t number = 0;
    for (const char *c = text; *c; c++) {
        if (*c < '0' || *c > '9' || number > INT32_MAX)
            return 0;
        number = 10 * number + (*c - '0');
    }
    return number > INT32_MAX ? 0 : number;
}

/* --size is a short way to write a --set; NULL: no such size */
static const char *set_of_size(const char *size)
{
    static const char *const sets[] = {"plan.size=fast", "plan.size=small"};
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        if (strcmp(strchr(sets[i], '=') + 1, size) == 0)
            return sets[i];
    return NULL;
}

static void wrong_usage(struct diag *diag, const char *what, const char *argument)
{
    diag_error(diag, "attngen", "%s%s%s%s; 'attngen --help' lists the options", what, argument ? " '" : "",
               argument ? argument : "", argument ? "'" : "");
}

static void unknown_option(struct diag *diag, const char *word)
{
    const char *option = word + strspn(word, "-");
    struct nearest nearest = nearest_to(option, strcspn(option, "="));
    char text[NEAREST_TEXT];
    nearest.before = "--";
    for (size_t i = 0; long_options[i].name; i++)
        nearest_offer(&nearest, long_options[i].name);
    diag_error(diag, "attngen", "unknown or unclear option '%s'; %s", word,
               nearest_ask(&nearest, text, "'attngen --help' lists the options"));
}

/* Fills `options`; anything wrong is one error in diag. */
static void read_options(struct options *options, int argc, char **argv, struct diag *diag)
{
    options->set = calloc((size_t)argc + 1, sizeof *options->set);
    if (!options->set) {
        diag_environment(diag, NULL, "no memory for the options");
        return;
    }
    opterr = 0;
    for (;;) {
        const int at = optind;
        const int option = getopt_long(argc, argv, ":o:h", long_options, NULL);
        if (option == -1)
            break;
        if (option == ':')
            wrong_usage(diag, "a value is missing after", argv[optind - 1]);
        else if (option == '?')
            unknown_option(diag, argv[at < argc ? optind - 1 : argc - 1]);
        else if (!take_option(options, option, optarg))
            wrong_usage(diag, "an option is given twice, or without its value:", argv[optind - 1]);
        if (diag->errors || options->help || options->version)
            return;
    }
    if (optind == argc)
        wrong_usage(diag, "no spec is given; name a file", NULL);
    else if (options->explain && !options->folder && options->deps)
        wrong_usage(diag, "--deps with --explain needs -o, or nothing is written", NULL);
    else if (options->any_cpu && !options->plan)
        wrong_usage(diag, "--any-cpu is for --plan; without a plan no CPU is asked", NULL);
    else if (options->batch && !options->explain)
        wrong_usage(diag, "--batch is for --explain; a kernel takes any batch", NULL);
    else if (options->batch && read_batch(options->batch) == 0)
        wrong_usage(diag, "--batch wants a number from 1 to 2147483647, not", options->batch);
    else if (options->size && !set_of_size(options->size))
        wrong_usage(diag, "--size wants fast or small, not", options->size);
    if (options->size && !diag->errors)
        options->set[options->set_count++] = set_of_size(options->size);
    options->specs = argv + optind;
    options->spec_count = (size_t)(argc - optind);
}

static void print_help(void)
{
    char names[200], by_default[200];

    isa_list_names(names, sizeof names, isa_all(), ",");
    isa_list_names(by_default, sizeof by_default, isa_default(), ",");
    fputs(usage_line, stdout);
    printf(help_text, names, by_default);
}

/* ---- the command line that the product names ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Writes " WORD", quoted for a shell where it must be; what could end or break a comment becomes '?'. */
static void print_word(FILE *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
    const bool quote = !*word || word[strspn(word, plain)];

    fputs(quote ? " '" : " ", out);
    for (const char *c = word; *c; c++) {
        if (*c == '\'')
            fputs("'\\''", out);
        else
            putc((unsigned char)*c < ' ' || *c == 127 || (*c == '/' && c > word && c[-1] == '*') ? '?' : *c, out);
    }
    if (quote)
        putc('\'', out);
}

static void print_isas(FILE *out, unsigned isas)
{
    const unsigned scalar = 1; /* row 0, which goes without saying beside others */
    char names[200];

    if (isas == isa_default())
        return;
    isa_list_names(names, sizeof names, isas == scalar ? scalar : isas & ~scalar, ",");
    fprintf(out, " --isa %s", isas == isa_all() ? "all" : names);
}

/* The same for every folder, every order of the ISAs and in any company: no -o, no path, no other spec. The caller
 * frees it. */
static char *canonical_command(const struct options *options, const char *spec, unsigned isas)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    if (!out)
        return NULL;
    fputs("attngen", out);
    print_isas(out, isas);
    for (size_t i = 0; i < options->set_count; i++) {
        fputs(" --set", out);
        print_word(out, options->set[i]);
    }
    if (options->plan) {
        fputs(" --plan", out);
        print_word(out, base_name(options->plan));
    }
    print_word(out, base_name(spec));
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- the phases ---- */

/* The plan's choices are made from the layer and, where there is one, the plan file; the machine is asked only whether
 * the file speaks of it, for a warning. */
static struct plan *decide(const struct options *options, const struct layer *layer, unsigned isas, struct diag *diag)
{
    struct plan_file file;
    char cpu[PLAN_TEXT];

    if (!options->plan)
        return plan_make(layer, isas, diag);
    if (!plan_file_read(&file, options->plan, layer, diag))
        return NULL;
    if (!options->any_cpu) {
        plan_this_cpu(cpu);
        plan_file_warn(&file, isas, cpu, NULL, stderr);
    }
    return plan_make_from(layer, isas, &file, diag);
}

/* Reads every spec, and plans it where all are good. */
static void read_specs(struct pair *pairs, const struct options *options, unsigned isas, struct diag *diag)
{
    for (size_t i = 0; i < options->spec_count; i++) {
        pairs[i].spec = options->specs[i];
        pairs[i].layer = layer_read(pairs[i].spec, options->set, options->set_count, diag);
    }
    for (size_t i = 0; i < options->spec_count && !diag->errors; i++)
        pairs[i].plan = decide(options, pairs[i].layer, isas, diag);
}

/* Two pairs in one folder, or one program: no name may occur twice. Macros have it in capitals. */
static void check_names(const struct pair *pairs, size_t count, struct diag *diag)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++) {
            const char *name = pairs[i].layer ? pairs[i].layer->name : NULL;
            const char *other = pairs[j].layer ? pairs[j].layer->name : NULL;
            if (!name || !other || strcasecmp(name, other) != 0)
                continue;
            diag_error(diag, pairs[i].spec,
                       strcmp(name, other) == 0
                           ? "the name '%s' is also that of %s ('%s'); give each layer a name of its own"
                           : "the name '%s' is in capitals also that of %s ('%s'), whose macros it would share; give "
                             "each layer a name of its own",
                       name, pairs[j].spec, other);
            break;
        }
}

static void explain(const struct pair *pairs, size_t count, int64_t batch, struct diag *diag)
{
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            putchar('\n');
        explain_layer(pairs[i].layer, stdout);
        plan_explain(pairs[i].plan, pairs[i].layer, stdout);
        expect_explain(pairs[i].plan, pairs[i].layer, batch, stdout);
    }
    if (fflush(stdout) != 0 || ferror(stdout))
        diag_environment(diag, "standard output", "cannot be written: %s", strerror(errno));
}

static bool fill_context(struct emit *emit, const struct options *options, const struct pair *pair, unsigned isas,
                         struct diag *diag)
{
    char *command = canonical_command(options, pair->spec, isas);

    if (!command) {
        diag_environment(diag, NULL, "no memory for the command line");
        return false;
    }
    emit_set_string(emit, "COMMAND", command);
    emit_set_string(emit, "VERSION", ATTNGEN_VERSION);
    emit_set_string(emit, "PAIR", pair_place);
    plan_context(pair->plan, pair->layer, emit);
    free(command);
    return true;
}

/* Writes a number of both texts, FNV-1a, into both, by which the .c tells the header of its own run from any other. */
static void number_pair(struct pair *pair)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    char number[sizeof pair_place];

    for (int i = 0; i < 2; i++)
        for (size_t at = 0; at < pair->length[i]; at++)
            hash = (hash ^ (unsigned char)pair->text[i][at]) * UINT64_C(0x100000001b3);
    snprintf(number, sizeof number, "0x%016" PRIx64, hash);
    for (int i = 0; i < 2; i++)
        for (char *at = pair->text[i]; (at = strstr(at, pair_place)); )
            memcpy(at, number, sizeof number - 1);
}

static bool expand(struct pair *pair, struct emit *emit, struct diag *diag)
{
    for (int i = 0; i < 2; i++) {
        pair->text[i] = emit_expand(emit, outlines[i].template_name, &pair->length[i], diag);
        if (!pair->text[i])
            return false;
    }
    number_pair(pair);
    return true;
}

static bool make_folder(const char *folder, struct diag *diag)
{
    const int error = system_make_folders(folder, 0777);
    if (error != 0)
        diag_environment(diag, folder, "cannot be made a folder: %s", strerror(error == EEXIST ? ENOTDIR : error));
    return error == 0;
}

/* DIR/NAME.c and DIR/NAME.h, without the DIR where none was given. */
static bool set_paths(struct pair *pair, const char *folder, struct diag *diag)
{
    const char *slash = folder && folder[strlen(folder) - 1] != '/' ? "/" : "", *name = pair->layer->name;

    for (int i = 0; i < 2; i++)
        if (asprintf(&pair->path[i], "%s%s%s%s", folder ? folder : "", slash, name, outlines[i].suffix) < 0) {
            pair->path[i] = NULL;
            diag_environment(diag, NULL, "no memory for the paths");
            return false;
        }
    return true;
}

/* Writes a path as Make, Ninja and CMake read it: backslashes count double, but only before what one of them quotes. */
static void print_make_path(FILE *out, const char *path)
{
    for (const char *c = path; *c; c++) {
        const size_t backslashes = strspn(c, "\\");
        const char *quoted = strchr(" \t#:", c[backslashes]);
        if (*c == '\\' ? quoted != NULL : quoted && *quoted)
            putc('\\', out);
        else if (*c == '$')
            putc('$', out);
        putc(*c, out);
    }
}

/* "NAME.c NAME.h: SPEC PLAN TEMPLATE…", and an empty rule for each template, so that one may vanish. */
static void print_rule(FILE *out, const struct pair *pair, const char *plan, const struct emit *emit)
{
    size_t count;
    const char *const *templates = emit_files_read(emit, &count);

    print_make_path(out, pair->path[0]);
    putc(' ', out);
    print_make_path(out, pair->path[1]);
    fputs(": ", out);
    print_make_path(out, pair->spec);
    if (plan) {
        putc(' ', out);
        print_make_path(out, plan);
    }
    for (size_t i = 0; i < count; i++) {
        fputs(" \\\n ", out);
        print_make_path(out, templates[i]);
    }
    putc('\n', out);
    for (size_t i = 0; i < count; i++) {
        print_make_path(out, templates[i]);
        fputs(":\n", out);
    }
}

/* The pair's texts, and its rule behind those before it. */
static bool make_texts(struct pair *pair, FILE *rules, const struct options *options, unsigned isas, struct diag *diag)
{
    struct emit *emit = emit_open(options->templates, diag);
    const bool good = emit && fill_context(emit, options, pair, isas, diag) && expand(pair, emit, diag) &&
                      set_paths(pair, options->folder, diag);

    if (good)
        print_rule(rules, pair, options->plan, emit);
    emit_close(emit);
    return good;
}

/* All pairs, and the rules where they are asked for; all files or, with an error, none. */
static void write_texts(const struct pair *pairs, const struct options *options, const struct emit_file *rules,
                        struct diag *diag)
{
    struct emit_file *files = calloc(2 * options->spec_count + 1, sizeof *files);
    size_t count = 0;

    for (size_t p = 0; files && p < options->spec_count; p++)
        for (int i = 0; i < 2; i++)
            files[count++] = (struct emit_file){pairs[p].path[i], pairs[p].text[i], pairs[p].length[i]};
    if (files && options->deps)
        files[count++] = *rules;
    if (!files)
        diag_environment(diag, NULL, "no memory for the list of files");
    else if (!options->folder || make_folder(options->folder, diag))
        emit_write(files, count, diag);
    free(files);
}

static void generate(struct pair *pairs, const struct options *options, unsigned isas, struct diag *diag)
{
    char *text = NULL;
    struct emit_file rules = {options->deps, NULL, 0};
    FILE *out = open_memstream(&text, &rules.length);
    bool good = out != NULL;

    for (size_t i = 0; good && i < options->spec_count; i++)
        good = make_texts(&pairs[i], out, options, isas, diag);
    if (!out || fclose(out) != 0) {
        diag_environment(diag, NULL, "no memory for the rules");
        good = false;
    }
    rules.text = text;
    if (good)
        write_texts(pairs, options, &rules, diag);
    free(text);
}

static unsigned chosen_isas(const struct options *options, struct diag *diag)
{
    return options->isas ? isa_parse_list(options->isas, diag) : isa_default();
}

static void print_version(void)
{
    puts("attngen " ATTNGEN_VERSION);
}

static void free_pairs(struct pair *pairs, size_t count)
{
    for (size_t i = 0; pairs && i < count; i++) {
        plan_free(pairs[i].plan);
        layer_free(pairs[i].layer);
        for (int k = 0; k < 2; k++) {
            free(pairs[i].path[k]);
            free(pairs[i].text[k]);
        }
    }
    free(pairs);
}

static void phases(const struct options *options, struct diag *diag)
{
    const unsigned isas = chosen_isas(options, diag);
    struct pair *pairs = calloc(options->spec_count, sizeof *pairs);

    if (!pairs) {
        diag_environment(diag, NULL, "no memory for the specs");
        return;
    }
    read_specs(pairs, options, isas, diag);
    check_names(pairs, options->spec_count, diag);
    if (!diag->errors && options->explain)
        explain(pairs, options->spec_count, options->batch ? read_batch(options->batch) : 1, diag);
    if (!diag->errors && (!options->explain || options->folder))
        generate(pairs, options, isas, diag);
    free_pairs(pairs, options->spec_count);
}

int main(int argc, char **argv)
{
    struct options options = {0};
    struct diag diag = {0};
    int code = EXIT_GOOD;

    system_begin();
    read_options(&options, argc, argv, &diag);
    if (options.help)
        print_help();
    else if (options.version)
        print_version();
    else {
        if (!diag.errors)
            phases(&options, &diag);
        code = diag_report(&diag, stderr);
    }
    free(options.set);
    diag_free(&diag);
    return system_end(code);
}
