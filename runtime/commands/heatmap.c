/* SPDX-License-Identifier: MIT */
/* attnrun heatmap: draws the attention weights of a kernel.
 *
 * Colours are chosen here, weight by weight; gnuplot puts the panels, axes and numbers around them and embeds each
 * panel as one image, so a picture grows with its pixels and not with markup. Left out on purpose: averages over heads
 * or sequences, and any number that is not an attention weight.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../gen/file.h"
#include "../../gen/isa.h"
#include "../../gen/replace.h"
#include "kernels/call.h"
#include "commands.h"
#include "reports/gnuplot.h"
#include "reference/reference.h"

#define HEADS_LIMIT 256       /* panels in one picture */
#define PIXELS_LIMIT 2000000  /* of all panels; where there are more weights than that, several share a pixel */
#define SIDE_LIMIT 1200       /* pixels along a panel */
#define SHARP 500             /* pixels are repeated up to here, as viewers blur what they enlarge */
#define LABEL_LIMIT 16        /* characters of a label that are shown */
#define DECADES 4             /* of a logarithmic scale */
#define BAR_STEPS 256         /* of the colour bar */

struct colour {
    unsigned char red, green, blue;
};

/* "viridis" in ten points: from dark to bright in equal steps of lightness, for the colour-blind as well. */
static const struct colour colours[] = {
    {68, 1, 84},    {72, 40, 120},  {62, 74, 137},  {49, 104, 142}, {38, 130, 142},
    {31, 158, 137}, {53, 183, 121}, {109, 205, 89}, {180, 222, 44}, {253, 231, 37},
};
static const struct colour hidden_colour = {222, 222, 228}, nonfinite_colour = {214, 40, 57};

#define COLOURS (sizeof colours / sizeof *colours)
#define HIDDEN (-1.0f) /* in place of a weight */

enum scale { LINEAR, SQRT, LOG, SCALES };
static const char *const scale_names[SCALES] = {"linear", "sqrt", "log"};

struct labels {
    char **text; /* NULL: positions have numbers only */
    size_t count, longest;
};

struct heatmap {
    const struct options *options;
    struct call call;
    int isa;
    size_t sequence, first_head, heads;
    enum scale scale;
    struct labels queries, keys;
    size_t block;         /* weights along the side of a pixel, which shows the largest of them */
    size_t rows, columns; /* pixels of a panel */
    float *weights;       /* [heads][rows][columns] */
    float top;            /* the largest weight, where the colours end */
    bool any_hidden, any_nonfinite;
    struct diag diag;
};

/* Where on the colour bar a weight lies, 0 to 1. */
static double place_of(const struct heatmap *map, double weight)
{
    const double share = weight / map->top;
    const double place = map->scale == LINEAR ? share
                         : map->scale == SQRT ? sqrt(share)
                                              : 1 + log10(share) / DECADES;
    return place > 0 ? fmin(place, 1) : 0;
}

static unsigned char blend(unsigned char from, unsigned char to, double part)
{
    return (unsigned char)lrint(from + part * (to - from));
}

static struct colour colour_at(double place)
{
    const double at = place * (COLOURS - 1);
    const size_t i = at < COLOURS - 2 ? (size_t)at : COLOURS - 2;
    const struct colour a = colours[i], b = colours[i + 1];
    const double part = at - (double)i;
    return (struct colour){blend(a.red, b.red, part), blend(a.green, b.green, part), blend(a.blue, b.blue, part)};
}

static struct colour colour_of(const struct heatmap *map, float weight)
{
    return weight == HIDDEN ? hidden_colour : !isfinite(weight) ? nonfinite_colour : colour_at(place_of(map, weight));
}

/* ---- what the options ask for ---------------------------------------------------------------------------------- */

/* Whether "key=value" sets this key. */
static bool sets(const char *text, const char *key)
{
    text += strspn(text, " \t");
    return strncmp(text, key, strlen(key)) == 0 && strchr(" \t=", text[strlen(key)]) != NULL;
}

/* The weights are needed whatever the spec says of `scores`, once it is a good spec. */
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
    while (strcmp(scale_names[map->scale], name) != 0)
        map->scale++;
}

