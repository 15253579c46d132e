/* SPDX-License-Identifier: MIT */
/* attngen: from a layer's spec to the C file that computes it. main() is the table of contents.
 *
 * Left out on purpose: every decision. arguments.c knows the command line, read.c the spec, plan_make.c decides, the
 * templates spell, emit.c expands them, output.c writes. `attngen import` is import.c's.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "arguments.h"
#include "base/diag.h"
#include "base/memory.h"
#include "base/output.h"
#include "base/system.h"
#include "base/version.h"
#include "emit/emit.h"
#include "emit/explain.h"
#include "model/import.h"
#include "model/model.h"
#include "plan/expect.h"
#include "plan/isa.h"
#include "plan/plan.h"
#include "plan/planfile.h"
#include "spec/layer.h"
#include "spec/visible.h"

struct pair {
    struct layer *layer;
    struct plan *plan;
};

struct job {
    struct arguments arguments;
    struct diag diag;
    unsigned isas;
    struct imported imported; /* a NAME.layers and specs that were made just now */
    struct model *model; /* whose layers the specs are; NULL: none */
    const char *const *specs;
    size_t count; /* of the specs, and of what becomes of each: */
    struct pair *pairs;
    struct output *outputs; /* and two more, the model's and what was imported */
};

static bool good(const struct job *job) { return job->diag.errors == 0; }

static const char *layers_path(const struct job *job)
{
    return job->imported.layers != NULL ? job->imported.layers : job->arguments.specs.text[0];
}

/* Of a file that is not written yet; NULL: it is read from the disk. */
static const char *imported_text(const struct job *job, const char *path)
{
    const struct output *output = &job->imported.output;
    for (size_t i = 0; i < output->count; i++)
        if (strcmp(output->files[i].path, path) == 0)
            return output->files[i].text;
    return NULL;
}

/* ---- specs and plans ---- */

static void parse_isas(struct job *job)
{
    const char *const list = job->arguments.isas;
    job->isas = list != NULL ? isa_parse_list(list, &job->diag) : isa_default();
}

/* Sets that must be possible for each layer: "all", and no list, mean all that are. */
static unsigned named_isas(const struct job *job)
{
    const char *const list = job->arguments.isas;
    return list != NULL && strcmp(list, "all") != 0 ? job->isas : 0;
}

static void read_specs(struct job *job)
{
    const struct arguments *a = &job->arguments;
    size_t count = a->specs.count;
    job->specs = job->model != NULL ? model_specs(job->model, &count) : a->specs.text;
    parse_isas(job);
    job->pairs = memory_get(count, sizeof *job->pairs);
    job->outputs = memory_get(count + 2, sizeof *job->outputs);
    job->count = count;
    for (size_t i = 0; i < count; i++)
        job->pairs[i].layer = layer_read_text(job->specs[i], imported_text(job, job->specs[i]), a->set.text,
                                              a->set.count, &job->diag);
}

/* The plan's choices are made from the layer and, where there is one, the plan file; the machine is asked only whether
 * the file speaks of it, for a warning. */
static struct plan *decide(struct job *job, const struct layer *layer)
{
    const struct arguments *a = &job->arguments;
    struct plan_file file;
    char cpu[PLAN_TEXT];
    if (a->plan == NULL)
        return plan_make(layer, job->isas, &job->diag);
    if (!plan_file_read(&file, a->plan, layer, &job->diag))
        return NULL;
    if (!a->any_cpu) {
        plan_this_cpu(cpu);
        plan_file_warn(&file, job->isas, cpu, NULL, stderr);
    }
    return plan_make_from(layer, job->isas, &file, &job->diag);
}

/* The layers in the order of the specs */
static struct layer **layers_of(const struct job *job)
{
    struct layer **layers = memory_get(job->count, sizeof *layers);
    for (size_t i = 0; i < job->count; i++)
        layers[i] = job->pairs[i].layer;
    return layers;
}

/* A model passes rows of f32 from layer to layer. */
static void check_model_types(struct job *job)
{
    for (size_t i = 0; job->model != NULL && i < job->count; i++)
        if (layer_types_tensors(job->pairs[i].layer))
            diag_error(&job->diag, job->specs[i],
                       "tensor_type = %s, but the C of a model gives its layers f32; leave it out",
                       element_name(job->pairs[i].layer->tensor_type));
}

