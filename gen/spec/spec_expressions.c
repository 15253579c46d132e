/* SPDX-License-Identifier: MIT */
/* The keys score, visible and table.NAME: tables are read, then the expressions that name them. */
#include "spec/spec.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "expression/expression.h"
#include "spec/visible.h"

#define IN_TILES 32 /* operations: longer scores would spill what a register tile holds, and are a pass of their own */
#define MAX_SIZE INT64_C(2147483647)

/* False, and an error, where the name is none, or another's. */
static bool check_table_name(struct spec *spec, const struct entry *entry, const char *name)
{
    const char *fault = expression_name_fault(name);
    for (enum layer_tensor t = 0; t < TENSOR_COUNT && fault == NULL; t++)
        if (strcmp(layer_tensor_name(t), name) == 0)
            fault = "is another tensor's name";
    if (fault != NULL)
        diag_error(spec->diag, entry->place, "the name of %s %s; write for example table.bias", entry->key, fault);
    return fault == NULL;
}

/* "2, 8" */
static bool read_extents(struct spec *spec, const struct entry *entry, struct layer_table *table)
{
    int64_t count = 1;
    for (const char *at = entry->value; at != NULL; table->axes++) {
        const char *comma = strchr(at, ',');
        size_t length = comma != NULL ? (size_t)(comma - at) : strlen(at);
        uint64_t extent = 0;
        while (length > 0 && (*at == ' ' || *at == '\t'))
            at++, length--;
        while (length > 0 && (at[length - 1] == ' ' || at[length - 1] == '\t'))
            length--;
        if (table->axes == EXPRESSION_AXES || !number_whole(at, length, 1, MAX_SIZE, &extent))
            return diag_error(spec->diag, entry->place, "%s = '%.60s' is not a list of extents; write one to %d whole "
                              "numbers from 1 to 2147483647, as in %s = 2, 8", entry->key, entry->value,
                              EXPRESSION_AXES, entry->key);
        table->extent[table->axes] = (int64_t)extent;
        count = count > MAX_SIZE ? count : count * (int64_t)extent;
        at = comma != NULL ? comma + 1 : NULL;
    }
    if (count > MAX_SIZE)
        diag_error(spec->diag, entry->place, "%s has more than 2147483647 numbers; write smaller extents", entry->key);
    return count <= MAX_SIZE;
}

static bool read_table(struct spec *spec, const struct entry *entry, struct layer *layer)
{
    struct layer_table *table = &layer->tables[layer->table_count];
    const char *name = entry->key + strlen("table.");
    if (entry->value[0] == '\0') /* reported with its line */
        return false;
    if (!check_table_name(spec, entry, name) || !read_extents(spec, entry, table))
        return false;
    table->name = name;
    layer->table_count++;
    return true;
}

/* False, and an error, where integers leave 64 bits. */
static bool check_integers(struct spec *spec, const struct layer *layer, enum key key, const struct expression *e)
{
    const struct expression_box box = visible_box(layer);
    HEAP struct expression_range *ranges = memory_get((size_t)e->count, sizeof *ranges);
    char place[400];
    int node = 0;
    const bool good = expression_ranges(e, &box, ranges, &node);
    if (!good) {
        snprintf(place, sizeof place, "%s:%zu", place_of(spec, key), e->nodes[node].column);
        diag_error(spec->diag, place, "this integer may exceed 64 bits; write a factor as a float, as in 1.0 * p");
    }
    return good;
}

static void read_one(struct spec *spec, const struct layer *layer, enum key key, struct expression **plain,
                     struct expression **kernel)
{
    struct expression_table tables[LAYER_TABLES];
    const struct expression_box box = visible_box(layer);
    if (!is_given(spec, key) || spec->bad[key])
        return;
    for (size_t i = 0; i < layer->table_count; i++) {
        tables[i] = (struct expression_table){.name = layer->tables[i].name, .axes = layer->tables[i].axes};
        memcpy(tables[i].extent, layer->tables[i].extent, sizeof tables[i].extent);
    }
    const struct expression_scope scope = {
        .score = key == KEY_SCORE, .tables = tables, .table_count = (int)layer->table_count,
        .place = spec->given[key].place, .column = spec->given[key].column};
    *plain = expression_read(spec->given[key].value, &scope, spec->diag);
    if (*plain == NULL || !check_integers(spec, layer, key, *plain))
        return;
    *kernel = expression_for_kernel(*plain, &box);
    if (*kernel == NULL)
        diag_error(spec->diag, spec->given[key].place, "%s has constants that leave 64 bits; write one of them as a "
                   "float", key_rows[key].name);
}

/* Whether the key is not given, or its expression has been read. */
static bool is_whole(const struct spec *spec, enum key key, const struct expression *read)
{
    return !is_given(spec, key) || read != NULL;
}

/* `named`: bit by bit the tables that the expressions name. */
static void check_tables_read(struct spec *spec, const struct layer *layer, unsigned named)
{
    for (size_t i = 0; i < layer->table_count; i++) {
        char form[8 * EXPRESSION_AXES + 1] = "";
        for (int axis = 0; axis < layer->tables[i].axes; axis++)
            strcat(form, "[index]");
        if ((named >> i & 1u) == 0)
            diag_error(spec->diag, spec->tables[i].place, "%s is given, but no expression reads it; leave it out, or "
                       "read %s%s in score or visible", spec->tables[i].key, layer->tables[i].name, form);
    }
}

void spec_expressions(struct spec *spec, struct layer *layer)
{
    bool good = true;
    for (size_t i = 0; i < spec->table_count; i++)
        good = read_table(spec, &spec->tables[i], layer) && good;
    if (!good) /* their names would be reported as unknown */
        return;
    read_one(spec, layer, KEY_SCORE, &layer->score, &layer->score_kernel);
    read_one(spec, layer, KEY_VISIBLE, &layer->visible, &layer->visible_kernel);
    if (is_whole(spec, KEY_SCORE, layer->score) && is_whole(spec, KEY_VISIBLE, layer->visible))
        check_tables_read(spec, layer, (layer->score != NULL ? layer->score->named : 0) |
                                           (layer->visible != NULL ? layer->visible->named : 0));
    const struct expression *score = layer->score_kernel;
    const struct expression_box box = visible_box(layer);
    const bool apart = score != NULL && (expression_hides(score, &box) || expression_pair_operations(score) > IN_TILES);
    layer->number[SCORE_EXPRESSION] = score != NULL && !apart;
    layer->number[SCORE_HIDING] = apart;
    layer->number[SCORE_VISIBLE] = layer->visible_kernel != NULL;
}
