/* SPDX-License-Identifier: MIT */
/* Reading and writing safetensors: 8 bytes of header length, a JSON header, the data.
 *
 * A file may come from anywhere, so nothing in it is believed: lengths, offsets and shapes are checked against
 * each other and against the file before any of them is used. Left out on purpose: validating UTF-8 in names.
 */
#include "base/tensors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/filekind.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/replace.h"

#define HEADER_LIMIT ((uint64_t)100 << 20) /* the format's own limit: 100 MB */
#define COUNT_LIMIT 16384                  /* tensors; names are compared pairwise */

static const struct { const char *name; size_t size; } types[TYPE_COUNT] = {
    [TYPE_F32] = {"F32", 4}, [TYPE_I32] = {"I32", 4}, [TYPE_BOOL] = {"BOOL", 1}, [TYPE_F16] = {"F16", 2},
    [TYPE_BF16] = {"BF16", 2}, [TYPE_F64] = {"F64", 8}, [TYPE_I8] = {"I8", 1}, [TYPE_U8] = {"U8", 1},
    [TYPE_I16] = {"I16", 2}, [TYPE_U16] = {"U16", 2}, [TYPE_U32] = {"U32", 4}, [TYPE_I64] = {"I64", 8},
    [TYPE_U64] = {"U64", 8}, [TYPE_F8_E4M3] = {"F8_E4M3", 1}, [TYPE_F8_E5M2] = {"F8_E5M2", 1},
};

const char *tensor_type_name(enum tensor_type type)
{
    return types[type].name;
}

size_t tensor_type_size(enum tensor_type type)
{
    return types[type].size;
}

const char *tensor_shape_text(char text[200], int rank, const int64_t *shape)
{
    int at = 0;
    text[0] = '\0';
    for (int i = 0; i < rank; i++)
        at += snprintf(text + at, 200 - (size_t)at, "[%lld]", (long long)shape[i]);
    return text;
}

/* Where the data is: in memory, or at `at` of a file. */
struct store {
    const unsigned char *bytes; /* NULL: a file */
    int file;
    int64_t at, size; /* of the data */
    bool (*wanted)(const char *name, const void *context); /* NULL: all is */
    const void *context;
};

/* ---- the header ------------------------------------------------------------------------------------------------ */

struct scanner {
    struct json json;
    const char *place;
    struct diag *diag; /* errors other than the JSON's, which parse_header() reports */
};

struct extent {
    int64_t begin, end;
};

static bool scan_integers(struct scanner *s, int64_t *values, int limit, int *count)
{
    for (*count = 0; json_item(&s->json, "[]", (size_t)*count);) {
        if (*count == limit)
            return json_fail(&s->json, "too many numbers in the list");
        if (!json_integer(&s->json, &values[(*count)++]))
            return false;
    }
    return json_good(&s->json);
}

static bool scan_metadata(struct scanner *s)
{
    bool good = true;
    for (size_t i = 0; good && json_item(&s->json, "{}", i); i++) {
        HEAP char *key = json_text(&s->json);
        HEAP char *value = key != NULL && json_expect(&s->json, ':') ? json_text(&s->json) : NULL;
        good = value != NULL;
    }
    return json_good(&s->json);
}

static bool scan_type(struct scanner *s, enum tensor_type *type)
{
    char *name = json_text(&s->json);
    if (name == NULL)
        return false;
    int found = 0;
    while (found < TYPE_COUNT && strcmp(types[found].name, name) != 0)
        found++;
    if (found == TYPE_COUNT)
        diag_error(s->diag, s->place, "dtype \"%s\" is not supported; F32, F16, BF16, F64, whole numbers and "
                   "BOOL are", name);
    free(name);
    *type = (enum tensor_type)found;
    return found < TYPE_COUNT;
}