static void check_model_names(struct job *job)
{
    for (size_t i = 0; job->model != NULL && i < job->count; i++) {
        const char *name = job->pairs[i].layer->name, *model = model_name(job->model);
        const size_t length = strlen(model);
        if (strncasecmp(name, model, length) != 0 || (name[length] != '\0' && strcasecmp(name + length, "_model") != 0))
            continue;
        diag_error(&job->diag, job->specs[i], "the name '%s' would share files or macros with the model '%s'; give the "
                   "layer a name of its own, as %s_layer", name, model, model);
    }
}

static void place_caches(struct job *job)
{
    if (job->model == NULL)
        return;
    HEAP struct layer **layers = layers_of(job);
    model_place_caches(job->model, layers);
}

static void make_plans(struct job *job)
{
    for (size_t i = 0; i < job->count && good(job); i++)
        plan_refuse_isas(job->pairs[i].layer, named_isas(job), &job->diag);
    for (size_t i = 0; i < job->count && good(job); i++)
        job->pairs[i].plan = decide(job, job->pairs[i].layer);
}

/* Warns of conditions that are never true: legal, but hardly meant. */
static void warn_of_layers(const struct job *job)
{
    for (size_t i = 0; i < job->count; i++)
        if (visible_never(job->pairs[i].layer))
            fprintf(stderr, "%s: warning: visible is never true: no query sees a key\n", job->specs[i]);
}

/* Pairs of one run share a folder and a program: no name may occur twice, in either case of letters. */
static void check_names(struct job *job)
{
    const char *const *specs = job->specs;
    for (size_t i = 0; i < job->count; i++)
        for (size_t j = 0; j < i; j++) {
            const char *name = job->pairs[i].layer != NULL ? job->pairs[i].layer->name : NULL;
            const char *other = job->pairs[j].layer != NULL ? job->pairs[j].layer->name : NULL;
            if (name == NULL || other == NULL || strcasecmp(name, other) != 0)
                continue;
            diag_error(&job->diag, specs[i],
                       strcmp(name, other) == 0
                           ? "the name '%s' is also that of %s ('%s'); give each layer a name of its own"
                           : "the name '%s' is in capitals also that of %s ('%s'), whose macros it would share; give "
                             "each layer a name of its own",
                       name, specs[j], other);
            break;
        }
}

static void explain(struct job *job)
{
    const int64_t batch = job->arguments.batch != 0 ? (int64_t)job->arguments.batch : 1;
    for (size_t i = 0; i < job->count; i++) {
        if (i > 0)
            putchar('\n');
        explain_layer(job->pairs[i].layer, stdout);
        plan_explain(job->pairs[i].plan, job->pairs[i].layer, stdout);
        expect_explain(job->pairs[i].plan, job->pairs[i].layer, batch, stdout);
    }
    if (fflush(stdout) != 0 || ferror(stdout))
        diag_environment(&job->diag, "standard output", "cannot be written: %s", strerror(errno));
}

/* ---- texts ---- */

static void fill_context(struct emit *emit, struct job *job, size_t i)
{
    HEAP char *command = arguments_command(&job->arguments, job->specs[i], job->isas);
    emit_set_string(emit, "COMMAND", command);
    emit_set_string(emit, "VERSION", ATTNGEN_VERSION);
    emit_set_string(emit, "PAIR", output_number);
    emit_set_boolean(emit, "SPLIT_FILES", job->arguments.split);
    plan_context(job->pairs[i].plan, job->pairs[i].layer, emit);
}

/* The files of a layer */
static const struct outline {
    const char *template_name, *ending;
    enum { ALWAYS, SPLIT, SHIM } when; /* --split, --shim */
    bool each; /* one for each instruction set, which its name ends in */
} outlines[] = {
    {"interface/kernel.c.in", ".c", ALWAYS, false},
    {"interface/kernel_isa.c.in", ".c", SPLIT, true},
    {"interface/kernel_internal.h.in", "_internal.h", SPLIT, false},
    {"interface/kernel.h.in", ".h", ALWAYS, false},
    {"interface/shim.c.in", "_shim.c", SHIM, false}, /* no part of the pair: its number is that without --shim */
};

