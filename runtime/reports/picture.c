/* SPDX-License-Identifier: MIT */
/* Colours are chosen here, weight by weight; gnuplot puts the panels, axes and numbers around them and embeds each
 * panel as one image, so a picture grows with its pixels and not with markup.
 */
#include "picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/replace.h"
#include "gnuplot.h"

#define SHARP 500             /* pixels are repeated up to this size, as viewers blur enlarged images */
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

static struct colour colour_of(const struct picture *p, float weight)
{
    return weight == HIDDEN ? hidden_colour : !isfinite(weight) ? nonfinite_colour : colour_at(place_of(p, weight));
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
    size_t repeat;              /* pixels of the image for one pixel of the panel */
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
    const size_t max = p->rows > p->columns ? p->rows : p->columns;
    l.repeat = max < SHARP ? SHARP / max : 1;
    return l;
}

static void put_colour(FILE *out, struct colour colour)
{
    putc(colour.red, out);
    putc(colour.green, out);
    putc(colour.blue, out);
}

/* Panel after panel as bytes red, green, blue; then the colour bar from 0 on, which needs two pixels of width */
static bool write_pixels(const struct picture *p, const struct layout *l, const char *path, struct diag *diag)
{
    FILE *out = fopen(path, "wbe");
    for (size_t row = 0; out != NULL && row < p->heads * p->rows; row++)
        for (size_t again = 0; again < l->repeat; again++)
            for (size_t column = 0; column < p->columns * l->repeat; column++)
                put_colour(out, colour_of(p, p->weights[row * p->columns + column / l->repeat]));
    for (int i = 0; out != NULL && i < 2 * BAR_STEPS; i++)
        put_colour(out, colour_at((i / 2 + 0.5) / BAR_STEPS));
    bool good = out != NULL && !ferror(out);
    if (out != NULL && fclose(out) != 0)
        good = false;
    return good || diag_environment(diag, path, "cannot be written");
}

static void put_label(FILE *out, const struct layout *l, double x, double y, const char *more, const char *text)
{
    fputs("set label ", out);
    gnuplot_quote(out, text);
    fprintf(out, " at screen %.6f, screen %.6f %s\n", x / l->width, 1 - y / l->height, more);
}