/* {"dtype": …, "shape": […], "data_offsets": [begin, end]}, each key once, in any order. */
static bool scan_entry(struct scanner *s, struct tensor *tensor, struct extent *extent)
{
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    unsigned seen = 0;
    if (!json_expect(&s->json, '{'))
        return false;
    do {
        char *key = json_text(&s->json);
        if (key == NULL)
            return false;
        unsigned k = 0;
        while (k < 3 && strcmp(keys[k], key) != 0)
            k++;
        free(key);
        if (k == 3)
            return json_fail(&s->json, "unknown key of a tensor; dtype, shape and data_offsets are known");
        if (seen & 1u << k)
            return json_fail(&s->json, "a key of a tensor occurs twice");
        seen |= 1u << k;
        int64_t offsets[2];
        int count;
        if (!json_expect(&s->json, ':'))
            return false;
        if (k == 0 && !scan_type(s, &tensor->type))
            return false;
        if (k == 1 && !scan_integers(s, tensor->shape, TENSOR_RANK_LIMIT, &tensor->rank))
            return false;
        if (k == 2) {
            if (!scan_integers(s, offsets, 2, &count))
                return false;
            if (count != 2)
                return json_fail(&s->json, "data_offsets needs two numbers");
            *extent = (struct extent){offsets[0], offsets[1]};
        }
    } while (json_accept(&s->json, ','));
    if (seen != 7)
        return json_fail(&s->json, "a tensor needs dtype, shape and data_offsets");
    return json_expect(&s->json, '}');
}

/* Bytes of the tensor's elements; false when that overflows. */
static bool tensor_bytes(const struct tensor *tensor, int64_t *bytes)
{
    *bytes = (int64_t)tensor_type_size(tensor->type);
    for (int i = 0; i < tensor->rank; i++)
        if (__builtin_mul_overflow(*bytes, tensor->shape[i], bytes))
            return false;
    return true;
}

static bool check_entry(struct scanner *s, const struct tensors *tensors, const struct tensor *tensor,
                        struct extent extent, int64_t data_size)
{
    const char *name = tensor->name;
    int64_t bytes;
    if (tensors_find(tensors, name) != NULL)
        diag_error(s->diag, s->place, "tensor \"%s\" occurs twice", name);
    else if (extent.begin > extent.end || extent.end > data_size)
        diag_error(s->diag, s->place, "tensor \"%s\": data_offsets %lld to %lld lie outside the %lld bytes of data",
                   name, (long long)extent.begin, (long long)extent.end, (long long)data_size);
    else if (!tensor_bytes(tensor, &bytes))
        diag_error(s->diag, s->place, "tensor \"%s\": its shape overflows", name);
    else if (bytes != extent.end - extent.begin)
        diag_error(s->diag, s->place, "tensor \"%s\": shape and dtype need %lld bytes, data_offsets give %lld", name,
                   (long long)bytes, (long long)(extent.end - extent.begin));
    else
        return true;
    return false;
}