static bool expand(struct emit *emit, const struct outline *outline, const char *name, size_t plan, struct job *job,
                   struct output *output)
{
    size_t length;
    char *text = emit_expand(emit, outline->template_name, plan, &length, &job->diag);
    if (text != NULL)
        output_add(output, job->arguments.folder, name, outline->ending, text, length);
    return text != NULL;
}

static bool expand_each(struct emit *emit, const struct outline *outline, const struct pair *pair, struct job *job,
                        struct output *output)
{
    for (int64_t i = 0; i < pair->plan->count; i++) {
        HEAP char *name = text_join("%s_%s", pair->layer->name, pair->plan->isas[i].isa->name);
        const bool done = expand(emit, outline, name, (size_t)i + 1, job, output);
        if (!done)
            return false;
    }
    return true;
}

static bool expand_all(struct emit *emit, const struct pair *pair, struct job *job, struct output *output)
{
    for (size_t i = 0; i < sizeof outlines / sizeof *outlines; i++) {
        const struct outline *outline = &outlines[i];
        if (outline->when == SHIM)
            output_number_pair(output);
        if ((outline->when == SPLIT && !job->arguments.split) || (outline->when == SHIM && !job->arguments.shim))
            continue;
        if (!(outline->each ? expand_each(emit, outline, pair, job, output)
                            : expand(emit, outline, pair->layer->name, 0, job, output)))
            return false;
    }
    return true;
}

/* A further file may be another pair's too: NAME_avx2.c of one and the .c of a layer NAME_avx2. */
static bool check_paths(struct job *job, size_t i)
{
    const char *const *specs = job->specs;
    for (size_t j = 0; (job->arguments.split || job->arguments.shim) && j < i; j++) {
        const char *shared = output_shared_path(&job->outputs[i], &job->outputs[j]);
        if (shared != NULL)
            diag_error(&job->diag, specs[i],
                       "with %s the file %s is also one of %s; give each layer a name of its own",
                       job->arguments.split ? "--split" : "--shim", shared, specs[j]);
    }
    return good(job);
}

/* The rule of `output`, which was made from `paths` unless all is a model: a pair of one has its place in a cache from
 * the list and all other specs. */
static void print_rule(struct job *job, const struct output *output, const char *const *paths, size_t count,
                       const struct emit *emit, FILE *rules)
{
    size_t template_count = 0;
    const char *const *templates = emit != NULL ? emit_files_read(emit, &template_count) : NULL;
    if (job->arguments.deps == NULL)
        return;
    HEAP const char **all = memory_get(job->count + 1, sizeof *all);
    for (size_t i = 0; job->model != NULL && i <= job->count; i++)
        all[i] = i == 0 ? layers_path(job) : job->specs[i - 1];
    if (job->imported.layers != NULL) {
        paths = (const char *const *)job->imported.sources;
        count = job->imported.source_count;
    } else if (job->model != NULL) {
        paths = all;
        count = job->count + 1;
    }
    for (size_t i = 0; i < output->count; i++)
        output_paths_spelled((const char *const *)&output->files[i].path, 1, &job->diag);
    output_paths_spelled(paths, count, &job->diag);
    output_paths_spelled(templates, template_count, &job->diag);
    output_print_rule(output, paths, count, templates, template_count, rules);
}

/* The pair's texts and paths, and its rule after those before it. */
static bool make_texts(struct job *job, size_t i, FILE *rules)
{
    const struct arguments *a = &job->arguments;
    struct output *output = &job->outputs[i];
    struct emit *emit = emit_open(a->templates, &job->diag);
    if (emit != NULL)
        fill_context(emit, job, i);
    if (emit != NULL && expand_all(emit, &job->pairs[i], job, output) && check_paths(job, i))
        print_rule(job, output, (const char *const[]){job->specs[i], a->plan}, a->plan != NULL ? 2 : 1, emit, rules);
    emit_close(emit);
    return good(job);
}