static bool choose(struct heatmap *map)
{
    const struct options *o = map->options;
    const struct inputs *in = &map->call.inputs;
    const size_t h = (size_t)map->call.layer->h;
    map->sequence = o->sequence != UNSET ? o->sequence : 0;
    map->first_head = o->head != UNSET ? o->head : 0;
    map->heads = o->head != UNSET ? 1 : h;
    if (in->batch == 0 || in->n == 0 || in->m == 0)
        diag_error(&map->diag, o->in, "%zu sequences of %zu queries on %zu keys have no weights to show", in->batch,
                   in->n, in->m);
    else if (map->sequence >= in->batch)
        diag_error(&map->diag, "command line", "--sequence %zu: the file has %zu; 0 to %zu are possible", map->sequence,
                   in->batch, in->batch - 1);
    if (map->first_head >= h)
        diag_error(&map->diag, "command line", "--head %zu: the layer has %zu; 0 to %zu are possible", map->first_head,
                   h, h - 1);
    else if (map->heads > HEADS_LIMIT)
        diag_error(&map->diag, "command line", "%zu heads are too many for one picture; choose one with --head", h);
    return map->diag.errors == 0;
}

/* ---- labels ---------------------------------------------------------------------------------------------------- */

/* Bytes of the character at `text`, 0 if it is none that XML knows: no UTF-8, or a control character. */
static size_t character(const unsigned char *text)
{
    static const struct { unsigned char mask, lead; uint32_t min; } forms[] = {
        {0x80, 0x00, 0x20}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000},
    };
    size_t bytes = 0;
    while (bytes < 4 && (text[0] & forms[bytes].mask) != forms[bytes].lead)
        bytes++;
    if (bytes == 4)
        return 0;
    uint32_t code = text[0] & (unsigned char)~forms[bytes].mask;
    for (size_t i = 1; i <= bytes; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3f);
    }
    const bool control = code == 0x7f || (code >= 0x80 && code < 0xa0) || (code >= 0xd800 && code < 0xe000);
    return code < forms[bytes].min || control || (code & 0xfffe) == 0xfffe || code > 0x10ffff ? 0 : bytes + 1;
}

/* Cuts a label that is long; false if it is not text. */
static bool trim_label(char *text, size_t *characters)
{
    char *cut = text, *at = text;
    *characters = 0;
    for (size_t bytes; *at != '\0'; at += bytes) {
        *at = *at == '\t' ? ' ' : *at;
        bytes = character((const unsigned char *)at);
        if (bytes == 0)
            return false;
        if (++*characters == LABEL_LIMIT)
            cut = at;
    }
    if (*characters > LABEL_LIMIT) {
        /* "…" takes the place of at least one character and what follows it: three bytes are there */
        *characters = LABEL_LIMIT;
        memmove(cut, strlen(cut) >= 3 ? "\xe2\x80\xa6" : ".", strlen(cut) >= 3 ? 4 : 2);
    }
    return true;
}

/* One label a line: as many as positions, or as many as the padding mask leaves. */
static bool read_labels(struct labels *labels, const char *path, size_t positions, size_t padded, struct diag *diag)
{
    size_t size, lines = 0;
    char *text = path != NULL ? file_read(path, &size, diag) : NULL;
    if (text == NULL)
        return path == NULL;
    labels->text = calloc(positions + 1, sizeof *labels->text);
    bool good = labels->text != NULL;
    if (!good)
        diag_environment(diag, path, "out of memory");
    for (char *at = text, *end = text + size; good && at < end; lines++) {
        size_t length = strcspn(at, "\n"), characters;
        char *next = at + length + 1;
        bool zero = at + length < end && at[length] == '\0'; /* a byte 0 inside the line */
        at[length] = '\0';
        if (length > 0 && at[length - 1] == '\r')
            at[length - 1] = '\0';
        if (zero || !trim_label(at, &characters)) {
            diag_error(diag, path, "line %zu is not text in UTF-8", lines + 1);
            good = false;
        } else if (lines < positions) {
            labels->longest = characters > labels->longest ? characters : labels->longest;
            good = (labels->text[lines] = strdup(at)) != NULL;
            if (!good)
                diag_environment(diag, path, "out of memory");
        }
        at = next;
    }
    labels->count = lines < positions ? lines : positions;
    if (good && lines != positions && lines != padded) {
        diag_error(diag, path, padded == positions ? "%zu labels for %zu positions; one a line is needed"
                   : "%zu labels for %zu positions, of which %zu are not padding; one a line is needed", lines,
                   positions, padded);
        good = false;
    }
    free(text);
    return good;
}

