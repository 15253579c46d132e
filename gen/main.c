/* attngen: from a layer's spec to the C file that computes it. main() is the table of contents.
 *
 * Left out on purpose: every decision. layer.c knows the spec, plan.c decides, the templates spell, emit.c writes.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "diag.h"
#include "emit.h"
#include "expect.h"
#include "explain.h"
#include "isa.h"
#include "layer.h"
#include "plan.h"
#include "version.h"

static const char usage_line[] =
    "usage: attngen [-o DIR] [--isa LIST] [--set KEY=VALUE]... [--explain] [--batch B] [--deps FILE] [--templates DIR] SPEC\n";

static const char help_text[] =
    "\n"
    "Reads the spec of an attention layer and writes the C that computes it: NAME.c and NAME.h.\n"
    "\n"
    "  -o, --output DIR    write into DIR, made if it is missing (default: here)\n"
    "  --isa LIST          the instruction sets to emit, any of %s (default: all; scalar is always in)\n"
    "  --set KEY=VALUE     set a key of the spec, over what the file says; as often as wanted\n"
    "  --explain           print the layer step by step and the plan with its reasons; write only if -o is given\n"
    "  --batch B           sequences in a call, for the speed that --explain expects (default: 1)\n"
    "  --deps FILE         write a Make rule that says what the pair was made from\n"
    "  --templates DIR     read the templates from DIR instead of the built-in ones\n"
    "  --help, --version\n"
    "\n"
    "Exit codes: 0 good, 2 wrong usage or spec or template, 3 the machine failed (no memory, unwritable file).\n";

struct options {
    const char *spec;
    const char *folder; /* NULL: not given */
    const char *isas;
    const char *deps;
    const char *templates;
    const char *batch;
    const char **set; /* KEY=VALUE texts */
    size_t set_count;
    bool explain, help, version;
};

/* The pair: paths and texts of NAME.c and NAME.h. */
struct product {
    char *path[2], *text[2];
    size_t length[2];
};

static const struct { const char *template_name, *suffix; } outlines[2] = {
    {"kernel.c.in", ".c"},
    {"kernel.h.in", ".h"},
};

/* ---- options ---- */

enum { OPT_ISA = 256, OPT_SET, OPT_EXPLAIN, OPT_BATCH, OPT_DEPS, OPT_TEMPLATES, OPT_HELP, OPT_VERSION };

static const struct option long_options[] = {
    {"output", required_argument, NULL, 'o'},
    {"isa", required_argument, NULL, OPT_ISA},
    {"set", required_argument, NULL, OPT_SET},
    {"explain", no_argument, NULL, OPT_EXPLAIN},
    {"batch", required_argument, NULL, OPT_BATCH},
    {"deps", required_argument, NULL, OPT_DEPS},
    {"templates", required_argument, NULL, OPT_TEMPLATES},
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
    case OPT_SET:
        options->set[options->set_count++] = value;
        return true;
    case OPT_BATCH:
        return once(&options->batch, value);
    case OPT_DEPS:
        return once(&options->deps, value);
    case OPT_TEMPLATES:
        return once(&options->templates, value);
    case OPT_EXPLAIN:
        return options->explain = true;
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

static void wrong_usage(struct diag *diag, const char *what, const char *argument)
{
    diag_error(diag, "attngen", "%s%s%s%s; 'attngen --help' lists the options", what, argument ? " '" : "",
               argument ? argument : "", argument ? "'" : "");
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
        const int option = getopt_long(argc, argv, ":o:", long_options, NULL);
        if (option == -1)
            break;
        if (option == ':')
            wrong_usage(diag, "a value is missing after", argv[optind - 1]);
        else if (option == '?')
            wrong_usage(diag, "unknown or unclear option", argv[at < argc ? optind - 1 : argc - 1]);
        else if (!take_option(options, option, optarg))
            wrong_usage(diag, "an option is given twice, or without its value:", argv[optind - 1]);
        if (diag->errors || options->help || options->version)
            return;
    }
    if (optind == argc)
        wrong_usage(diag, "no spec is given; name one file", NULL);
    else if (optind + 1 < argc)
        wrong_usage(diag, "one spec at a time; this is one too many:", argv[optind + 1]);
    else if (options->explain && !options->folder && options->deps)
        wrong_usage(diag, "--deps with --explain needs -o, or nothing is written", NULL);
    else if (options->batch && !options->explain)
        wrong_usage(diag, "--batch is for --explain; a kernel takes any batch", NULL);
    else if (options->batch && read_batch(options->batch) == 0)
        wrong_usage(diag, "--batch wants a number from 1 to 2147483647, not", options->batch);
    else
        options->spec = argv[optind];
}