/* The model's own files */
static void make_model(struct job *job, FILE *rules)
{
    static const struct outline files[] = {{"model/model.c.in", "_model.c", ALWAYS, false},
                                           {"model/model.h.in", "_model.h", ALWAYS, false}};
    const struct arguments *a = &job->arguments;
    HEAP struct layer **layers = layers_of(job);
    struct emit *emit = emit_open(a->templates, &job->diag);
    bool done = emit != NULL;
    if (done) {
        emit_set_string(emit, "VERSION", ATTNGEN_VERSION);
        model_context(job->model, layers, emit);
    }
    for (size_t i = 0; done && i < sizeof files / sizeof *files; i++)
        done = expand(emit, &files[i], model_name(job->model), 0, job, &job->outputs[job->count]);
    if (done)
        print_rule(job, &job->outputs[job->count], NULL, 0, emit, rules);
    emit_close(emit);
}

/* All files of the command, at once: all or none. */
static void generate(struct job *job)
{
    const struct arguments *a = &job->arguments;
    const struct output *imported = &job->imported.output;
    struct text text;
    FILE *rules = text_begin(&text);
    if (job->model != NULL) /* its rule is the first one, by whose target Ninja knows the others */
        make_model(job, rules);
    for (size_t i = 0; i < job->count && good(job) && make_texts(job, i, rules);)
        i++;
    if (imported->count > 0 && good(job))
        print_rule(job, imported, NULL, 0, NULL, rules);
    text_end(&text);
    if (good(job) && job->outputs != NULL)
        job->outputs[job->count + 1] = *imported;
    if (good(job))
        output_write(job->outputs != NULL ? job->outputs : imported, job->outputs != NULL ? job->count + 2 : 1,
                     a->folder, a->deps, text.bytes, &job->diag);
    free(text.bytes);
}

/* What --list asks for is printed; a model that would be refused is an error. */
static void import(struct job *job)
{
    const struct arguments *a = &job->arguments;
    parse_isas(job);
    const struct import_request request = {a->specs.count > 0 ? a->specs.text[0] : NULL, a->folder, a->name, a->cache,
                                           a->weight_type, a->cache_type, a->precision, a->exact, a->seq_len,
                                           a->cache_len, named_isas(job), &a->ignore, a->list};
    if (good(job) && a->list)
        import_list(&request, stdout, &job->diag);
    else if (good(job) && import_model(&job->imported, &request, &job->diag)) {
        if (job->imported.note != NULL) /* before anything large is written */
            fprintf(stderr, "%s: note: %s\n", job->imported.layers, job->imported.note);
        if (a->specs_alone)
            generate(job);
    }
}

static void free_job(struct job *job)
{
    for (size_t i = 0; i < job->count; i++) {
        plan_free(job->pairs[i].plan);
        layer_free(job->pairs[i].layer);
        output_free(&job->outputs[i]);
    }
    if (job->outputs != NULL)
        output_free(&job->outputs[job->count]);
    model_free(job->model);
    import_free(&job->imported);
    free(job->pairs);
    free(job->outputs);
    arguments_free(&job->arguments);
    diag_free(&job->diag);
}

/* From specs, or NAME.layers, to C. */
static void make(struct job *job)
{
    const struct arguments *a = &job->arguments;
    if (a->command->bit != ARGUMENTS_SPECS)
        job->model = model_read(layers_path(job), imported_text(job, layers_path(job)), &job->diag);
    if (good(job))
        read_specs(job);
    if (good(job)) {
        check_model_names(job);
        check_model_types(job);
        place_caches(job);
    }
    if (good(job))
        make_plans(job);
    check_names(job);
    if (good(job))
        warn_of_layers(job);
    if (good(job) && a->explain)
        explain(job);
    if (good(job) && (!a->explain || a->folder != NULL))
        generate(job);
}

int main(int argc, char **argv)
{
    OWNED(free_job) struct job job = {0};
    const struct arguments *a = &job.arguments;
    int code = EXIT_GOOD;

    system_begin();
    arguments_read(&job.arguments, argc, argv, &job.diag);
    if (a->help)
        arguments_help(a, stdout);
    else if (a->keys)
        layer_print_keys(stdout);
    else if (a->version)
        puts("attngen " ATTNGEN_VERSION);
    else {
        if (good(&job) && a->command->bit == ARGUMENTS_IMPORT)
            import(&job);
        if (good(&job) && !a->specs_alone && !a->list)
            make(&job);
        code = diag_report(&job.diag, stderr);
    }
    return system_end(code);
}
