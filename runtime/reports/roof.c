/* SPDX-License-Identifier: MIT */
/* Both axes of the picture are logarithmic: operations for each byte, and operations a second. */
#include "roof.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "record.h"
#include "timing/peak.h"
#include "timing/timing.h"

#define MOST_READ ((size_t)256 << 20) /* bytes of a buffer beyond all caches */

static const char *const level_names[ROOF_LEVELS] = {"L1", "L2", "L3", "memory"};

/* Bytes of the first processor's data cache of a level, 1 ... 3, as Linux tells; else as the C library does, which for
 * some processors adds up caches of other cores; 0 where neither knows */
static double cache_size(int level)
{
#ifdef _SC_LEVEL1_DCACHE_SIZE /* not in musl */
    static const int names[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
    const long told = sysconf(names[level - 1]);
#else
    const long told = 0;
#endif
    for (int index = 0; index < 8; index++) {
        static const char *const files[] = {"level", "type", "size"};
        char words[3][32] = {"", "", ""};
        for (int i = 0; i < 3; i++) {
            char path[96];
            snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, files[i]);
            FILE *const file = fopen(path, "r");
            if (file != NULL && fgets(words[i], sizeof words[i], file) == NULL)
                words[i][0] = '\0';
            if (file != NULL)
                fclose(file);
        }
        char *unit;
        const double size = strtod(words[2], &unit);
        if (atoi(words[0]) == level && words[1][0] != 'I')
            return *unit == 'M' ? size * 1048576 : *unit == 'K' ? size * 1024 : size;
    }
    return told > 0 ? (double)told : 0;
}

void roof_measure(struct roof *r)
{
    double largest = 0;
    for (int level = ROOF_L1; level < ROOF_MEMORY; level++) {
        r->size[level] = cache_size(level + 1);
        largest = fmax(largest, r->size[level]);
    }
    r->size[ROOF_MEMORY] = fmin(fmax(4 * largest, 64 << 20), (double)MOST_READ);
    HEAP float *const buffer = large_pages((size_t)r->size[ROOF_MEMORY]);
    memset(buffer, 1, (size_t)r->size[ROOF_MEMORY]); /* else all pages are one page of zeros */
    for (int level = ROOF_L1; level < ROOF_LEVELS; level++) {
        const double part = level < ROOF_MEMORY ? r->size[level] / 2 : r->size[level];
        const size_t bytes = (size_t)fmin(part, r->size[ROOF_MEMORY]) / 4096 * 4096;
        r->rate[level] = fmax(r->rate[level], bytes > 0 ? read_measure(r->isa, buffer, bytes) : 0);
    }
}

enum roof_level roof_level(const struct roof *r)
{
    enum roof_level level = ROOF_L1;
    while (level < ROOF_MEMORY && (r->size[level] == 0 || r->accessed > r->size[level]))
        level++;
    return level;
}

double roof_least(const struct roof *r, const struct roof_point *point, bool *by_memory)
{
    const double computing = point->flops / (1e3 * r->peak), moving = point->bytes / (1e3 * r->rate[roof_level(r)]);
    *by_memory = moving > computing;
    return point->bytes > 0 ? fmax(computing, moving) : NAN;
}

static void print_json(const struct roof *r, const char *layer, const struct roof_point *point, FILE *out)
{
    bool by_memory;
    const double least = roof_least(r, point, &by_memory);
    OWNED(record_free) struct record record = {0};
    record_text(&record, "name", layer);
    record_text(&record, "isa", r->isa);
    record_text(&record, "step", point->step);
    record_number(&record, "n", "%.0f", (double)r->n);
    if (r->past >= 0)
        record_number(&record, "past", "%.0f", (double)r->past);
    record_number(&record, "us", "%.4g", point->us);
    record_number(&record, "flops", "%.6g", point->flops);
    record_number(&record, "bytes", "%.6g", point->bytes);
    record_number(&record, "peak_gflops", "%.5g", r->peak);
    record_text(&record, "level", level_names[roof_level(r)]);
    record_number(&record, "gbytes", "%.4g", r->rate[roof_level(r)]);
    if (!isnan(least)) {
        record_number(&record, "roof_us", "%.4g", least);
        record_text(&record, "held_by", by_memory ? "memory" : "peak");
        record_number(&record, "share", "%.4g", least / point->us);
    }
    record_print(&record, out);
}