static void print_help(void)
{
    char names[256] = "";

    for (size_t i = 0; i < isa_count; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? "," : "", isa_table[i].name);
    fputs(usage_line, stdout);
    printf(help_text, names);
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
    const char *separator = " --isa ";

    if (isas == (1u << isa_count) - 1)
        return;
    for (size_t i = 0; i < isa_count; i++) {
        if (!(isas >> i & 1) || (i == 0 && isas != 1)) /* scalar goes without saying */
            continue;
        fprintf(out, "%s%s", separator, isa_table[i].name);
        separator = ",";
    }
}

/* The same for every folder and every order of the ISAs: no -o, no path. The caller frees it. */
static char *canonical_command(const struct options *options, unsigned isas)
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
    print_word(out, base_name(options->spec));
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- the phases ---- */

static void explain(const struct layer *layer, const struct plan *plan, int64_t batch, struct diag *diag)
{
    explain_layer(layer, stdout);
    plan_explain(plan, layer, stdout);
    expect_explain(plan, layer, batch, stdout);
    if (fflush(stdout) != 0 || ferror(stdout))
        diag_environment(diag, "standard output", "cannot be written: %s", strerror(errno));
}

static bool fill_context(struct emit *emit, const struct options *options, const struct layer *layer,
                         const struct plan *plan, unsigned isas, struct diag *diag)
{
    char *command = canonical_command(options, isas);

    if (!command) {
        diag_environment(diag, NULL, "no memory for the command line");
        return false;
    }
    emit_set_string(emit, "COMMAND", command);
    emit_set_string(emit, "VERSION", ATTNGEN_VERSION);
    plan_context(plan, layer, emit);
    free(command);
    return true;
}

static bool expand(struct product *product, struct emit *emit, struct diag *diag)
{
    for (int i = 0; i < 2; i++) {
        product->text[i] = emit_expand(emit, outlines[i].template_name, &product->length[i], diag);
        if (!product->text[i])
            return false;
    }
    return true;
}

/* mkdir -p */
static bool make_folder(const char *folder, struct diag *diag)
{
    char *path = strdup(folder);
    int error = path ? 0 : ENOMEM;
    struct stat status;

    for (char *c = path; path && c; ) {
        c = strchr(c + 1, '/');
        if (c)
            *c = '\0';
        if (mkdir(path, 0777) != 0)
            error = errno; /* what counts is whether the last one is there */
        if (c)
            *c = '/';
    }
    free(path);
    if (stat(folder, &status) == 0 && S_ISDIR(status.st_mode))
        return true;
    diag_environment(diag, folder, "cannot be made a folder: %s", strerror(error == EEXIST ? ENOTDIR : error));
    return false;
}

/* DIR/NAME.c and DIR/NAME.h, without the DIR where none was given. */
static bool set_paths(struct product *product, const char *folder, const char *name, struct diag *diag)
{
    const char *slash = folder && folder[strlen(folder) - 1] != '/' ? "/" : "";

    for (int i = 0; i < 2; i++)
        if (asprintf(&product->path[i], "%s%s%s%s", folder ? folder : "", slash, name, outlines[i].suffix) < 0) {
            product->path[i] = NULL;
            diag_environment(diag, NULL, "no memory for the paths");
            return false;
        }
    return true;
}

