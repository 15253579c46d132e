/* SPDX-License-Identifier: MIT */
/* attnrun heatmap: draws the attention weights of a kernel.
 *
 * Left out on purpose: the picture itself (reports/picture.c).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "kernels/call.h"
#include "plan/isa.h"
#include "reference/reference.h"
#include "reports/picture.h"
#include "base/memory.h"

#define HEADS_LIMIT 256       /* panels in one picture */
#define PIXELS_LIMIT 2000000  /* in all panels; with more weights, several share a pixel */
#define SIDE_LIMIT 1200       /* pixels along a panel */

static const char *const scale_names[SCALES] = {"linear", "sqrt", "log"};

struct heatmap {
    const struct options *options;
    struct call call;
    int isa;
    struct picture picture;
    struct diag diag;
};

/* Whether "key=value" sets this key. */
static bool sets(const char *text, const char *key)
{
    text += strspn(text, " \t");
    return strncmp(text, key, strlen(key)) == 0 && strchr(" \t=", text[strlen(key)]) != NULL;
}

/* The weights are needed whatever the spec's `scores` is, once the spec is valid. */
static bool read_call(struct heatmap *map, struct compile_options *compile, const char **set)
{
    const struct options *o = map->options;
    struct layer *layer = layer_read(o->specs[0], o->compile.set, o->compile.set_count, &map->diag);
    if (layer == NULL)
        return false;
    layer_free(layer);
    *compile = o->compile;
    compile->set = set;
    compile->set_count = 0;
    for (size_t i = 0; i < o->compile.set_count; i++)
        if (!sets(o->compile.set[i], "scores"))
            set[compile->set_count++] = o->compile.set[i];
    set[compile->set_count++] = "scores=true";
    return call_read(&map->call, o->specs[0], compile, o->in, &o->weights, &map->diag);
}

static void find_scale(struct heatmap *map)
{
    const char *name = map->options->scale != NULL ? map->options->scale : scale_names[SQRT];
    while (strcmp(scale_names[map->picture.scale], name) != 0)
        map->picture.scale++;
}

static bool choose(struct heatmap *map)
{
    struct picture *p = &map->picture;
    const struct options *o = map->options;
    const struct inputs *in = &map->call.inputs;
    const size_t h = (size_t)map->call.layer->h;
    p->layer = map->call.layer;
    p->inputs = in;
    p->sequence = o->sequence != UNSET ? o->sequence : 0;
    p->first_head = o->head != UNSET ? o->head : 0;
    p->heads = o->head != UNSET ? 1 : h;
    if (p->sequence < in->batch)
        p->m = layer_has_cache(p->layer) ? inputs_rows(p->layer, in, p->sequence) : in->m;
    if (in->batch == 0 || in->n == 0 || (p->sequence < in->batch && p->m == 0))
        diag_error(&map->diag, o->in, "%zu sequences of %zu queries on %zu keys have no weights to show", in->batch,
                   in->n, p->m);
    else if (p->sequence >= in->batch)
        diag_error(&map->diag, "command line", "--sequence %zu: the file has %zu; 0 to %zu are possible", p->sequence,
                   in->batch, in->batch - 1);
    if (p->first_head >= h)
        diag_error(&map->diag, "command line", "--head %zu: the layer has %zu; 0 to %zu are possible", p->first_head, h,
                   h - 1);
    else if (p->heads > HEADS_LIMIT)
        diag_error(&map->diag, "command line", "%zu heads are too many for one picture; choose one with --head", h);
    return map->diag.errors == 0;
}

static bool read_all_labels(struct heatmap *map)
{
    const struct options *o = map->options;
    const struct inputs *in = &map->call.inputs;
    const bool cached = layer_has_cache(map->call.layer);
    const bool cross = !map->call.layer->self || cached; /* keys are not the queries, or not only these */
    const size_t padded = cached ? map->picture.m : inputs_keys(in, map->picture.sequence);
    if (o->source_labels != NULL && !cross)
        return diag_error(&map->diag, "command line", "--source-labels is for cross-attention; --labels names both "
                          "axes here");
    return labels_read(&map->picture.queries, o->labels, in->n, cross ? in->n : padded, &map->diag) &&
           labels_read(&map->picture.keys, cross ? o->source_labels : o->labels, map->picture.m, padded, &map->diag);
}