void roof_print(const struct roof *r, const char *layer, bool json, FILE *out)
{
    const enum roof_level from = roof_level(r);
    if (!json) {
        fprintf(out, "%s %s, n %zu", layer, r->isa, r->n);
        if (r->past >= 0)
            fprintf(out, ", past %lld", (long long)r->past);
        fprintf(out, ": %.1f GFLOP/s at most; reads", r->peak);
        for (int level = ROOF_L1; level < ROOF_LEVELS; level++)
            if (r->rate[level] > 0)
                fprintf(out, " %.3g GB/s from %s%s", r->rate[level], level_names[level],
                        level < ROOF_MEMORY ? "," : "");
        fprintf(out, "\na call accesses %.4g MB, which %s holds\n%-12s %11s %10s %10s %10s %11s %-6s %7s\n",
                r->accessed / 1e6, level_names[from], "step", "us", "MFLOP", "MB", "FLOP/byte", "roof us", "by",
                "share");
    }
    for (const struct roof_point *p = r->points; p < r->points + r->count; p++) {
        bool by_memory;
        const double least = roof_least(r, p, &by_memory);
        if (json) {
            print_json(r, layer, p, out);
            continue;
        }
        fprintf(out, "%-12s %11.2f", p->step, p->us);
        if (!isnan(least))
            fprintf(out, " %10.4g %10.4g %10.4g %11.2f %-6s %6.1f%%", p->flops / 1e6, p->bytes / 1e6,
                    p->flops / p->bytes, least, by_memory ? level_names[from] : "peak", 100 * least / p->us);
        fputc('\n', out);
    }
}

/* ---- the picture ----------------------------------------------------------------------------------------------- */

#define LEFT 70.0
#define TOP 50.0
#define WIDTH 640.0
#define HEIGHT 400.0

/* Ends of both axes, as powers of two */
struct axes {
    double x0, x1, y0, y1;
};

static double x_of(const struct axes *a, double intensity)
{
    return LEFT + WIDTH * (log2(intensity) - a->x0) / (a->x1 - a->x0);
}

static double y_of(const struct axes *a, double gflops)
{
    return TOP + HEIGHT * (a->y1 - log2(gflops)) / (a->y1 - a->y0);
}

static bool is_drawn(const struct roof_point *p) { return p->bytes > 0 && p->flops > 0 && p->us > 0; }

static struct axes axes_of(const struct roof *roofs, size_t count)
{
    struct axes a = {-2, 4, 0, ceil(log2(roofs->peak) + 0.3)};
    for (size_t i = 0; i < count; i++)
        for (const struct roof_point *p = roofs[i].points; p < roofs[i].points + roofs[i].count; p++) {
            if (!is_drawn(p))
                continue;
            const double x = log2(p->flops / p->bytes), y = log2(p->flops / (1e3 * p->us));
            a = (struct axes){fmin(a.x0, floor(x - 1)), fmax(a.x1, ceil(x + 1)), fmin(a.y0, floor(y - 1)),
                              fmax(a.y1, ceil(y + 0.5))};
        }
    a.y0 = fmin(a.y0, a.y1 - 4);
    return a;
}

/* A power of two as a text: 1/4, 8, 1024 */
static void put_power(FILE *out, double exponent)
{
    if (exponent < 0)
        fprintf(out, "1/%.0f", exp2(-exponent));
    else
        fprintf(out, "%.0f", exp2(exponent));
}