/* Writes a path as Make reads it. */
static void print_make_path(FILE *out, const char *path)
{
    for (const char *c = path; *c; c++) {
        if (*c == ' ' || *c == '#' || *c == '\t')
            putc('\\', out);
        else if (*c == '$')
            putc('$', out);
        putc(*c, out);
    }
}

/* "NAME.c NAME.h: SPEC TEMPLATE…", and an empty rule for each template, so that one may vanish. */
static char *deps_text(const struct product *product, const struct options *options, const struct emit *emit,
                       size_t *length)
{
    size_t count;
    const char *const *templates = emit_files_read(emit, &count);
    char *text = NULL;
    FILE *out = open_memstream(&text, length);

    if (!out)
        return NULL;
    print_make_path(out, product->path[0]);
    putc(' ', out);
    print_make_path(out, product->path[1]);
    fputs(": ", out);
    print_make_path(out, options->spec);
    for (size_t i = 0; i < count; i++) {
        fputs(" \\\n ", out);
        print_make_path(out, templates[i]);
    }
    putc('\n', out);
    for (size_t i = 0; i < count; i++) {
        print_make_path(out, templates[i]);
        fputs(":\n", out);
    }
    if (fclose(out) != 0) {
        free(text);
        text = NULL;
    }
    return text;
}

static void write_product(struct product *product, const struct options *options, const struct emit *emit,
                          const char *name, struct diag *diag)
{
    struct emit_file files[3];
    size_t count = 2;
    char *deps = NULL;

    if (options->folder && !make_folder(options->folder, diag))
        return;
    if (!set_paths(product, options->folder, name, diag))
        return;
    for (int i = 0; i < 2; i++)
        files[i] = (struct emit_file){product->path[i], product->text[i], product->length[i]};
    if (options->deps) {
        deps = deps_text(product, options, emit, &files[2].length);
        files[2].path = options->deps;
        files[2].text = deps;
        count = 3;
    }
    if (options->deps && !deps)
        diag_environment(diag, options->deps, "no memory for the rule");
    else
        emit_write(files, count, diag);
    free(deps);
}

static void generate(const struct options *options, const struct layer *layer, const struct plan *plan, unsigned isas,
                     struct diag *diag)
{
    struct product product = {0};
    struct emit *emit = emit_open(options->templates, diag);

    if (emit && fill_context(emit, options, layer, plan, isas, diag) && expand(&product, emit, diag))
        write_product(&product, options, emit, layer->name, diag);
    for (int i = 0; i < 2; i++) {
        free(product.path[i]);
        free(product.text[i]);
    }
    emit_close(emit);
}

static unsigned chosen_isas(const struct options *options, struct diag *diag)
{
    return options->isas ? isa_parse_list(options->isas, diag) : (1u << isa_count) - 1;
}

static int print_and_leave(void (*print)(void))
{
    print();
    return fflush(stdout) != 0 || ferror(stdout) ? EXIT_ENVIRONMENT : EXIT_GOOD;
}

static void print_version(void)
{
    puts("attngen " ATTNGEN_VERSION);
}

static void phases(const struct options *options, struct diag *diag)
{
    const unsigned isas = chosen_isas(options, diag);
    struct layer *layer = layer_read(options->spec, options->set, options->set_count, diag);
    struct plan *plan = layer && !diag->errors ? plan_make(layer, isas, diag) : NULL;

    if (plan && options->explain)
        explain(layer, plan, options->batch ? read_batch(options->batch) : 1, diag);
    if (plan && !diag->errors && (!options->explain || options->folder))
        generate(options, layer, plan, isas, diag);
    plan_free(plan);
    layer_free(layer);
}

int main(int argc, char **argv)
{
    struct options options = {0};
    struct diag diag = {0};
    int code;

    read_options(&options, argc, argv, &diag);
    if (options.help)
        code = print_and_leave(print_help);
    else if (options.version)
        code = print_and_leave(print_version);
    else {
        if (!diag.errors)
            phases(&options, &diag);
        code = diag_report(&diag, stderr);
    }
    free(options.set);
    diag_free(&diag);
    return code;
}