/* The lines above the panels. */
static char *caption(const struct picture *p, int line)
{
    const struct layer *layer = p->layer;
    const struct inputs *in = p->inputs;
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
        if (!layer->self || layer_has_cache(layer))
            fprintf(out, ", m = %zu", p->m);
        fprintf(out, ", mask = %s", masks);
    } else {
        if (in->batch > 1)
            fprintf(out, "sequence %zu (of %zu), ", p->sequence, in->batch);
        if ((layer->mask & MASK_PADDING) && !layer_has_cache(layer))
            fprintf(out, "%zu keys of %zu, ", inputs_keys(in, p->sequence), in->m);
        fprintf(out, "%s kernel", p->isa);
        if (p->block > 1)
            fprintf(out, "; each pixel is the largest of %zu × %zu weights", p->block, p->block);
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

/* set xtics or ytics: labels or numbers, or only marks on panels inside the grid */
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

static void put_panel(FILE *out, const struct picture *p, const struct layout *l, const char *pixels, size_t i)
{
    const struct layer *layer = p->layer;
    const struct inputs *in = p->inputs;
    const size_t head = p->first_head + i, wide = p->columns * l->repeat, high = p->rows * l->repeat;
    const double step = (double)p->block / (double)l->repeat; /* positions in a pixel of the image */
    put_margins(out, l, l->left + (double)(i % l->across) * l->step_x, l->top + (double)(i / l->across) * l->step_y,
                l->panel_w, l->panel_h);
    fprintf(out, "set title 'head %zu", head);
    if (layer->h_kv != layer->h)
        fprintf(out, " (keys %lld)", (long long)head * layer->h_kv / layer->h);
    fputs("' offset 0,-0.7\n", out);
    put_tics(out, 'x', &p->keys, p->m, l->panel_w, l->font_x, i + l->across >= p->heads);
    put_tics(out, 'y', &p->queries, in->n, l->panel_h, l->font_y, i % l->across == 0);
    fprintf(out, "set xrange [-0.5:%zu.5]\nset yrange [%zu.5:-0.5]\nplot ", p->columns * p->block - 1,
            p->rows * p->block - 1);
    gnuplot_quote(out, pixels);
    fprintf(out, " binary skip=%zu array=(%zu,%zu) format='%%uchar' dx=%.9g dy=%.9g origin=(%.9g,%.9g) with rgbimage "
            "title 'head %zu'\n", 3 * i * wide * high, wide, high, step, step, step / 2 - 0.5, step / 2 - 0.5, head);
}

/* Numbers beside the bar, from its top, where they do not overlap: the largest weight, then round numbers */
static void put_bar_tics(FILE *out, const struct picture *p)
{
    const char *min = p->scale == LOG ? "≤ " : "";
    double last = 1, decade = pow(10, ceil(log10((double)p->top)));
    fprintf(out, "set y2tics ('%.3g' 1, '%s%.3g' 0", p->top, min,
            p->scale == LOG ? p->top * pow(10, -DECADES) : 0);
    if (p->scale == LINEAR) {
        static const double steps[] = {0.5, 0.2, 0.1, 0.05};
        size_t i = 0;
        while (i < 3 && p->top / (decade * steps[i]) < 3)
            i++;
        for (double at = decade * steps[i]; p->top - at > 0.06 * p->top; at += decade * steps[i])
            fprintf(out, ", '%.3g' %.6f", at, place_of(p, at));
    }
    for (; p->scale != LINEAR && place_of(p, decade) > 0.07; decade /= 10)
        for (int i = 0; i < 3; i++) {
            const double at = decade * (i == 0 ? 1 : i == 1 ? 0.5 : 0.2), place = place_of(p, at);
            if (at < p->top && last - place > 0.07 && place > 0.08) {
                fprintf(out, ", '%.3g' %.6f", at, place);
                last = place;
            }
        }
    fputs(")\n", out);
}

/* Explains a colour that is not in the bar. */
static void put_swatch(FILE *out, const struct layout *l, double y, struct colour colour, const char *text)
{
    fprintf(out, "set object rectangle from screen %.6f, screen %.6f to screen %.6f, screen %.6f fillstyle solid 1 "
            "border lc '#9a9aa2' fillcolor '#%02x%02x%02x'\n", l->bar_left / l->width, 1 - (y + 12) / l->height,
            (l->bar_left + l->bar_width) / l->width, 1 - y / l->height, colour.red, colour.green, colour.blue);
    put_label(out, l, l->bar_left + l->bar_width + 8, y + 6, "left font ',11'", text);
}

static void put_bar(FILE *out, const struct picture *p, const struct layout *l, const char *pixels)
{
    static const char *const names[SCALES] = {"weight", "weight (square-root scale)", "weight (logarithmic scale)"};
    double y = l->top + l->bar_height + 14;
    put_margins(out, l, l->bar_left, l->top, l->bar_width, l->bar_height);
    fputs("unset title\nunset xtics\nunset ytics\nset xrange [0:1]\nset yrange [0:1]\nset y2range [0:1]\n", out);
    put_bar_tics(out, p);
    put_label(out, l, l->bar_left + l->bar_width + 76, l->top + l->bar_height / 2, "center rotate by 90 font ',11'",
              names[p->scale]);
    if (p->any_hidden) {
        put_swatch(out, l, y, hidden_colour, "hidden by the mask");
        y += 20;
    }
    if (p->any_nonfinite)
        put_swatch(out, l, y, nonfinite_colour, "not a finite number");
    fputs("plot ", out);
    gnuplot_quote(out, pixels);
    fprintf(out, " binary skip=%zu array=(2,%d) format='%%uchar' dx=0.5 dy=%.9g origin=(0.25,%.9g) with rgbimage "
            "title 'colour bar'\n", 3 * p->heads * p->rows * p->columns * l->repeat * l->repeat, BAR_STEPS,
            1.0 / BAR_STEPS, 0.5 / BAR_STEPS);
}

static bool write_script(const struct picture *p, const struct layout *l, const char *path, const char *pixels,
                         const char *picture, struct diag *diag)
{
    static const char *const fonts[] = {"left font ',17'", "left font ',12' textcolor '#44444c'",
                                        "left font ',12' textcolor '#44444c'"};
    FILE *out = fopen(path, "wbe");
    bool good = out != NULL;
    if (good) {
        fprintf(out, "set encoding utf8\nset terminal svg size %.0f,%.0f dynamic noenhanced font 'sans-serif,12' "
                "background '#ffffff' name '%s'\nset output ", l->width, l->height, p->layer->name);
        gnuplot_quote(out, picture);
        fputs("\nset multiplot\nunset key\nset border lc '#9a9aa2' lw 0.6\n"
              "set tics out nomirror scale 0.4 textcolor '#1b1b20'\n", out);
    }
    for (int line = 0; good && line < 3; line++) {
        char *text = caption(p, line);
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
    for (size_t i = 0; good && i < p->heads; i++) {
        put_panel(out, p, l, pixels, i);
        fputs(i == 0 ? "unset label\n" : "", out);
    }
    if (good) {
        put_bar(out, p, l, pixels);
        fputs("unset multiplot\nset output\n", out);
    }
    good = good && !ferror(out);
    if (out != NULL && fclose(out) != 0)
        good = false;
    return good || diag_environment(diag, path, "cannot be written");
}

/* gnuplot does not report a full disk, so the end of the file must be there. */
static bool keep_picture(const char *from, const char *to, struct diag *diag)
{
    static const char last[] = "</svg>";
    size_t size = 0;
    char *text = file_read(from, WHOLE_OURS, &size, diag);
    bool good = text != NULL;
    if (good) {
        while (size > 0 && strchr(" \n", text[size - 1]) != NULL)
            size--;
        text[size] = '\n'; /* in place of a blank or of the NUL after the text */
        good = size >= strlen(last) && memcmp(text + size - strlen(last), last, strlen(last)) == 0;
        if (!good)
            diag_environment(diag, from, "gnuplot did not write it to its end; is the disk full?");
    }
    const struct piece piece = {text, size + 1};
    good = good && file_replace(to, &piece, 1, diag);
    free(text);
    return good;
}

bool picture_draw(const struct picture *p, const char *path, struct diag *diag)
{
    const struct layout layout = lay_out(p);
    sigset_t before;
    signals_hold(&before);
    char *folder = folder_make(diag), *pixels = NULL, *script = NULL, *picture = NULL;
    bool good = folder != NULL;
    if (good) {
        pixels = path_join(folder, "pixels.rgb");
        script = path_join(folder, "heatmap.gnuplot");
        picture = path_join(folder, "heatmap.svg");
    }
    good = good && write_pixels(p, &layout, pixels, diag) &&
           write_script(p, &layout, script, pixels, picture, diag) && gnuplot_run(script, diag) &&
           keep_picture(picture, path, diag);
    if (folder != NULL)
        folder_remove(folder);
    free(folder);
    free(pixels);
    free(script);
    free(picture);
    signals_release(&before);
    return good;
}