static void put_grid(FILE *out, const struct axes *a)
{
    for (double e = a->x0; e <= a->x1; e++) {
        const double x = x_of(a, exp2(e));
        fprintf(out, "<path d=\"M%.1f %.1fV%.1f\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", x, TOP,
                TOP + HEIGHT, x, TOP + HEIGHT + 16);
        put_power(out, e);
        fputs("</text>\n", out);
    }
    for (double e = a->y0; e <= a->y1; e++) {
        const double y = y_of(a, exp2(e));
        fprintf(out, "<path d=\"M%.1f %.1fH%.1f\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", LEFT, y,
                LEFT + WIDTH, LEFT - 6, y + 4);
        put_power(out, e);
        fputs("</text>\n", out);
    }
}

/* The line of each level: its rate times operations for each byte, up to the peak */
static void put_roofs(FILE *out, const struct axes *a, const struct roof *r)
{
    for (int level = ROOF_L1; level < ROOF_LEVELS; level++) {
        if (r->rate[level] <= 0)
            continue;
        const double ridge = r->peak / r->rate[level];
        const double from = fmax(exp2(a->x0), exp2(a->y0) / r->rate[level]), to = fmin(fmax(ridge, from), exp2(a->x1));
        const bool own = level == (int)roof_level(r);
        fprintf(out, "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1f", own ? "own" : "roof", x_of(a, from),
                y_of(a, fmin(r->peak, from * r->rate[level])), x_of(a, to),
                y_of(a, fmin(r->peak, to * r->rate[level])));
        fprintf(out, "H%.1f\"/>\n<text x=\"%.1f\" y=\"%.1f\">%s, %.3g GB/s</text>\n", LEFT + WIDTH, x_of(a, from) + 4,
                y_of(a, from * r->rate[level]) - 5, level_names[level], r->rate[level]);
    }
}

static void put_points(FILE *out, const struct axes *a, const struct roof *roofs, size_t count)
{
    static const char *const colours[] = {"#c8553d", "#2d6a8e", "#4f8a3c", "#7b4b94", "#b8860b", "#444444"};
    for (size_t i = 0; i < count; i++) {
        const char *const colour = colours[i % (sizeof colours / sizeof *colours)];
        for (const struct roof_point *p = roofs[i].points; p < roofs[i].points + roofs[i].count; p++) {
            if (!is_drawn(p))
                continue;
            const double x = x_of(a, p->flops / p->bytes), y = y_of(a, p->flops / (1e3 * p->us));
            fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"%s\"/><text x=\"%.1f\" y=\"%.1f\" "
                    "fill=\"%s\">%s", x, y, p == roofs[i].points ? 5 : 3, colour, x + 7, y + 4, colour, p->step);
            if (count > 1)
                fprintf(out, ", n %zu", roofs[i].n);
            if (count > 1 && roofs[i].past >= 0)
                fprintf(out, ", past %lld", (long long)roofs[i].past);
            fputs("</text>\n", out);
        }
    }
}

bool roof_draw(const struct roof *roofs, size_t count, const char *layer, const char *path, struct diag *diag)
{
    struct text text;
    FILE *const out = text_begin(&text);
    const struct axes a = axes_of(roofs, count);
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" "
            "font-size=\"11\" fill=\"#1b1b20\">\n<title>%s, %s</title>\n<style>path { fill: none; stroke: #e4e4e8 } "
            ".roof { stroke: #9a9aa2 } .own { stroke: #1b1b20; stroke-width: 2px }</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n", LEFT + WIDTH + 110, TOP + HEIGHT + 60, layer,
            roofs->isa);
    put_grid(out, &a);
    put_roofs(out, &a, roofs);
    put_points(out, &a, roofs, count);
    fprintf(out, "<text x=\"%.0f\" y=\"22\" font-size=\"14\">%s, %s, one core: at most %.1f GFLOP/s; thick: from where "
            "a call finds its numbers</text>\n<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">operations for each "
            "byte (FLOP/byte)</text>\n<text transform=\"translate(18 %.0f) rotate(-90)\" text-anchor=\"middle\">GFLOP/s"
            "</text>\n</svg>\n", LEFT, layer, roofs->isa, roofs->peak, LEFT + WIDTH / 2, TOP + HEIGHT + 40,
            TOP + HEIGHT / 2);
    return text_write(&text, path, diag);
}
