/* SPDX-License-Identifier: MIT */
#include "plan/tiles.h"

#include <string.h>

#include "base/arith.h"

/* `total` rows in near-equal parts: some of `high` rows, `lower` of one row less. */
struct parts {
    int64_t high, count, lower;
};

static struct parts parts_of(int64_t total, int64_t max_rows)
{
    if (total == 0)
        return (struct parts){0, 0, 0};
    const int64_t tiles = ceil_div(total, max_rows), high = ceil_div(total, tiles), lower = high * tiles - total;
    return (struct parts){high, tiles - lower, lower};
}

/* Inserts a height in order unless it is there. */
static void add_height(struct tile_heights *heights, int64_t rows, int64_t count)
{
    int64_t i = 0;
    while (i < heights->count && heights->at[i].rows > rows)
        i++;
    if (heights->count == TILE_HEIGHTS || (i < heights->count && heights->at[i].rows == rows))
        return;
    memmove(&heights->at[i + 1], &heights->at[i], (size_t)(heights->count - i) * sizeof heights->at[0]);
    heights->at[i] = (struct tile_height){.rows = rows, .count = count};
    heights->count++;
}

static void add_parts(struct tile_heights *heights, const struct parts *parts)
{
    if (parts->count > 0)
        add_height(heights, parts->high, parts->count);
    if (parts->lower > 0)
        add_height(heights, parts->high - 1, parts->lower);
}

/* The number of rows left at which a walk over `total` rows stops taking tiles of that height, so that these parts
 * result; 0: none. */
static int64_t stop_of(const struct parts *parts, int64_t total, int64_t rows)
{
    const int64_t left = rows > parts->high ? total : rows == parts->high ? (rows - 1) * parts->lower : 0;
    return left >= rows ? left : 0;
}

void tiles_for_runs(struct tile_heights *heights, int64_t total, int64_t rest, int64_t max_rows, int64_t step)
{
    const struct parts of_total = parts_of(total, max_rows), of_rest = parts_of(rest, max_rows);
    memset(heights, 0, sizeof *heights);
    add_parts(heights, &of_total);
    for (int64_t rows = heights->at[heights->count - 1].rows; rows > 1; add_height(heights, rows, 0))
        rows = ceil_div(rows, step);
    add_parts(heights, &of_rest);
    for (struct tile_height *h = heights->at; h < heights->at + heights->count; h++) {
        const int64_t stops[] = {stop_of(&of_total, total, h->rows), stop_of(&of_rest, rest, h->rows)};
        h->count = 0;
        h->stop[0] = stops[0] > 0 ? stops[0] : stops[1];
        h->stop[1] = stops[0] > 0 && stops[1] != stops[0] ? stops[1] : 0;
    }
}

void tiles_for_one(struct tile_heights *heights, int64_t total, int64_t max_rows)
{
    const struct parts parts = parts_of(total, max_rows);
    memset(heights, 0, sizeof *heights);
    add_parts(heights, &parts);
}

void tiles_add_registers(struct tile_heights *heights, int64_t rows)
{
    int64_t high = 0; /* those of vectors that are never taken */
    while (high < heights->count && heights->at[high].rows >= rows)
        high++;
    heights->count = min(TILE_HEIGHTS - 2, heights->count - high);
    memmove(heights->at + 2, heights->at + high, (size_t)heights->count * sizeof heights->at[0]);
    heights->count += 2;
    for (int64_t i = 0; i < 2; i++)
        heights->at[i] = (struct tile_height){.rows = (2 - i) * rows, .unroll = 1, .registers = 2 - i};
}

int64_t tiles_taken(const struct tile_height *height, int64_t *left)
{
    int64_t taken = 0;
    for (; *left >= height->rows && *left != height->stop[0] && *left != height->stop[1]; *left -= height->rows)
        taken++;
    return taken;
}
