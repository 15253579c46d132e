/* SPDX-License-Identifier: MIT */
/* Each panel is one image of a palette, whose pixels viewers enlarge, so a picture grows with its pixels and not with
 * markup.
 */
#include "picture.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "png.h"
#include "record.h"
#include "base/memory.h"

#define DECADES 4             /* of a logarithmic scale */
#define BAR_STEPS 254         /* colours of the bar */
enum { HIDDEN_COLOUR = BAR_STEPS, NONFINITE_COLOUR };

/* "viridis" in ten points: from dark to bright in equal steps of lightness, for the colour-blind as well. */
static const struct colour colours[] = {
    {68, 1, 84},    {72, 40, 120},  {62, 74, 137},  {49, 104, 142}, {38, 130, 142},
    {31, 158, 137}, {53, 183, 121}, {109, 205, 89}, {180, 222, 44}, {253, 231, 37},
};

#define COLOURS (sizeof colours / sizeof *colours)

/* The position of a weight on the colour bar, 0 to 1 */
static double place_of(const struct picture *p, double weight)
{
    const double share = weight / p->top;
    const double place = p->scale == LINEAR ? share
                         : p->scale == SQRT ? sqrt(share)
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

/* Those of the bar from 0 on, then the two that are not in it */
static void make_palette(struct colour palette[256])
{
    for (int i = 0; i < BAR_STEPS; i++)
        palette[i] = colour_at(i / (BAR_STEPS - 1.0));
    palette[HIDDEN_COLOUR] = (struct colour){222, 222, 228};
    palette[NONFINITE_COLOUR] = (struct colour){214, 40, 57};
}

static unsigned char index_of(const struct picture *p, float weight)
{
    return (unsigned char)(weight == HIDDEN ? HIDDEN_COLOUR : !isfinite(weight) ? NONFINITE_COLOUR
                           : lrint(place_of(p, weight) * (BAR_STEPS - 1)));
}

/* All in units of the picture, from its top left corner. */
struct layout {
    double width, height;
    double left, top;           /* of the first panel */
    double keys_y;              /* the words under the last panels */
    double panel_w, panel_h, step_x, step_y;
    size_t across, down;
    double bar_left, bar_width, bar_height;
    double font_x, font_y;      /* of tic labels */
};

static double tic_width(const struct labels *labels, size_t positions, double font)
{
    char number[24];
    const int digits = snprintf(number, sizeof number, "%zu", positions - 1);
    return 0.6 * font * (labels->text != NULL ? (double)labels->longest : digits) + 8;
}

/* Number of panels side by side, so that few places stay empty */
static size_t panels_across(size_t heads)
{
    const size_t root = (size_t)ceil(sqrt((double)heads));
    size_t best = root;
    for (size_t across = root; across <= root + 2 && across <= heads; across++)
        if ((heads + across - 1) / across * across < (heads + best - 1) / best * best)
            best = across;
    return best;
}

static struct layout lay_out(const struct picture *p)
{
    const struct inputs *in = p->inputs;
    const double n = (double)in->n, m = (double)p->m, longest = fmax(n, m);
    struct layout l = {.across = panels_across(p->heads)};
    l.down = (p->heads + l.across - 1) / l.across;
    double side = p->heads == 1 ? 560 : fmax(60, fmin(240, 1200 / (double)l.across));
    if (p->queries.text != NULL || p->keys.text != NULL) /* space for a line of text at each position */
        side = fmin(fmax(side, 11 * longest), fmax(side, 700));
    l.panel_w = fmax(side * m / longest, side / 5);
    l.panel_h = fmax(side * n / longest, side / 5);
    l.font_x = p->keys.text != NULL ? fmax(6, fmin(11, 0.85 * l.panel_w / m)) : 10;
    l.font_y = p->queries.text != NULL ? fmax(6, fmin(11, 0.85 * l.panel_h / n)) : 10;
    l.left = 34 + tic_width(&p->queries, in->n, l.font_y);
    l.top = 104;
    l.step_x = l.panel_w + 18;
    l.step_y = l.panel_h + 34;
    l.bar_left = l.left + (double)l.across * l.step_x + 16;
    l.bar_width = 16;
    l.bar_height = fmin(320, fmax(140, (double)l.down * l.step_y - 34));
    l.width = fmax(l.bar_left + l.bar_width + 132, 620);
    l.keys_y = l.top + (double)l.down * l.step_y - 34 + 22 +
               (p->keys.text != NULL ? tic_width(&p->keys, p->m, l.font_x) : 18);
    l.height = fmax(l.keys_y, l.top + l.bar_height + 50) + 18;
    return l;
}

/* A text around a point: anchor "start", "middle" or "end"; upright ones are read from below. */
DIAG_PRINTF(7, 8) static void put_text(FILE *out, double x, double y, double size, const char *anchor, bool upright,
                                       const char *format, ...)
{
    HEAP char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = text_copy("");
    va_end(args);
    fprintf(out, "<text font-size=\"%.1f\" text-anchor=\"%s\" transform=\"translate(%.1f %.1f)%s\" y=\"%.1f\">", size,
            anchor, x, y, upright ? " rotate(-90)" : "", 0.35 * size);
    print_html_text(out, text);
    fputs("</text>\n", out);
}

static void put_box(FILE *out, double x, double y, double w, double h, const char *fill)
{
    fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" stroke=\"#9a9aa2\" "
            "stroke-width=\"0.6\"/>\n", x, y, w, h, fill);
}