static void free_labels(struct labels *labels)
{
    for (size_t i = 0; i < labels->count; i++)
        free(labels->text[i]);
    free(labels->text);
}

static bool read_all_labels(struct heatmap *map)
{
    const struct options *o = map->options;
    const struct inputs *in = &map->call.inputs;
    const bool cross = !map->call.layer->self; /* queries are no keys */
    const size_t padded = inputs_keys(in, map->sequence);
    if (o->source_labels != NULL && !cross) {
        diag_error(&map->diag, "command line", "--source-labels is for cross-attention; --labels names both axes here");
        return false;
    }
    return read_labels(&map->queries, o->labels, in->n, cross ? in->n : padded, &map->diag) &&
           read_labels(&map->keys, cross ? o->source_labels : o->labels, in->m, padded, &map->diag);
}

/* ---- weights and pixels ---------------------------------------------------------------------------------------- */

/* The best instruction set, or the best of those asked for. */
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
    return map->isa != CALL_LACKS && map->isa != CALL_BROKEN;
}

/* The largest weight that is visible in a block, HIDDEN if none is, NaN if one is not finite. */
static float pixel(const struct heatmap *map, size_t head, size_t row, size_t column)
{
    const struct inputs *in = &map->call.inputs;
    const float *attn = map->call.attn + (map->sequence * (size_t)map->call.layer->h + head) * in->n * in->m;
    float largest = HIDDEN;
    for (size_t t = row * map->block; t < (row + 1) * map->block && t < in->n; t++)
        for (size_t j = column * map->block; j < (column + 1) * map->block && j < in->m; j++) {
            const float weight = attn[t * in->m + j];
            if (!reference_visible(map->call.layer, in, map->sequence, head, t, j))
                continue;
            if (!isfinite(weight))
                return NAN;
            largest = weight > largest ? weight : largest;
        }
    return largest;
}

static bool gather_weights(struct heatmap *map)
{
    const struct inputs *in = &map->call.inputs;
    const size_t longest = in->n > in->m ? in->n : in->m;
    do {
        map->block++;
        map->rows = (in->n + map->block - 1) / map->block;
        map->columns = (in->m + map->block - 1) / map->block;
    } while (map->heads * map->rows * map->columns > PIXELS_LIMIT || (longest - 1) / map->block >= SIDE_LIMIT);
    const size_t count = map->heads * map->rows * map->columns;
    map->weights = malloc(count * sizeof *map->weights);
    if (map->weights == NULL) {
        diag_environment(&map->diag, NULL, "out of memory");
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const float weight = pixel(map, map->first_head + i / (map->rows * map->columns), i / map->columns % map->rows,
                                   i % map->columns);
        map->weights[i] = weight;
        map->any_hidden = map->any_hidden || weight == HIDDEN;
        map->any_nonfinite = map->any_nonfinite || !isfinite(weight);
        map->top = weight > map->top ? weight : map->top;
    }
    if (map->top == 0) /* nothing but zeros */
        map->top = 1;
    return true;
}

/* ---- the picture ----------------------------------------------------------------------------------------------- */

/* All in units of the picture, from its top left corner. */
struct layout {
    double width, height;
    double left, top;           /* of the first panel */
    double keys_y;              /* the words under the last panels */
    double panel_w, panel_h, step_x, step_y;
    size_t across, down;
    double bar_left, bar_width, bar_height;
    double font_x, font_y;      /* of tic labels */
    size_t repeat;              /* pixels of the image for one of the panel */
};

static double tic_width(const struct labels *labels, size_t positions, double font)
{
    char number[24];
    const int digits = snprintf(number, sizeof number, "%zu", positions - 1);
    return 0.6 * font * (labels->text != NULL ? (double)labels->longest : digits) + 8;
}

/* Panels side by side so that few places stay empty. */
static size_t panels_across(size_t heads)
{
    const size_t root = (size_t)ceil(sqrt((double)heads));
    size_t best = root;
    for (size_t across = root; across <= root + 2 && across <= heads; across++)
        if ((heads + across - 1) / across * across < (heads + best - 1) / best * best)
            best = across;
    return best;
}