/* Runs the best instruction set, or the best of the requested ones. */
static bool run_kernel(struct heatmap *map)
{
    const struct options *o = map->options;
    const struct kernel_table *kernel = map->call.kernel.call;
    map->isa = CALL_LACKS;
    for (size_t row = isa_count; o->each_isa && row-- > 0 && map->isa == CALL_LACKS;) {
        map->isa = isa_table[row].id;
        const char *name = kernel->isa_name(map->isa);
        if (name == NULL || !options_want_isa(o, name))
            map->isa = CALL_LACKS;
        else if (!call_run(&map->call, &map->isa, o->in, &map->diag))
            return false;
    }
    if (!o->each_isa) {
        map->isa = 0;
        if (!call_run(&map->call, &map->isa, o->in, &map->diag))
            return false;
    }
    if (map->isa == CALL_LACKS)
        call_report_no_isa(o->specs[0], &map->diag);
    else if (map->isa == CALL_BROKEN)
        diag_environment(&map->diag, o->specs[0], "%s; see attnrun check", map->call.why);
    map->picture.isa = kernel->isa_name(map->isa);
    return map->isa != CALL_LACKS && map->isa != CALL_BROKEN;
}

/* The largest visible weight in a block; HIDDEN if none is visible, NaN if one is non-finite */
static float pixel(const struct heatmap *map, size_t head, size_t row, size_t column)
{
    const struct picture *p = &map->picture;
    const struct inputs *in = &map->call.inputs;
    const size_t width = inputs_columns(map->call.layer, in), h = (size_t)map->call.layer->h;
    const size_t first = (p->sequence * h + head) * in->n * width;
    float largest = HIDDEN;
    for (size_t t = row * p->block; t < (row + 1) * p->block && t < in->n; t++)
        for (size_t j = column * p->block; j < (column + 1) * p->block && j < p->m; j++) {
            const float weight =
                (float)element_number(map->call.layer->tensor_type, map->call.out[OUTPUT_ATTN], first + t * width + j);
            if (!reference_visible(map->call.layer, in, p->sequence, head, t, j))
                continue;
            if (!isfinite(weight))
                return NAN;
            largest = weight > largest ? weight : largest;
        }
    return largest;
}

static void gather_weights(struct heatmap *map)
{
    struct picture *p = &map->picture;
    const struct inputs *in = &map->call.inputs;
    const size_t longest = in->n > p->m ? in->n : p->m;
    do {
        p->block++;
        p->rows = (in->n + p->block - 1) / p->block;
        p->columns = (p->m + p->block - 1) / p->block;
    } while (p->heads * p->rows * p->columns > PIXELS_LIMIT || (longest - 1) / p->block >= SIDE_LIMIT);
    const size_t count = p->heads * p->rows * p->columns;
    p->weights = memory_get(count, sizeof *p->weights);
    for (size_t i = 0; i < count; i++) {
        const float weight = pixel(map, p->first_head + i / (p->rows * p->columns), i / p->columns % p->rows,
                                   i % p->columns);
        p->weights[i] = weight;
        p->any_hidden = p->any_hidden || weight == HIDDEN;
        p->any_nonfinite = p->any_nonfinite || !isfinite(weight);
        p->top = weight > p->top ? weight : p->top;
    }
    if (p->top == 0) /* nothing but zeros */
        p->top = 1;
}

/* Another suffix would suggest another format. */
static bool is_svg(struct heatmap *map)
{
    const char *slash = strrchr(map->options->out, '/');
    const char *dot = strrchr(slash != NULL ? slash : map->options->out, '.');
    if (dot == NULL || strcmp(dot, ".svg") == 0)
        return true;
    return diag_error(&map->diag, "-o", "the picture is SVG; write a name that ends in .svg instead of \"%s\"",
                      map->options->out);
}

int command_heatmap(const struct options *options)
{
    struct heatmap map = {.options = options};
    struct compile_options compile;
    HEAP const char **set = memory_get(options->compile.set_count + 1, sizeof *set);
    find_scale(&map);
    const bool good = is_svg(&map) && read_call(&map, &compile, set) &&
           choose(&map) && read_all_labels(&map) &&
           compile_kernel(&map.call.kernel, options->specs[0], map.call.layer->name, &compile, &map.diag) &&
           run_kernel(&map);
    if (good)
        gather_weights(&map);
    if (good && picture_draw(&map.picture, options->out, &map.diag))
        printf("%s: %zu head%s, %zu queries on %zu keys, the largest weight is %.4g\n", options->out, map.picture.heads,
               map.picture.heads == 1 ? "" : "s", map.call.inputs.n, map.picture.m, map.picture.top);
    labels_free(&map.picture.queries);
    labels_free(&map.picture.keys);
    free(map.picture.weights);
    call_free(&map.call);
    return command_end(&map.diag, false);
}