static void put_image(FILE *out, double x, double y, double w, double h, const unsigned char *pixels, size_t columns,
                      size_t rows)
{
    struct colour palette[256];
    make_palette(palette);
    fprintf(out, "<image x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" preserveAspectRatio=\"none\" "
            "style=\"image-rendering: pixelated\" xlink:href=\"", x, y, w, h);
    png_print(out, palette, pixels, (uint32_t)columns, (uint32_t)rows);
    fputs("\"/>\n", out);
    put_box(out, x, y, w, h, "none");
}

/* The lines above the panels */
static void put_captions(FILE *out, const struct picture *p)
{
    const struct layer *layer = p->layer;
    const struct inputs *in = p->inputs;
    char masks[LAYER_MASK_TEXT];
    struct text line;
    layer_mask_text(layer->mask, masks);
    put_text(out, 22, 26, 17, "start", false, "%s: attention weights", layer->name);
    text_begin(&line);
    if (layer_has_tensor(layer, TENSOR_X))
        fprintf(line.out, "d_model = %lld, ", (long long)layer->d_model);
    fprintf(line.out, "h = %lld", (long long)layer->h);
    if (layer->h_kv != layer->h)
        fprintf(line.out, " on h_kv = %lld", (long long)layer->h_kv);
    fprintf(line.out, ", d_k = %lld, n = %zu", (long long)layer->d_k, in->n);
    if (!layer->self || layer_has_cache(layer))
        fprintf(line.out, ", m = %zu", p->m);
    put_text(out, 22, 48, 12, "start", false, "%s, mask = %s", text_end(&line), masks);
    free(line.bytes);
    text_begin(&line);
    if (in->batch > 1)
        fprintf(line.out, "sequence %zu (of %zu), ", p->sequence, in->batch);
    if ((layer->mask & MASK_PADDING) && !layer_has_cache(layer))
        fprintf(line.out, "%zu keys of %zu, ", inputs_keys(in, p->sequence), in->m);
    fprintf(line.out, "%s kernel", p->isa);
    if (p->block > 1)
        fprintf(line.out, "; each pixel is the largest of %zu × %zu weights", p->block, p->block);
    put_text(out, 22, 70, 12, "start", false, "%s", text_end(&line));
    free(line.bytes);
}

/* 1, 2, 5, 10, 20, …: the first that leaves at most `max` steps. */
static size_t round_step(size_t positions, double max)
{
    size_t step = 1;
    for (int i = 0; (double)positions / (double)step > max; i++)
        step = i % 3 == 1 ? step / 2 * 5 : step * 2;
    return step;
}

/* Marks along an axis of `length` from (x, y), and where `named` labels or numbers beside them */
static void put_tics(FILE *out, bool down, const struct labels *labels, size_t positions, double x, double y,
                     double length, double font, bool named)
{
    const double room = labels->text != NULL ? font * 1.05 : down ? 20 : 36, unit = length / (double)positions;
    const size_t step = labels->text != NULL ? (size_t)ceil(room / unit - 0.01)
                                             : round_step(positions, fmax(1, length / room));
    for (size_t i = 0; i < positions; i += step > 0 ? step : 1) {
        const double at = ((double)i + 0.5) * unit;
        const char *text = labels->text == NULL || i >= labels->count ? "" : labels->text[i];
        fprintf(out, down ? "<path d=\"M%.1f %.1fh-4\"/>" : "<path d=\"M%.1f %.1fv4\"/>", down ? x : x + at,
                down ? y + at : y);
        const double text_x = down ? x - 7 : x + at, text_y = down ? y + at : y + (labels->text == NULL ? 12 : 7);
        if (named && labels->text == NULL)
            put_text(out, text_x, text_y, font, down ? "end" : "middle", false, "%zu", i);
        else if (named)
            put_text(out, text_x, text_y, font, "end", !down, "%s", text);
    }
    putc('\n', out);
}