static struct layout lay_out(const struct heatmap *map)
{
    const struct inputs *in = &map->call.inputs;
    const double n = (double)in->n, m = (double)in->m, longest = fmax(n, m);
    struct layout l = {.across = panels_across(map->heads)};
    l.down = (map->heads + l.across - 1) / l.across;
    double side = map->heads == 1 ? 560 : fmax(60, fmin(240, 1200 / (double)l.across));
    if (map->queries.text != NULL || map->keys.text != NULL) /* room for a line of text at each position */
        side = fmin(fmax(side, 11 * longest), fmax(side, 700));
    l.panel_w = fmax(side * m / longest, side / 5);
    l.panel_h = fmax(side * n / longest, side / 5);
    l.font_x = map->keys.text != NULL ? fmax(6, fmin(11, 0.85 * l.panel_w / m)) : 10;
    l.font_y = map->queries.text != NULL ? fmax(6, fmin(11, 0.85 * l.panel_h / n)) : 10;
    l.left = 34 + tic_width(&map->queries, in->n, l.font_y);
    l.top = 104;
    l.step_x = l.panel_w + 18;
    l.step_y = l.panel_h + 34;
    l.bar_left = l.left + (double)l.across * l.step_x + 16;
    l.bar_width = 16;
    l.bar_height = fmin(320, fmax(140, (double)l.down * l.step_y - 34));
    l.width = fmax(l.bar_left + l.bar_width + 132, 620);
    l.keys_y = l.top + (double)l.down * l.step_y - 34 + 22 +
               (map->keys.text != NULL ? tic_width(&map->keys, in->m, l.font_x) : 18);
    l.height = fmax(l.keys_y, l.top + l.bar_height + 50) + 18;
    const size_t max = map->rows > map->columns ? map->rows : map->columns;
    l.repeat = max < SHARP ? SHARP / max : 1;
    return l;
}

static void put_colour(FILE *out, struct colour colour)
{
    putc(colour.red, out);
    putc(colour.green, out);
    putc(colour.blue, out);
}

/* Panel after panel as bytes red, green, blue, then the colour bar from 0 on, two pixels wide as one would not do. */
static bool write_pixels(const struct heatmap *map, const struct layout *l, const char *path, struct diag *diag)
{
    FILE *out = fopen(path, "wbe");
    for (size_t row = 0; out != NULL && row < map->heads * map->rows; row++)
        for (size_t again = 0; again < l->repeat; again++)
            for (size_t column = 0; column < map->columns * l->repeat; column++)
                put_colour(out, colour_of(map, map->weights[row * map->columns + column / l->repeat]));
    for (int i = 0; out != NULL && i < 2 * BAR_STEPS; i++)
        put_colour(out, colour_at((i / 2 + 0.5) / BAR_STEPS));
    bool good = out != NULL && !ferror(out);
    if (out != NULL && fclose(out) != 0)
        good = false;
    if (!good)
        diag_environment(diag, path, "cannot be written");
    return good;
}

static void put_label(FILE *out, const struct layout *l, double x, double y, const char *more, const char *text)
{
    fputs("set label ", out);
    gnuplot_quote(out, text);
    fprintf(out, " at screen %.6f, screen %.6f %s\n", x / l->width, 1 - y / l->height, more);
}