/* False where the file ends early or cannot be read. */
static bool read_at(int file, int64_t at, void *to, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = pread(file, (char *)to + done, bytes - done, (off_t)(at + (int64_t)done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

/* The tensor's data in memory of its own, so that it is aligned whatever the header's length. */
static bool copy_data(struct scanner *s, struct tensor *tensor, const struct store *store, struct extent extent)
{
    const size_t bytes = tensor->bytes = (size_t)(extent.end - extent.begin);
    if (store->wanted != NULL && !store->wanted(tensor->name, store->context))
        return true;
    unsigned char *data = tensor->data = memory_there(malloc(bytes > 0 ? bytes : 1));
    if (store->bytes != NULL) {
        memcpy(data, store->bytes + extent.begin, bytes);
    } else if (!read_at(store->file, store->at + extent.begin, data, bytes))
        return diag_environment(s->diag, s->place, "cannot be read to its end");
    for (size_t i = 0; tensor->type == TYPE_BOOL && i < bytes; i++)
        if (data[i] > 1)
            return diag_error(s->diag, s->place, "tensor \"%s\": a BOOL that is neither 0 nor 1", tensor->name);
    return true;
}

static int by_begin(const void *a, const void *b)
{
    const struct extent *l = a, *r = b;
    if (l->begin != r->begin)
        return l->begin < r->begin ? -1 : 1;
    return (l->end > r->end) - (l->end < r->end);
}

/* The format asks that the tensors cover the data without holes or overlaps. */
static bool check_cover(struct scanner *s, struct extent *extents, size_t count, int64_t data_size)
{
    int64_t at = 0;
    if (count > 0)
        qsort(extents, count, sizeof *extents, by_begin);
    for (size_t i = 0; i < count; i++) {
        if (extents[i].begin != at)
            return diag_error(s->diag, s->place, "%s between the tensors at byte %lld of the data",
                              extents[i].begin < at ? "an overlap" : "a hole", (long long)extents[i].begin);
        at = extents[i].end;
    }
    if (at != data_size)
        return diag_error(s->diag, s->place, "%lld bytes after the last tensor", (long long)(data_size - at));
    return true;
}

/* Doubles the arrays as they fill. */
static bool make_room(struct scanner *s, struct tensors *tensors, struct extent **extents)
{
    size_t count = tensors->count;
    if (count == COUNT_LIMIT)
        return json_fail(&s->json, "too many tensors");
    if (count > 0 && (count < 16 || (count & (count - 1)) != 0))
        return true;
    size_t room = count < 16 ? 16 : 2 * count;
    tensors->items = memory_grow(tensors->items, room, sizeof *tensors->items);
    *extents = memory_grow(*extents, room, sizeof **extents);
    return true;
}

static bool scan_tensor(struct scanner *s, struct tensors *tensors, struct extent **extents, char *name,
                        const struct store *store)
{
    struct tensor tensor = {.name = name};
    struct extent extent;
    bool good = scan_entry(s, &tensor, &extent) && check_entry(s, tensors, &tensor, extent, store->size) &&
                make_room(s, tensors, extents) && copy_data(s, &tensor, store, extent);
    if (!good) {
        free(tensor.data);
        free(name);
        return false;
    }
    (*extents)[tensors->count] = extent;
    tensors->items[tensors->count++] = tensor;
    return true;
}

static bool scan_header(struct scanner *s, struct tensors *tensors, struct extent **extents,
                        const struct store *store)
{
    bool metadata = false;
    for (size_t i = 0; json_item(&s->json, "{}", i); i++) {
        char *name = json_text(&s->json);
        bool good = name != NULL && json_expect(&s->json, ':');
        const bool is_metadata = good && strcmp(name, "__metadata__") == 0;
        if (is_metadata && metadata)
            good = json_fail(&s->json, "__metadata__ occurs twice");
        if (good && !is_metadata) {
            if (!scan_tensor(s, tensors, extents, name, store)) /* takes over the name */
                return false;
            continue;
        }
        free(name);
        metadata = true;
        if (!good || !scan_metadata(s))
            return false;
    }
    return json_good(&s->json) &&
           (json_is_end(&s->json) || json_fail(&s->json, "something follows the header's object"));
}

/* The header's length, from the beginning of a file of `size`: all of it, or FILE_HEAD bytes. */
static bool header_length(const unsigned char *head, uint64_t size, uint64_t *length, const char *place,
                          struct diag *diag)
{
    *length = 0;
    for (int i = 7; size >= 8 && i >= 0; i--)
        *length = *length << 8 | head[i];
    if (size >= 8 && *length <= HEADER_LIMIT && *length <= size - 8)
        return true;
    if (file_is_other(place, head, size < FILE_HEAD ? (size_t)size : FILE_HEAD, FILE_TENSORS, diag))
        return false;
    if (size < 8)
        diag_error(diag, place, "not a safetensors file: %llu bytes, and 8 are needed for the header's length",
                   (unsigned long long)size);
    else
        diag_error(diag, place, "not a safetensors file: a header of %llu bytes in a file of %llu",
                   (unsigned long long)*length, (unsigned long long)size);
    return false;
}

static bool parse_header(struct tensors *tensors, const char *text, size_t length, const struct store *store,
                         const char *place, struct diag *diag)
{
    struct scanner s = {json_begin(text, length), place, diag};
    HEAP struct extent *extents = NULL;
    bool good = scan_header(&s, tensors, &extents, store) && check_cover(&s, extents, tensors->count, store->size);
    if (!json_good(&s.json))
        diag_error(diag, place, "header, byte %zu: %s", (size_t)(s.json.at - text), s.json.why);
    if (!good)
        tensors_free(tensors);
    return good;
}

bool tensors_parse(struct tensors *tensors, const unsigned char *bytes, size_t size, const char *place,
                   struct diag *diag)
{
    uint64_t length;
    *tensors = (struct tensors){0};
    if (!header_length(bytes, size, &length, place, diag))
        return false;
    const struct store store = {.bytes = bytes + 8 + length, .size = (int64_t)(size - 8 - (size_t)length)};
    return parse_header(tensors, (const char *)bytes + 8, (size_t)length, &store, place, diag);
}

static bool read_open(struct tensors *tensors, const char *path, struct store *store, uint64_t size, struct diag *diag)
{
    unsigned char head[FILE_HEAD];
    uint64_t length;
    if (!read_at(store->file, 0, head, size < sizeof head ? (size_t)size : sizeof head))
        return diag_environment(diag, path, "cannot be read to its end");
    if (!header_length(head, size, &length, path, diag))
        return false;
    HEAP char *text = memory_get((size_t)length + 1, 1);
    store->at = 8 + (int64_t)length;
    store->size = (int64_t)size - store->at;
    return read_at(store->file, 8, text, (size_t)length)
               ? parse_header(tensors, text, (size_t)length, store, path, diag)
               : diag_environment(diag, path, "cannot be read to its end");
}

bool tensors_read_some(struct tensors *tensors, const char *path, bool (*wanted)(const char *name, const void *context),
                       const void *context, struct diag *diag)
{
    size_t size;
    struct store store = {.file = file_open(path, "the path of a safetensors file is needed", &size, diag),
                          .wanted = wanted, .context = context};
    *tensors = (struct tensors){0};
    const bool good = store.file >= 0 && read_open(tensors, path, &store, size, diag);
    if (store.file >= 0)
        close(store.file);
    return good;
}

bool tensors_read(struct tensors *tensors, const char *path, struct diag *diag)
{
    return tensors_read_some(tensors, path, NULL, NULL, diag);
}

const struct tensor *tensors_find(const struct tensors *tensors, const char *name)
{
    for (size_t i = 0; i < tensors->count; i++)
        if (strcmp(tensors->items[i].name, name) == 0)
            return &tensors->items[i];
    return NULL;
}

void tensors_join(struct tensors *tensors, struct tensors *more)
{
    tensors->items = memory_grow(tensors->items, tensors->count + more->count, sizeof *tensors->items);
    if (more->count > 0)
        memcpy(tensors->items + tensors->count, more->items, more->count * sizeof *more->items);
    tensors->count += more->count;
    free(more->items);
    *more = (struct tensors){0};
}

void tensors_remove(struct tensors *tensors, const char *name)
{
    size_t at = 0;
    while (at < tensors->count && strcmp(tensors->items[at].name, name) != 0)
        at++;
    if (at == tensors->count)
        return;
    free(tensors->items[at].name);
    free(tensors->items[at].data);
    tensors->count--;
    memmove(tensors->items + at, tensors->items + at + 1, (tensors->count - at) * sizeof *tensors->items);
}

void tensors_free(struct tensors *tensors)
{
    for (size_t i = 0; i < tensors->count; i++) {
        free(tensors->items[i].name);
        free(tensors->items[i].data);
    }
    free(tensors->items);
    *tensors = (struct tensors){0};
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

/* The JSON header, padded with blanks to a multiple of 8 so that the data is aligned. */
static struct text make_header(const struct tensor *items, size_t count)
{
    struct text text;
    FILE *out = text_begin(&text);
    size_t at = 0;
    putc('{', out);
    for (size_t i = 0; i < count; i++) {
        const struct tensor *t = &items[i];
        fputs(i > 0 ? "," : "", out);
        json_print_text(out, t->name);
        fprintf(out, ":{\"dtype\":\"%s\",\"shape\":[", types[t->type].name);
        for (int d = 0; d < t->rank; d++)
            fprintf(out, "%s%lld", d > 0 ? "," : "", (long long)t->shape[d]);
        fprintf(out, "],\"data_offsets\":[%zu,%zu]}", at, at + t->bytes);
        at += t->bytes;
    }
    putc('}', out);
    for (long end = ftell(out); end % 8 != 0; end++)
        putc(' ', out);
    text_end(&text);
    return text;
}

bool tensors_write(const char *path, const struct tensor *items, size_t count, struct diag *diag)
{
    struct text header = make_header(items, count);
    HEAP struct piece *pieces = memory_get(count + 2, sizeof *pieces);
    unsigned char size[8];
    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)((uint64_t)header.length >> (8 * i));
    pieces[0] = (struct piece){size, sizeof size};
    pieces[1] = (struct piece){header.bytes, header.length};
    for (size_t i = 0; i < count; i++)
        pieces[i + 2] = (struct piece){items[i].data, items[i].bytes};
    const bool good = file_replace(path, pieces, count + 2, diag);
    free(header.bytes);
    return good;
}
