/* SPDX-License-Identifier: MIT */
/* See model.h. */
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/name.h"
#include "emit/emit.h"
#include "spec/layer.h"

#define FORMAT "2"

/* KEY = VALUE WORDS, or KEY = "VALUE" WORDS */
struct line {
    char *key, *value, *words; /* words: "" where there are none */
    bool quoted;
    size_t number; /* in the file */
};

/* "[encoder layer 0]" and the lines behind it; the first section has no title. */
struct section {
    char *title;
    size_t number, first, count; /* of its line; its lines among all */
};

struct model {
    char *path;
    struct line *lines;
    size_t line_count;
    struct section *sections;
    size_t section_count;
    char **specs;
    size_t spec_count;
};

/* ---- texts ---- */

static char *copy_of(const char *text, size_t length)
{
    char *copy = malloc(length + 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

static bool wrong(const struct model *model, size_t number, struct diag *diag, const char *what)
{
    char place[4200];
    snprintf(place, sizeof place, "%.4096s:%zu", model->path, number);
    return diag_error(diag, place, "%s", what);
}

static bool no_memory(const struct model *model, struct diag *diag)
{
    diag_environment(diag, model->path, "out of memory");
    return false;
}

/* ---- reading ---- */

static const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at;
}

/* First occurrence of a byte; NULL: none */
static const char *find(const char *at, const char *end, char c)
{
    while (at < end && *at != c)
        at++;
    return at < end ? at : NULL;
}

static const char *cut_blanks(const char *begin, const char *end)
{
    while (end > begin && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        end--;
    return end;
}

static bool add_section(struct model *model, const char *title, size_t length, size_t number, struct diag *diag)
{
    struct section *sections = realloc(model->sections, (model->section_count + 1) * sizeof *sections);
    if (sections == NULL)
        return no_memory(model, diag);
    model->sections = sections;
    sections[model->section_count] = (struct section){copy_of(title, length), number, model->line_count, 0};
    return sections[model->section_count++].title != NULL || no_memory(model, diag);
}

/* What may stand in a C string as it is: printable ASCII but quotes, backslashes and what trigraphs begin with */
static bool is_plain(const char *at, const char *end)
{
    while (at < end && *at >= ' ' && *at < 127 && *at != '"' && *at != '\\' && *at != '?')
        at++;
    return at == end;
}

/* A name in quotes is plain: attngen import writes no other. */
static bool add_line(struct model *model, const char *at, const char *end, size_t number, struct diag *diag)
{
    const char *equals = find(at, end, '=');
    if (equals == NULL)
        return wrong(model, number, diag, "no '='; write key = value");
    struct line line = {.key = copy_of(at, (size_t)(cut_blanks(at, equals) - at)), .number = number};
    const char *value = skip_blanks(equals + 1, end), *behind;
    line.quoted = value < end && *value == '"';
    if (line.quoted) {
        value++;
        behind = find(value, end, '"');
        if (behind == NULL || !is_plain(value, behind)) {
            free(line.key);
            return wrong(model, number, diag, "a name in quotes has no end, or is not plain ASCII; write \"name\"");
        }
        line.value = copy_of(value, (size_t)(behind - value));
        behind++;
    } else {
        behind = find(value, end, '#');
        end = cut_blanks(value, behind != NULL ? behind : end);
        behind = end;
        line.value = copy_of(value, (size_t)(end - value));
    }
    behind = skip_blanks(behind, end);
    const char *comment = find(behind, end, '#');
    end = comment != NULL ? comment : end;
    line.words = copy_of(behind, (size_t)(cut_blanks(behind, end) - behind));
    struct line *lines = realloc(model->lines, (model->line_count + 1) * sizeof *lines);
    if (lines != NULL) {
        model->lines = lines;
        lines[model->line_count++] = line;
        model->sections[model->section_count - 1].count++;
    } else {
        free(line.key);
        free(line.value);
        free(line.words);
        return no_memory(model, diag);
    }
    return (line.key != NULL && line.value != NULL && line.words != NULL) || no_memory(model, diag);
}

static bool read_lines(struct model *model, const char *bytes, size_t length, struct diag *diag)
{
    const char *const end = bytes + length;
    size_t number = 0;
    if (!add_section(model, "", 0, 0, diag))
        return false;
    for (const char *next; bytes < end; bytes = next) {
        const char *newline = find(bytes, end, '\n');
        const char *last = cut_blanks(bytes, newline != NULL ? newline : end), *at = skip_blanks(bytes, last);
        next = newline != NULL ? newline + 1 : end;
        number++;
        if (at == last || *at == '#')
            continue;
        if (find(at, last, '\0') != NULL)
            return wrong(model, number, diag, "a byte of zero; NAME.layers is text");
        if (*at == '[' && last[-1] != ']')
            return wrong(model, number, diag, "a section's title has no ']'; write for example [encoder layer 0]");
        if (*at == '[' ? !add_section(model, at + 1, (size_t)(last - at) - 2, number, diag)
                       : !add_line(model, at, last, number, diag))
            return false;
    }
    return true;
}

/* ---- what is asked of it ---- */

static const struct section *section_of(const struct model *model, const char *title)
{
    for (size_t i = 0; i < model->section_count; i++)
        if (strcmp(model->sections[i].title, title) == 0)
            return &model->sections[i];
    return NULL;
}

static const struct line *line_of(const struct model *model, const struct section *section, const char *key)
{
    for (size_t i = 0; section != NULL && i < section->count; i++)
        if (strcmp(model->lines[section->first + i].key, key) == 0)
            return &model->lines[section->first + i];
    return NULL;
}

static const char *value_of(const struct model *model, const char *title, const char *key)
{
    const struct line *line = line_of(model, section_of(model, title), key);
    return line != NULL ? line->value : NULL;
}

/* The spec's path, beside NAME.layers, among those that are known. */
static bool add_spec(struct model *model, const struct section *section, struct diag *diag)
{
    const struct line *line = line_of(model, section, "spec");
    char *path = NULL;
    if (line == NULL || line->value[0] == '\0' || strchr(line->value, '/') != NULL)
        return wrong(model, section->number, diag, "the layer has no spec; write spec = FILE.layer, of this folder");
    const char *slash = strrchr(model->path, '/');
    const int folder = slash != NULL ? (int)(slash - model->path) + 1 : 0;
    if (asprintf(&path, "%.*s%s", folder, model->path, line->value) < 0)
        return no_memory(model, diag);
    for (size_t i = 0; i < model->spec_count; i++)
        if (strcmp(model->specs[i], path) == 0) {
            free(path);
            return true;
        }
    char **specs = realloc(model->specs, (model->spec_count + 1) * sizeof *specs);
    if (specs == NULL) {
        free(path);
        return no_memory(model, diag);
    }
    model->specs = specs;
    specs[model->spec_count++] = path;
    return true;
}

/* A head's name becomes a field of the call's arguments. */
static bool check_head(const struct model *model, const struct section *section, struct diag *diag)
{
    const char *const fault = strncmp(section->title, "head ", 5) == 0 ? layer_name_fault(section->title + 5) : NULL;
    char text[200];
    if (fault == NULL)
        return true;
    snprintf(text, sizeof text, "the head's name %s; write for example [head logits]", fault);
    return wrong(model, section->number, diag, text);
}

/* Sections and keys that occur twice would be left out. */
static bool check_sections(const struct model *model, struct diag *diag)
{
    for (size_t i = 0; i < model->section_count; i++) {
        const struct section *section = &model->sections[i];
        if (!check_head(model, section, diag))
            return false;
        const struct line *const lines = model->lines != NULL ? model->lines + section->first : NULL;
        for (size_t k = 0; lines != NULL && k < section->count && strcmp(section->title, "weights") != 0; k++) {
            const struct line *line = &lines[k];
            if (line_of(model, section, line->key) != line)
                return wrong(model, line->number, diag, "the key is in this section twice; write it once");
        }
        if (section_of(model, section->title) != section)
            return wrong(model, section->number, diag, "the section is there twice; write it once");
    }
    return true;
}

static bool is_kind(const struct model *model, struct diag *diag)
{
    const char *format = value_of(model, "", "format"), *name = value_of(model, "", "name");
    const char *family = value_of(model, "", "family");
    if (format == NULL || strcmp(format, FORMAT) != 0 || family == NULL || layer_name_fault(family) != NULL)
        diag_error(diag, model->path, "is no NAME.layers of format " FORMAT "; attngen import DIR writes one");
    else if (name == NULL || layer_name_fault(name) != NULL)
        diag_error(diag, model->path, "has no name that is a C identifier; write for example name = minilm");
    else
        return true;
    return false;
}

static bool is_layer(const struct section *section)
{
    return strncmp(section->title, "encoder layer ", 14) == 0 || strncmp(section->title, "decoder layer ", 14) == 0;
}

/* Of the layers first, so that their pairs stand in front. */
static bool find_specs(struct model *model, struct diag *diag)
{
    for (int others = 0; others <= 1; others++)
        for (size_t i = 0; i < model->section_count; i++) {
            const struct section *section = &model->sections[i];
            if (is_layer(section) != (others == 0) || (others && line_of(model, section, "spec") == NULL))
                continue;
            if (!add_spec(model, section, diag))
                return false;
        }
    if (model->spec_count == 0)
        return diag_error(diag, model->path, "has no layers; attngen import writes a section [encoder layer 0] or "
                          "[decoder layer 0], and on, for each");
    return true;
}

struct model *model_read(const char *path, const char *text, struct diag *diag)
{
    struct model *model = calloc(1, sizeof *model);
    size_t length = 0;
    if (model == NULL || (model->path = copy_of(path, strlen(path))) == NULL) {
        diag_environment(diag, path, "out of memory");
        model_free(model);
        return NULL;
    }
    char *bytes = text == NULL ? file_read(path, WHOLE_LAYERS, &length, diag) : NULL;
    bool good = text != NULL ? read_lines(model, text, strlen(text), diag)
                             : bytes != NULL && read_lines(model, bytes, length, diag);
    good = good && is_kind(model, diag) && check_sections(model, diag) && find_specs(model, diag);
    free(bytes);
    if (good)
        return model;
    model_free(model);
    return NULL;
}

void model_free(struct model *model)
{
    if (model == NULL)
        return;
    for (size_t i = 0; i < model->line_count; i++) {
        free(model->lines[i].key);
        free(model->lines[i].value);
        free(model->lines[i].words);
    }
    for (size_t i = 0; i < model->section_count; i++)
        free(model->sections[i].title);
    for (size_t i = 0; i < model->spec_count; i++)
        free(model->specs[i]);
    free(model->lines);
    free(model->sections);
    free(model->specs);
    free(model->path);
    free(model);
}

const char *model_name(const struct model *model)
{
    return value_of(model, "", "name");
}

const char *const *model_specs(const struct model *model, size_t *count)
{
    *count = model->spec_count;
    return (const char *const *)model->specs;
}

/* ---- for the templates ---- */

static void push_sections(const struct model *model, struct emit *emit)
{
    emit_begin_table(emit, "sections");
    for (size_t i = 0; i < model->section_count; i++) {
        const struct section *section = &model->sections[i];
        emit_begin_item(emit);
        emit_set_string(emit, "title", section->title);
        emit_set_integer(emit, "number", (int64_t)section->number);
        emit_begin_table(emit, "lines");
        for (size_t k = section->first; k < section->first + section->count; k++) {
            emit_begin_item(emit);
            emit_set_string(emit, "key", model->lines[k].key);
            emit_set_string(emit, "value", model->lines[k].value);
            emit_set_string(emit, "words", model->lines[k].words);
            emit_set_boolean(emit, "quoted", model->lines[k].quoted);
            emit_set_integer(emit, "number", (int64_t)model->lines[k].number);
            emit_end(emit);
        }
        emit_end(emit);
        emit_end(emit);
    }
    emit_end(emit);
}

/* Tensors that a layer is packed from: the field and its extents. */
static void push_tensors(const struct layer *layer, struct emit *emit)
{
    emit_begin_table(emit, "tensors");
    for (enum layer_tensor tensor = 0; tensor < TENSOR_COUNT; tensor++) {
        if (!layer_has_tensor(layer, tensor) || !tensor_is_packed(layer_tensor_row(tensor)->kind))
            continue;
        int64_t shape[4], size = 1;
        const int axes = layer_weight_shape(layer, tensor, shape);
        for (int i = 0; i < axes; i++)
            size *= shape[i];
        emit_begin_item(emit);
        emit_set_string(emit, "field", layer_tensor_called(layer, tensor));
        emit_set_boolean(emit, "matrix", layer_tensor_row(tensor)->kind == TENSOR_WEIGHT);
        emit_set_boolean(emit, "table", layer_tensor_row(tensor)->kind == TENSOR_NAMED);
        emit_set_integer(emit, "axes", axes);
        emit_set_integer(emit, "first", axes > 0 ? shape[0] : 1);
        emit_set_integer(emit, "size", size);
        emit_end(emit);
    }
    emit_end(emit);
}

/* Tensors of a call: their names. */
static void push_call(const struct layer *layer, struct emit *emit)
{
    emit_begin_table(emit, "call");
    for (enum layer_tensor tensor = 0; tensor < TENSOR_COUNT; tensor++) {
        if (!layer_has_tensor(layer, tensor) || tensor_is_packed(layer_tensor_row(tensor)->kind))
            continue;
        emit_begin_item(emit);
        emit_set_string(emit, "name", layer_tensor_name(tensor));
        emit_end(emit);
    }
    emit_end(emit);
}

/* Of the cache of one sequence, or page; the next layer's begins at a multiple of 4, where a float may be. */
static int64_t cache_bytes(const struct layer *layer)
{
    const int64_t rows = (layer->cache == CACHE_PAGED ? layer->page_len : layer->cache_len) * layer->h_kv;
    const int64_t number = (int64_t)element_size(layer->cache_type), scales = layer_scales_cache(layer) ? 8 : 0;
    return layer_has_cache(layer) ? (rows * ((layer->d_k + layer->d_v) * number + scales) + 3) / 4 * 4 : 0;
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

void model_place_caches(const struct model *model, struct layer *const *layers)
{
    int64_t bytes = 0;
    for (size_t s = 0; s < model->section_count; s++)
        for (size_t i = 0; i < model->spec_count && is_layer(&model->sections[s]); i++)
            if (strcmp(line_of(model, &model->sections[s], "spec")->value, file_name(model->specs[i])) == 0)
                bytes += cache_bytes(layers[i]);
    for (size_t i = 0; i < model->spec_count; i++)
        if (layer_has_cache(layers[i]) && layers[i]->cache != CACHE_PAGED)
            layers[i]->cache_apart = bytes;
}

static void push_spec(const char *path, const struct layer *layer, struct emit *emit)
{
    emit_begin_item(emit);
    emit_set_string(emit, "file", file_name(path));
    emit_set_string(emit, "name", layer->name);
    emit_set_boolean(emit, "linear", layer_is_linear(layer));
    emit_set_boolean(emit, "ffn", layer->kind == LAYER_FFN);
    emit_set_integer(emit, "d_in", layer->d_model);
    emit_set_integer(emit, "d_out", layer->d_out);
    emit_set_integer(emit, "seq_len", layer->seq_len);
    emit_set_integer(emit, "source_len", layer->source_len);
    emit_set_boolean(emit, "cross", layer->cross);
    emit_set_boolean(emit, "kept", layer->source_kept);
    emit_set_integer(emit, "d_source", layer->d_source);
    emit_set_boolean(emit, "pad_skipped", layer->pad_skipped);
    emit_set_boolean(emit, "out_in", layer->out_in);
    emit_set_boolean(emit, "cached", layer_has_cache(layer));
    emit_set_boolean(emit, "paged", layer->cache == CACHE_PAGED);
    emit_set_boolean(emit, "ring", layer->cache == CACHE_RING);
    emit_set_boolean(emit, "stored", layer_stores_cache(layer));
    emit_set_string(emit, "cache_type", element_name(layer->cache_type));
    emit_set_integer(emit, "cache_size", (int64_t)element_size(layer->cache_type)); /* of a number */
    emit_set_integer(emit, "cache_len", layer->cache_len);
    emit_set_integer(emit, "page_len", layer->page_len);
    const int64_t rows = layer->cache == CACHE_PAGED ? layer->page_len : layer->cache_len;
    emit_set_integer(emit, "cache_bytes", cache_bytes(layer)); /* of a sequence, or a page, as the floats */
    emit_set_integer(emit, "k_floats", rows * layer->h_kv * layer->d_k);
    emit_set_integer(emit, "v_floats", rows * layer->h_kv * layer->d_v);
    emit_set_integer(emit, "scale_floats", layer_scales_cache(layer) ? rows * layer->h_kv : 0); /* of either */
    push_tensors(layer, emit);
    push_call(layer, emit);
    emit_end(emit);
}

void model_context(const struct model *model, struct layer *const *layers, struct emit *emit)
{
    emit_set_string(emit, "path", model->path);
    push_sections(model, emit);
    emit_begin_table(emit, "specs");
    for (size_t i = 0; i < model->spec_count; i++)
        push_spec(model->specs[i], layers[i], emit);
    emit_end(emit);
}