/* The lines above the panels. */
static char *caption(const struct heatmap *map, int line)
{
    const struct layer *layer = map->call.layer;
    const struct inputs *in = &map->call.inputs;
    char *text = NULL, masks[LAYER_MASK_TEXT];
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL)
        return NULL;
    layer_mask_text(layer->mask, masks);
    if (line == 0) {
        fprintf(out, "%s: attention weights", layer->name);
    } else if (line == 1) {
        if (layer_has_tensor(layer, TENSOR_X))
            fprintf(out, "d_model = %lld, ", (long long)layer->d_model);
        fprintf(out, "h = %lld", (long long)layer->h);
        if (layer->h_kv != layer->h)
            fprintf(out, " on h_kv = %lld", (long long)layer->h_kv);
        fprintf(out, ", d_k = %lld, n = %zu", (long long)layer->d_k, in->n);
        if (!layer->self)
            fprintf(out, ", m = %zu", in->m);
        fprintf(out, ", mask = %s", masks);
    } else {
        if (in->batch > 1)
            fprintf(out, "sequence %zu (of %zu), ", map->sequence, in->batch);
        if (layer->mask & MASK_PADDING)
            fprintf(out, "%zu keys of %zu, ", inputs_keys(in, map->sequence), in->m);
        fprintf(out, "%s kernel", map->call.kernel.call->isa_name(map->isa));
        if (map->block > 1)
            fprintf(out, "; each pixel is the largest of %zu × %zu weights", map->block, map->block);
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* 1, 2, 5, 10, 20, …: the first that leaves at most `most` steps. */
static size_t round_step(size_t positions, double max)
{
    size_t step = 1;
    for (int i = 0; (double)positions / (double)step > max; i++)
        step = i % 3 == 1 ? step / 2 * 5 : step * 2;
    return step;
}

/* set xtics or ytics: labels or numbers, or marks alone on panels inside the grid. */
static void put_tics(FILE *out, char axis, const struct labels *labels, size_t positions, double length, double font,
                     bool named)
{
    const double room = labels->text != NULL ? font * 1.05 : axis == 'x' ? 36 : 20;
    const size_t step = labels->text != NULL ? (size_t)ceil(room * (double)positions / length - 0.01)
                                             : round_step(positions, fmax(1, length / room));
    fprintf(out, "set %ctics %s font ',%.1f' (", axis,
            axis != 'x' ? "offset 0.6,0" : labels->text != NULL ? "rotate by 90 right offset 0,0.3" : "offset 0,0.4",
            font);
    for (size_t i = 0; i < positions; i += step > 0 ? step : 1) {
        char number[24];
        snprintf(number, sizeof number, "%zu", i);
        const char *text = labels->text == NULL ? number : i < labels->count ? labels->text[i] : "";
        fputs(i > 0 ? ", " : "", out);
        gnuplot_quote_tic(out, named ? text : "");
        fprintf(out, " %zu", i);
    }
    fputs(")\n", out);
}

static void put_margins(FILE *out, const struct layout *l, double x, double y, double w, double h)
{
    fprintf(out, "set lmargin at screen %.6f\nset rmargin at screen %.6f\nset tmargin at screen %.6f\n"
            "set bmargin at screen %.6f\n", x / l->width, (x + w) / l->width, 1 - y / l->height,
            1 - (y + h) / l->height);
}

static void put_panel(FILE *out, const struct heatmap *map, const struct layout *l, const char *pixels, size_t i)
{
    const struct layer *layer = map->call.layer;
    const struct inputs *in = &map->call.inputs;
    const size_t head = map->first_head + i, wide = map->columns * l->repeat, high = map->rows * l->repeat;
    const double step = (double)map->block / (double)l->repeat; /* positions along a pixel of the image */
    put_margins(out, l, l->left + (double)(i % l->across) * l->step_x, l->top + (double)(i / l->across) * l->step_y,
                l->panel_w, l->panel_h);
    fprintf(out, "set title 'head %zu", head);
    if (layer->h_kv != layer->h)
        fprintf(out, " (keys %lld)", (long long)head * layer->h_kv / layer->h);
    fputs("' offset 0,-0.7\n", out);
    put_tics(out, 'x', &map->keys, in->m, l->panel_w, l->font_x, i + l->across >= map->heads);
    put_tics(out, 'y', &map->queries, in->n, l->panel_h, l->font_y, i % l->across == 0);
    fprintf(out, "set xrange [-0.5:%zu.5]\nset yrange [%zu.5:-0.5]\nplot ", map->columns * map->block - 1,
            map->rows * map->block - 1);
    gnuplot_quote(out, pixels);
    fprintf(out, " binary skip=%zu array=(%zu,%zu) format='%%uchar' dx=%.9g dy=%.9g origin=(%.9g,%.9g) with rgbimage "
            "title 'head %zu'\n", 3 * i * wide * high, wide, high, step, step, step / 2 - 0.5, step / 2 - 0.5, head);
}

/* Numbers beside the bar, from its top, where they do not touch: the largest weight, then round ones. */
static void put_bar_tics(FILE *out, const struct heatmap *map)
{
    const char *min = map->scale == LOG ? "≤ " : "";
    double last = 1, decade = pow(10, ceil(log10((double)map->top)));
    fprintf(out, "set y2tics ('%.3g' 1, '%s%.3g' 0", map->top, min,
            map->scale == LOG ? map->top * pow(10, -DECADES) : 0);
    if (map->scale == LINEAR) {
        static const double steps[] = {0.5, 0.2, 0.1, 0.05};
        size_t i = 0;
        while (i < 3 && map->top / (decade * steps[i]) < 3)
            i++;
        for (double at = decade * steps[i]; map->top - at > 0.06 * map->top; at += decade * steps[i])
            fprintf(out, ", '%.3g' %.6f", at, place_of(map, at));
    }
    for (; map->scale != LINEAR && place_of(map, decade) > 0.07; decade /= 10)
        for (int i = 0; i < 3; i++) {
            const double at = decade * (i == 0 ? 1 : i == 1 ? 0.5 : 0.2), place = place_of(map, at);
            if (at < map->top && last - place > 0.07 && place > 0.08) {
                fprintf(out, ", '%.3g' %.6f", at, place);
                last = place;
            }
        }
    fputs(")\n", out);
}

/* What a colour outside the bar means. */
static void put_swatch(FILE *out, const struct layout *l, double y, struct colour colour, const char *text)
{
    fprintf(out, "set object rectangle from screen %.6f, screen %.6f to screen %.6f, screen %.6f fillstyle solid 1 "
            "border lc '#9a9aa2' fillcolor '#%02x%02x%02x'\n", l->bar_left / l->width, 1 - (y + 12) / l->height,
            (l->bar_left + l->bar_width) / l->width, 1 - y / l->height, colour.red, colour.green, colour.blue);
    put_label(out, l, l->bar_left + l->bar_width + 8, y + 6, "left font ',11'", text);
}

static void put_bar(FILE *out, const struct heatmap *map, const struct layout *l, const char *pixels)
{
    static const char *const names[SCALES] = {"weight", "weight (square-root scale)", "weight (logarithmic scale)"};
    double y = l->top + l->bar_height + 14;
    put_margins(out, l, l->bar_left, l->top, l->bar_width, l->bar_height);
    fputs("unset title\nunset xtics\nunset ytics\nset xrange [0:1]\nset yrange [0:1]\nset y2range [0:1]\n", out);
    put_bar_tics(out, map);
    put_label(out, l, l->bar_left + l->bar_width + 76, l->top + l->bar_height / 2, "center rotate by 90 font ',11'",
              names[map->scale]);
    if (map->any_hidden) {
        put_swatch(out, l, y, hidden_colour, "hidden by the mask");
        y += 20;
    }
    if (map->any_nonfinite)
        put_swatch(out, l, y, nonfinite_colour, "not a finite number");
    fputs("plot ", out);
    gnuplot_quote(out, pixels);
    fprintf(out, " binary skip=%zu array=(2,%d) format='%%uchar' dx=0.5 dy=%.9g origin=(0.25,%.9g) with rgbimage "
            "title 'colour bar'\n", 3 * map->heads * map->rows * map->columns * l->repeat * l->repeat, BAR_STEPS,
            1.0 / BAR_STEPS, 0.5 / BAR_STEPS);
}

static bool write_script(const struct heatmap *map, const struct layout *l, const char *path, const char *pixels,
                         const char *picture, struct diag *diag)
{
    static const char *const fonts[] = {"left font ',17'", "left font ',12' textcolor '#44444c'",
                                        "left font ',12' textcolor '#44444c'"};
    FILE *out = fopen(path, "wbe");
    bool good = out != NULL;
    if (good) {
        fprintf(out, "set encoding utf8\nset terminal svg size %.0f,%.0f dynamic noenhanced font 'sans-serif,12' "
                "background '#ffffff' name '%s'\nset output ", l->width, l->height, map->call.layer->name);
        gnuplot_quote(out, picture);
        fputs("\nset multiplot\nunset key\nset border lc '#9a9aa2' lw 0.6\n"
              "set tics out nomirror scale 0.4 textcolor '#1b1b20'\n", out);
    }
    for (int line = 0; good && line < 3; line++) {
        char *text = caption(map, line);
        good = text != NULL;
        if (good)
            put_label(out, l, 22, 26 + 22 * line, fonts[line], text);
        free(text);
    }
    if (good) {
        const double below = l->top + (double)l->down * l->step_y - 34;
        put_label(out, l, l->left + ((double)l->across * l->step_x - 18) / 2, l->keys_y, "center", "key position");
        put_label(out, l, 18, (l->top + below) / 2, "center rotate by 90", "query position");
    }
    for (size_t i = 0; good && i < map->heads; i++) {
        put_panel(out, map, l, pixels, i);
        fputs(i == 0 ? "unset label\n" : "", out);
    }
    if (good) {
        put_bar(out, map, l, pixels);
        fputs("unset multiplot\nset output\n", out);
    }
    good = good && !ferror(out);
    if (out != NULL && fclose(out) != 0)
        good = false;
    if (!good)
        diag_environment(diag, path, "cannot be written");
    return good;
}

/* gnuplot does not say when a disk is full: the end must be there. */
static bool keep_picture(const char *from, const char *to, struct diag *diag)
{
    static const char last[] = "</svg>";
    size_t size = 0;
    char *text = file_read(from, &size, diag);
    bool good = text != NULL;
    if (good) {
        while (size > 0 && strchr(" \n", text[size - 1]) != NULL)
            size--;
        text[size] = '\n'; /* in place of a blank or of the NUL behind the text */
        good = size >= strlen(last) && memcmp(text + size - strlen(last), last, strlen(last)) == 0;
        if (!good)
            diag_environment(diag, from, "gnuplot did not write it to its end; is the disk full?");
    }
    const struct piece piece = {text, size + 1};
    good = good && file_replace(to, &piece, 1, diag);
    free(text);
    return good;
}

static bool draw(const struct heatmap *map, struct diag *diag)
{
    const struct layout layout = lay_out(map);
    sigset_t before;
    signals_hold(&before);
    char *folder = folder_make(diag), *pixels = NULL, *script = NULL, *picture = NULL;
    bool good = folder != NULL;
    if (good) {
        pixels = path_join(folder, "pixels.rgb");
        script = path_join(folder, "heatmap.gnuplot");
        picture = path_join(folder, "heatmap.svg");
        good = pixels != NULL && script != NULL && picture != NULL;
        if (!good)
            diag_environment(diag, NULL, "out of memory");
    }
    good = good && write_pixels(map, &layout, pixels, diag) &&
           write_script(map, &layout, script, pixels, picture, diag) && gnuplot_run(script, diag) &&
           keep_picture(picture, map->options->out, diag);
    if (folder != NULL)
        folder_remove(folder);
    free(folder);
    free(pixels);
    free(script);
    free(picture);
    signals_release(&before);
    return good;
}

/* Another ending would promise another format. */
static bool is_svg(struct heatmap *map)
{
    const char *slash = strrchr(map->options->out, '/');
    const char *dot = strrchr(slash != NULL ? slash : map->options->out, '.');
    if (dot == NULL || strcmp(dot, ".svg") == 0)
        return true;
    diag_error(&map->diag, "-o", "the picture is SVG; write a name that ends in .svg instead of \"%s\"", map->options->out);
    return false;
}

int command_heatmap(const struct options *options)
{
    struct heatmap map = {.options = options};
    struct compile_options compile;
    const char **set = malloc((options->compile.set_count + 1) * sizeof *set);
    bool good = set != NULL;
    if (!good)
        diag_environment(&map.diag, NULL, "out of memory");
    find_scale(&map);
    good = good && is_svg(&map) && gnuplot_find("heatmap", &map.diag) && read_call(&map, &compile, set) &&
           choose(&map) && read_all_labels(&map) &&
           compile_kernel(&map.call.kernel, options->specs[0], map.call.layer->name, &compile, &map.diag) &&
           run_kernel(&map) && gather_weights(&map) && draw(&map, &map.diag);
    if (good)
        printf("%s: %zu head%s, %zu queries on %zu keys, the largest weight is %.4g\n", options->out, map.heads,
               map.heads == 1 ? "" : "s", map.call.inputs.n, map.call.inputs.m, map.top);
    fflush(stdout);
    const int code = diag_report(&map.diag, stderr);
    free_labels(&map.queries);
    free_labels(&map.keys);
    free(map.weights);
    call_free(&map.call);
    diag_free(&map.diag);
    free(set);
    return code;
}