static void put_panel(FILE *out, const struct picture *p, const struct layout *l, size_t i)
{
    const struct layer *layer = p->layer;
    const size_t head = p->first_head + i, pixels = p->rows * p->columns;
    const double x = l->left + (double)(i % l->across) * l->step_x, y = l->top + (double)(i / l->across) * l->step_y;
    const double wide = l->panel_w * (double)p->m / (double)(p->columns * p->block); /* without the last pixel's rest */
    const double high = l->panel_h * (double)p->inputs->n / (double)(p->rows * p->block);
    HEAP unsigned char *colours = memory_get(pixels, 1);
    for (size_t at = 0; at < pixels; at++)
        colours[at] = index_of(p, p->weights[i * pixels + at]);
    put_image(out, x, y, l->panel_w, l->panel_h, colours, p->columns, p->rows);
    if (layer->h_kv != layer->h)
        put_text(out, x + l->panel_w / 2, y - 10, 12, "middle", false, "head %zu (keys %lld)", head,
                 (long long)head * layer->h_kv / layer->h);
    else
        put_text(out, x + l->panel_w / 2, y - 10, 12, "middle", false, "head %zu", head);
    put_tics(out, false, &p->keys, p->m, x, y + l->panel_h, wide, l->font_x, i + l->across >= p->heads);
    put_tics(out, true, &p->queries, p->inputs->n, x, y, high, l->font_y, i % l->across == 0);
}

/* A number beside the bar; `place`: from 0 at its foot to 1 at its top */
static void put_mark(FILE *out, const struct layout *l, double place, const char *before, double number)
{
    const double y = l->top + (1 - place) * l->bar_height, x = l->bar_left + l->bar_width;
    fprintf(out, "<path d=\"M%.1f %.1fh4\"/>", x, y);
    put_text(out, x + 8, y, 12, "start", false, "%s%.3g", before, number);
}

/* Numbers beside the bar, from its top, where they do not overlap: the largest weight, then round numbers */
static void put_bar_tics(FILE *out, const struct picture *p, const struct layout *l)
{
    double last = 1, decade = pow(10, ceil(log10((double)p->top)));
    put_mark(out, l, 1, "", (double)p->top);
    put_mark(out, l, 0, p->scale == LOG ? "≤ " : "", p->scale == LOG ? p->top * pow(10, -DECADES) : 0);
    if (p->scale == LINEAR) {
        static const double steps[] = {0.5, 0.2, 0.1, 0.05};
        size_t i = 0;
        while (i < 3 && p->top / (decade * steps[i]) < 3)
            i++;
        for (double at = decade * steps[i]; p->top - at > 0.06 * p->top; at += decade * steps[i])
            put_mark(out, l, place_of(p, at), "", at);
    }
    for (; p->scale != LINEAR && place_of(p, decade) > 0.07; decade /= 10)
        for (int i = 0; i < 3; i++) {
            const double at = decade * (i == 0 ? 1 : i == 1 ? 0.5 : 0.2), place = place_of(p, at);
            if (at < p->top && last - place > 0.07 && place > 0.08) {
                put_mark(out, l, place, "", at);
                last = place;
            }
        }
}

static void put_bar(FILE *out, const struct picture *p, const struct layout *l)
{
    static const char *const names[SCALES] = {"weight", "weight (square-root scale)", "weight (logarithmic scale)"};
    const double text_x = l->bar_left + l->bar_width + 8;
    double y = l->top + l->bar_height + 14;
    unsigned char colours[BAR_STEPS];
    for (int i = 0; i < BAR_STEPS; i++)
        colours[i] = (unsigned char)(BAR_STEPS - 1 - i);
    put_image(out, l->bar_left, l->top, l->bar_width, l->bar_height, colours, 1, BAR_STEPS);
    put_bar_tics(out, p, l);
    put_text(out, text_x + 68, l->top + l->bar_height / 2, 11, "middle", true, "%s", names[p->scale]);
    if (p->any_hidden) {
        put_box(out, l->bar_left, y, l->bar_width, 12, "rgb(222,222,228)");
        put_text(out, text_x, y + 6, 11, "start", false, "hidden by the mask");
        y += 20;
    }
    if (p->any_nonfinite) {
        put_box(out, l->bar_left, y, l->bar_width, 12, "rgb(214,40,57)");
        put_text(out, text_x, y + 6, 11, "start", false, "not a finite number");
    }
}

bool picture_draw(const struct picture *p, const char *path, struct diag *diag)
{
    const struct layout l = lay_out(p);
    const double below = l.top + (double)l.down * l.step_y - 34;
    struct text picture;
    FILE *out = text_begin(&picture);
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" "
            "viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" fill=\"#1b1b20\">\n<title>%s</title>\n"
            "<style>path { fill: none; stroke: #9a9aa2; stroke-width: 0.6px }</style>\n"
            "<rect width=\"%.0f\" height=\"%.0f\" fill=\"#ffffff\"/>\n", l.width, l.height, p->layer->name, l.width,
            l.height);
    put_captions(out, p);
    put_text(out, l.left + ((double)l.across * l.step_x - 18) / 2, l.keys_y, 12, "middle", false, "key position");
    put_text(out, 18, (l.top + below) / 2, 12, "middle", true, "query position");
    for (size_t i = 0; i < p->heads; i++)
        put_panel(out, p, &l, i);
    put_bar(out, p, &l);
    fputs("</svg>\n", out);
    return text_write(&picture, path, diag);
}
