/* SPDX-License-Identifier: MIT */
#include "vary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "inputs/inputs.h"
#include "base/memory.h"

/* ---- values ---------------------------------------------------------------------------------------------------- */

/* Duplicate values are found at the end. */
static bool add_value(struct axis *axis, const char *text, size_t length, const char *place, struct diag *diag)
{
    if (axis->count > MAX_POINTS)
        return diag_error(diag, place, "more than %d values; give fewer", MAX_POINTS);
    axis->value = memory_grow(axis->value, axis->count + 1, sizeof *axis->value);
    axis->value[axis->count++] = text_join("%.*s", (int)length, text);
    return true;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static bool all_differ(const struct axis *axis, const char *place, struct diag *diag)
{
    const size_t errors = diag->errors;
    HEAP const char **sorted = memory_get(axis->count, sizeof *sorted);
    memcpy(sorted, axis->value, axis->count * sizeof *sorted);
    qsort(sorted, axis->count, sizeof *sorted, by_text);
    for (size_t i = 1; i < axis->count && diag->errors == errors; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            diag_error(diag, place, "the value %s occurs twice; keep one", sorted[i]);
    return diag->errors == errors;
}

/* first:last:step */
static bool add_range(struct axis *axis, const char *text, size_t length, const char *place, struct diag *diag)
{
    const char *end = text + length, *second = memchr(text, ':', length);
    const char *third = memchr(second + 1, ':', (size_t)(end - second - 1));
    uint64_t first, last, step;
    if (third == NULL || !number_whole(text, (size_t)(second - text), 0, INT64_MAX, &first) ||
        !number_whole(second + 1, (size_t)(third - second - 1), 0, INT64_MAX, &last) ||
        !number_whole(third + 1, (size_t)(end - third - 1), 0, INT64_MAX, &step))
        return diag_error(diag, place, "'%.*s' is not a range; write first:last:step in whole numbers, such as "
                          "256:1024:64", (int)length, text);
    if (step == 0 || first > last)
        return diag_error(diag, place, "'%.*s' has no end; write a step above 0 and a last value that is not below the "
                          "first", (int)length, text);
    if ((last - first) / step >= MAX_POINTS)
        return diag_error(diag, place, "'%.*s' has more than %d values; take a larger step", (int)length, text,
                          MAX_POINTS);
    for (uint64_t i = 0; i <= (last - first) / step; i++) {
        char number[24];
        snprintf(number, sizeof number, "%" PRIu64, first + i * step);
        if (!add_value(axis, number, strlen(number), place, diag))
            return false;
    }
    return true;
}

static bool parse_values(struct axis *axis, const char *text, const char *place, struct diag *diag)
{
    for (bool more = true; more;) {
        const size_t length = strcspn(text, ",");
        if (length == 0)
            return diag_error(diag, place, "a value is missing; write key=value,value,…");
        if (!(memchr(text, ':', length) != NULL ? add_range : add_value)(axis, text, length, place, diag))
            return false;
        more = text[length] == ',';
        text += length + more;
    }
    return all_differ(axis, place, diag);
}

/* ---- axes ------------------------------------------------------------------------------------------------------ */

static bool parse_axis(struct axes *axes, const char *text, struct diag *diag)
{
    struct axis *axis = &axes->axis[axes->count];
    const char *equals = strchr(text, '=');
    char place[200];
    snprintf(place, sizeof place, "--vary %s", text);
    if (equals == NULL || equals == text)
        return diag_error(diag, place, "no key and values; write key=value,value,… or key=first:last:step");
    axis->key = text_join("%.*s", (int)(equals - text), text);
    if (axes_find(axes, axis->key) != NULL)
        diag_error(diag, place, "%s is varied twice; put all of its values into one --vary", axis->key);
    axes->count++;
    return parse_values(axis, equals + 1, place, diag);
}

bool axes_parse(struct axes *axes, const char *const *texts, size_t count, struct diag *diag)
{
    const size_t errors = diag->errors;
    *axes = (struct axes){.axis = memory_get(count, sizeof *axes->axis), .points = 1};
    for (size_t i = 0; i < count; i++)
        if (parse_axis(axes, texts[i], diag) && axes->points <= MAX_POINTS)
            axes->points *= axes->axis[axes->count - 1].count; /* both at most MAX_POINTS + 1: no overflow */
    if (axes->points > MAX_POINTS)
        diag_error(diag, "--vary", "that is more than %d points; give fewer values", MAX_POINTS);
    return diag->errors == errors;
}

const char *axes_value(const struct axes *axes, size_t point, size_t axis)
{
    for (size_t i = axes->count - 1; i > axis; i--)
        point /= axes->axis[i].count;
    return axes->axis[axis].value[point % axes->axis[axis].count];
}

const struct axis *axes_find(const struct axes *axes, const char *key)
{
    for (size_t i = 0; i < axes->count; i++)
        if (strcmp(axes->axis[i].key, key) == 0)
            return &axes->axis[i];
    return NULL;
}

void axes_free(struct axes *axes)
{
    for (size_t i = 0; axes->axis != NULL && i < axes->count; i++) {
        for (size_t v = 0; v < axes->axis[i].count; v++)
            free(axes->axis[i].value[v]);
        free(axes->axis[i].value);
        free(axes->axis[i].key);
    }
    free(axes->axis);
    *axes = (struct axes){0};
}

/* ---- shards ---------------------------------------------------------------------------------------------------- */

bool shard_parse(const char *text, size_t *shard, size_t *shards, struct diag *diag)
{
    const char *slash = strchr(text, '/');
    uint64_t i, n;
    if (slash == NULL || !number_whole(slash + 1, strlen(slash + 1), 1, MAX_POINTS, &n) ||
        !number_whole(text, (size_t)(slash - text), 1, n, &i))
        return diag_error(diag, "command line", "--shard cannot be \"%s\"; write I/N, for example 1/4 to 4/4", text);
    *shard = (size_t)i;
    *shards = (size_t)n;
    return true;
}

size_t *shard_deal(size_t points, size_t shards)
{
    struct random random = {.state = 1};
    HEAP size_t *order = memory_get(points, sizeof *order);
    size_t *shard = memory_get(points, sizeof *shard);
    for (size_t i = 0; i < points; i++) { /* Fisher and Yates's shuffle */
        const size_t at = (size_t)(random_bits(&random) % (i + 1));
        order[i] = order[at];
        order[at] = i;
    }
    for (size_t i = 0; i < points; i++)
        shard[order[i]] = i % shards + 1;
    return shard;
}
