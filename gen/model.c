/* SPDX-License-Identifier: MIT */
/* See model.h. */
#include "model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag.h"
#include "emit.h"
#include "file.h"
#include "layer.h"
#include "name.h"
#include "number.h"

#define MAX_MODEL_BYTES (16u << 20)
#define FORMAT "1"

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
    size_t section_count, layer_count;
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
    diag_error(diag, place, "%s", what);
    return false;
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

/* Where this byte is first; NULL: nowhere */
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

/* The sections "encoder layer 0", 1, …: their number. */
static size_t layer_count(const struct model *model)
{
    char title[40];
    size_t count = 0;
    while (snprintf(title, sizeof title, "encoder layer %zu", count), section_of(model, title) != NULL)
        count++;
    return count;
}

static const struct section *layer_section(const struct model *model, size_t layer)
{
    char title[40];
    snprintf(title, sizeof title, "encoder layer %zu", layer);
    return section_of(model, title);
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

/* Sections and keys that occur twice, or layers that are not counted from 0 on, would be left out. */
static bool check_sections(const struct model *model, struct diag *diag)
{
    const size_t layers = model->layer_count;
    size_t found = 0;
    for (size_t i = 0; i < model->section_count; i++) {
        const struct section *section = &model->sections[i];
        for (size_t k = 0; k < section->count && strcmp(section->title, "weights") != 0; k++) {
            const struct line *line = &model->lines[section->first + k];
            if (line_of(model, section, line->key) != line)
                return wrong(model, line->number, diag, "the key is in this section twice; write it once");
        }
        if (section_of(model, section->title) != section)
            return wrong(model, section->number, diag, "the section is there twice; write it once");
        found += strncmp(section->title, "encoder layer ", strlen("encoder layer ")) == 0;
    }
    if (found != layers) {
        diag_error(diag, model->path, "has %zu sections of layers, and [encoder layer %zu] is missing; number them "
                   "from 0 on", found, layers);
        return false;
    }
    return true;
}

static bool is_kind(const struct model *model, struct diag *diag)
{
    const char *format = value_of(model, "", "format"), *name = value_of(model, "", "name");
    const char *family = value_of(model, "", "family"), *kind = value_of(model, "encoder input", "kind");
    if (format == NULL || strcmp(format, FORMAT) != 0 || family == NULL || layer_name_fault(family) != NULL)
        diag_error(diag, model->path, "is no NAME.layers of format " FORMAT "; attngen import DIR writes one");
    else if (name == NULL || layer_name_fault(name) != NULL)
        diag_error(diag, model->path, "has no name that is a C identifier; write for example name = minilm");
    else if (kind == NULL || strcmp(kind, "tokens") != 0 || section_of(model, "decoder input") != NULL)
        diag_error(diag, model->path, "is a %.40s model; NAME_model.c is written for encoders of tokens (bert, "
                   "roberta, distilbert). Give attngen the specs beside it, and call the layers in the order of this "
                   "file", family);
    else if (model->layer_count == 0)
        diag_error(diag, model->path, "has no [encoder layer 0]; attngen import writes one for each layer");
    else
        return true;
    return false;
}

struct model *model_read(const char *path, struct diag *diag)
{
    struct model *model = calloc(1, sizeof *model);
    size_t length = 0;
    if (model == NULL || (model->path = copy_of(path, strlen(path))) == NULL) {
        diag_environment(diag, path, "out of memory");
        model_free(model);
        return NULL;
    }
    char *bytes = file_bytes(path, MAX_MODEL_BYTES + 1, &length);
    bool good = bytes != NULL;
    if (!good)
        diag_environment(diag, path, "cannot be read: %s; give the path of a NAME.layers", strerror(errno));
    else if (length > MAX_MODEL_BYTES)
        good = wrong(model, 1, diag, "longer than 16 MiB; no model has so many layers");
    good = good && read_lines(model, bytes, length, diag);
    model->layer_count = good ? layer_count(model) : 0;
    good = good && is_kind(model, diag) && check_sections(model, diag);
    for (size_t layer = 0; good && layer < model->layer_count; layer++)
        good = add_spec(model, layer_section(model, layer), diag);
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

/* ---- against its layers ---- */

static int64_t number_of(const struct model *model, const char *title, const char *key)
{
    const char *text = value_of(model, title, key);
    uint64_t number = 0;
    return text != NULL && number_whole(text, strlen(text), 1, INT32_MAX, &number) ? (int64_t)number : 0;
}

/* What is computed: word + position (+ type), then layer norm or nothing; tanh behind the pooler. No other is known. */
static bool check_texts(const struct model *model, struct diag *diag)
{
    static const struct { const char *title, *key; bool table; } tensors[] = {
        {"encoder embedding", "word", false}, {"encoder embedding", "position", true},
        {"encoder embedding", "type", false},
        {"encoder embedding", "norm_g", false}, {"encoder embedding", "norm_b", false},
        {"head pooler", "w", false}, {"head pooler", "b", false}};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        const struct line *line = line_of(model, section_of(model, tensors[i].title), tensors[i].key);
        const char *words = strcmp(tensors[i].key, "w") == 0 ? "out_in" : "";
        uint64_t from;
        if (line == NULL)
            continue;
        if (!line->quoted || line->value[0] == '\0')
            return wrong(model, line->number, diag, "no name of a tensor; write key = \"its name in the checkpoint\"");
        if (tensors[i].table && strncmp(line->words, "from ", 5) == 0
                ? !number_whole(line->words + 5, strlen(line->words + 5), 0, INT32_MAX, &from)
                : strcmp(line->words, words) != 0)
            return wrong(model, line->number, diag, "words behind the name that NAME_model.c does not know");
    }
    const struct section *embedding = section_of(model, "encoder embedding");
    const struct section *pooler = section_of(model, "head pooler");
    const bool norm = line_of(model, embedding, "norm") != NULL;
    const char *eps = value_of(model, "encoder embedding", "norm_eps");
    const char *activation = value_of(model, "head pooler", "activation");
    double value = 0;
    if ((line_of(model, embedding, "norm_g") != NULL) != norm ||
        (line_of(model, embedding, "norm_b") != NULL) != norm ||
        (norm && (eps == NULL || !number_real(eps, &value) || !(value > 0 && value < 1))))
        return wrong(model, embedding->number, diag, "norm, norm_eps, norm_g and norm_b are there together, or none");
    if (line_of(model, embedding, "scale") != NULL || section_of(model, "encoder norm") != NULL)
        return wrong(model, embedding->number, diag, "scale and [encoder norm] are not what NAME_model.c computes");
    if (line_of(model, embedding, "type") != NULL && number_of(model, "encoder input", "types") == 0)
        return wrong(model, embedding->number, diag, "[encoder input] has no types, or no size, beside type");
    if (pooler != NULL && (line_of(model, pooler, "w") == NULL || line_of(model, pooler, "b") == NULL ||
                           activation == NULL || strcmp(activation, "tanh") != 0))
        return wrong(model, pooler->number, diag, "the pooler is w, b and activation = tanh");
    return true;
}

/* What a call must bring that NAME_model.c does not give */
static bool is_plain_call(const struct layer *layer)
{
    for (enum layer_tensor tensor = 0; tensor < TENSOR_COUNT; tensor++)
        if (layer_has_tensor(layer, tensor) && tensor != TENSOR_X && tensor != TENSOR_LENGTHS && tensor != TENSOR_Y &&
            (!tensor_is_packed(layer_tensor_row(tensor)->kind) || layer_tensor_row(tensor)->kind == TENSOR_NAMED))
            return false;
    return layer->pad_skipped;
}

/* Every tensor that the layer packs has a line, and of another word than out_in and in_out nothing is known. */
static bool check_layer(const struct model *model, const struct section *section, const struct layer *layer,
                        struct diag *diag)
{
    char text[160];
    for (enum layer_tensor tensor = 0; tensor < TENSOR_COUNT; tensor++) {
        if (!layer_has_tensor(layer, tensor) || !tensor_is_packed(layer_tensor_row(tensor)->kind))
            continue;
        const char *name = layer_tensor_called(layer, tensor);
        const struct line *line = line_of(model, section, name);
        const char *layout = layer_tensor_row(tensor)->kind != TENSOR_WEIGHT ? "" : layer->out_in ? "out_in" : "in_out";
        if (line == NULL || !line->quoted) {
            snprintf(text, sizeof text, "the layer has no tensor %s; write %s = \"its name in the checkpoint\"", name,
                     name);
            return wrong(model, section->number, diag, text);
        }
        if (strcmp(line->words, layout) != 0) {
            snprintf(text, sizeof text, "%s lies there as '%.40s'; NAME_model.c reads it as the spec has it%s%s", name,
                     line->words, *layout != '\0' ? ", " : "", layout);
            return wrong(model, line->number, diag, text);
        }
    }
    return true;
}

bool model_check(const struct model *model, struct layer *const *layers, struct diag *diag)
{
    static const char *const sizes[][2] = {{"", "d_model"}, {"encoder input", "vocab"}, {"encoder input", "seq_len"}};
    const int64_t d_model = number_of(model, "", "d_model"), seq_len = number_of(model, "encoder input", "seq_len");
    const struct section *embedding = section_of(model, "encoder embedding");
    const char *norm = value_of(model, "encoder embedding", "norm");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (number_of(model, sizes[i][0], sizes[i][1]) == 0) {
            diag_error(diag, model->path, "%s is missing or no size; attngen import writes it", sizes[i][1]);
            return false;
        }
    if (line_of(model, embedding, "word") == NULL || line_of(model, embedding, "position") == NULL) {
        diag_error(diag, model->path, "[encoder embedding] has no word or no position; attngen import writes them");
        return false;
    }
    if (norm != NULL && strcmp(norm, "layer") != 0) {
        diag_error(diag, model->path, "the embedding's norm is '%s'; NAME_model.c computes norm = layer there", norm);
        return false;
    }
    if (!check_texts(model, diag))
        return false;
    if (model->spec_count > 1) {
        diag_error(diag, model->path, "its layers have %zu specs; NAME_model.c is written for layers that are alike",
                   model->spec_count);
        return false;
    }
    const struct layer *of = layers[0];
    if (of->d_model != d_model || of->seq_len < seq_len || !of->self || layer_has_cache(of) || !layer_has_block(of) ||
        !layer_has_tensor(of, TENSOR_LENGTHS) || !is_plain_call(of)) {
        diag_error(diag, model->specs[0], "is no block of self-attention with mask = padding and pad_rows = skipped, "
                   "%lld wide, for %lld tokens, whose calls bring nothing else, as %s needs", (long long)d_model,
                   (long long)seq_len, model->path);
        return false;
    }
    for (size_t layer = 0; layer < model->layer_count; layer++)
        if (!check_layer(model, layer_section(model, layer), of, diag))
            return false;
    return true;
}

/* ---- for the templates ---- */

static void push_text(const struct model *model, struct emit *emit, const char *title, const char *key, const char *as)
{
    const char *text = value_of(model, title, key);
    emit_set_string(emit, as, text != NULL ? text : "");
}

/* Tensors of a layer: the field and how many numbers it has. */
static void push_tensors(const struct layer *layer, struct emit *emit)
{
    emit_begin_table(emit, "tensors");
    for (enum layer_tensor tensor = 0; tensor < TENSOR_COUNT; tensor++) {
        int64_t shape[4], size = 1;
        if (!layer_has_tensor(layer, tensor) || !tensor_is_packed(layer_tensor_row(tensor)->kind))
            continue;
        for (int i = layer_weight_shape(layer, tensor, shape) - 1; i >= 0; i--)
            size *= shape[i];
        emit_begin_item(emit);
        emit_set_string(emit, "field", layer_tensor_called(layer, tensor));
        emit_set_integer(emit, "size", size);
        emit_end(emit);
    }
    emit_end(emit);
}

static void push_layers(const struct model *model, const struct layer *layer, struct emit *emit)
{
    emit_begin_table(emit, "layers");
    for (size_t at = 0; at < model->layer_count; at++) {
        const struct section *section = layer_section(model, at);
        emit_begin_item(emit);
        emit_begin_table(emit, "names");
        for (size_t i = 0; i < section->count; i++)
            if (model->lines[section->first + i].quoted)
                emit_set_string(emit, model->lines[section->first + i].key, model->lines[section->first + i].value);
        emit_end(emit);
        emit_end(emit);
    }
    emit_end(emit);
    emit_begin_table(emit, "spec");
    emit_set_string(emit, "name", layer->name);
    push_tensors(layer, emit);
    emit_end(emit);
}

/* "from 2": the row of the first token's position */
static int64_t first_position(const struct model *model)
{
    const struct line *line = line_of(model, section_of(model, "encoder embedding"), "position");
    uint64_t number = 0;
    return line != NULL && strncmp(line->words, "from ", 5) == 0 &&
                   number_whole(line->words + 5, strlen(line->words + 5), 0, INT32_MAX, &number) ? (int64_t)number : 0;
}

/* Rows of numbers that all instruction sets share, [row][d_model], in this order. */
static void push_rows(const struct model *model, struct emit *emit)
{
    const struct section *embedding = section_of(model, "encoder embedding");
    const bool typed = line_of(model, embedding, "type") != NULL, normed = line_of(model, embedding, "norm_g") != NULL;
    const bool pooler = line_of(model, section_of(model, "head pooler"), "w") != NULL;
    const struct { const char *name; int64_t rows; } parts[] = {
        {"POSITION_ROW", number_of(model, "encoder input", "vocab")},
        {"TYPE_ROW", first_position(model) + number_of(model, "encoder input", "seq_len")},
        {"NORM_ROW", typed ? number_of(model, "encoder input", "types") : 0},
        {"POOLER_ROW", normed ? 2 : 0},
        {"ROWS", pooler ? number_of(model, "", "d_model") + 1 : 0}};
    int64_t row = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        emit_set_integer(emit, parts[i].name, row += parts[i].rows);
    emit_set_integer(emit, "TYPES", typed ? number_of(model, "encoder input", "types") : 0);
}

void model_context(const struct model *model, struct layer *const *layers, struct emit *emit)
{
    const char *eps = value_of(model, "encoder embedding", "norm_eps");
    emit_set_string(emit, "NAME", model_name(model));
    push_text(model, emit, "", "family", "FAMILY");
    emit_set_integer(emit, "D_MODEL", number_of(model, "", "d_model"));
    emit_set_integer(emit, "VOCAB", number_of(model, "encoder input", "vocab"));
    emit_set_integer(emit, "SEQ_LEN", number_of(model, "encoder input", "seq_len"));
    emit_set_integer(emit, "FIRST_POSITION", first_position(model));
    emit_set_number(emit, "NORM_EPS", eps != NULL ? strtod(eps, NULL) : 0);
    push_text(model, emit, "encoder embedding", "word", "WORD");
    push_text(model, emit, "encoder embedding", "position", "POSITION");
    push_text(model, emit, "encoder embedding", "type", "TYPE");
    push_text(model, emit, "encoder embedding", "norm_g", "NORM_G");
    push_text(model, emit, "encoder embedding", "norm_b", "NORM_B");
    push_text(model, emit, "head pooler", "w", "POOLER_W");
    push_text(model, emit, "head pooler", "b", "POOLER_B");
    push_rows(model, emit);
    push_layers(model, layers[0], emit);
    const int64_t most = layer_parameters(layers[0]).total, square = number_of(model, "", "d_model");
    const bool pooler = line_of(model, section_of(model, "head pooler"), "w") != NULL;
    emit_set_integer(emit, "WORK", pooler && square * square > most ? square * square : most);
}
