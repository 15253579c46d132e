/* Reading and writing safetensors: 8 bytes of header length, a JSON header, the data.
 *
 * A file may come from anywhere, so nothing in it is believed: lengths, offsets and shapes are checked against
 * each other and against the file before any of them is used. The JSON scanner knows only what the format needs:
 * objects of strings, unsigned integers and arrays of them. Left out on purpose: validating UTF-8 in names.
 */
#include "tensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_LIMIT ((uint64_t)100 << 20) /* the format's own limit: 100 MB */
#define COUNT_LIMIT 16384                  /* tensors; names are compared pairwise */

static const struct { const char *name; size_t size; } types[TYPE_COUNT] = {
    [TYPE_F32] = {"F32", 4}, [TYPE_I32] = {"I32", 4}, [TYPE_BOOL] = {"BOOL", 1},
};

const char *tensor_type_name(enum tensor_type type)
{
    return types[type].name;
}

size_t tensor_type_size(enum tensor_type type)
{
    return types[type].size;
}

/* ---- the JSON scanner ------------------------------------------------------------------------------------------ */

struct scanner {
    const char *at, *end, *start;
    const char *place;
    struct diag *diag;
};

static bool fail(struct scanner *s, const char *what)
{
    diag_error(s->diag, s->place, "header, byte %zu: %s", (size_t)(s->at - s->start), what);
    return false;
}

static void skip_blanks(struct scanner *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
        s->at++;
}

/* Takes the character if it comes next. */
static bool accept(struct scanner *s, char c)
{
    skip_blanks(s);
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

static bool expect(struct scanner *s, char c)
{
    char what[] = "'?' expected";
    what[1] = c;
    return accept(s, c) || fail(s, what);
}

static bool hex4(struct scanner *s, unsigned *value)
{
    *value = 0;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdefABCDEF", *digit;
        if (s->at == s->end || *s->at == '\0' || (digit = strchr(digits, *s->at)) == NULL)
            return fail(s, "four hexadecimal digits expected after \\u");
        unsigned d = (unsigned)(digit - digits);
        *value = *value * 16 + (d < 16 ? d : d - 6);
        s->at++;
    }
    return true;
}

static char *put_utf8(char *out, unsigned code)
{
    if (code < 0x80) {
        *out++ = (char)code;
        return out;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned lead[] = {0, 0xC0, 0xE0, 0xF0};
    *out++ = (char)(lead[more] | code >> (6 * more));
    while (more-- > 0)
        *out++ = (char)(0x80 | (code >> (6 * more) & 0x3F));
    return out;
}

/* \uXXXX, and the second half of a surrogate pair. */
static bool scan_unicode(struct scanner *s, char **out)
{
    unsigned code, low;
    if (!hex4(s, &code))
        return false;
    if (code >= 0xD800 && code < 0xDC00) {
        if (s->end - s->at < 2 || s->at[0] != '\\' || s->at[1] != 'u')
            return fail(s, "half a surrogate pair");
        s->at += 2;
        if (!hex4(s, &low))
            return false;
        if (low < 0xDC00 || low > 0xDFFF)
            return fail(s, "half a surrogate pair");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code < 0xE000) {
        return fail(s, "half a surrogate pair");
    }
    if (code == 0)
        return fail(s, "a NUL in a string");
    *out = put_utf8(*out, code);
    return true;
}

static bool scan_escape(struct scanner *s, char **out)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (s->at == s->end)
        return fail(s, "the string does not end");
    char c = *s->at++;
    if (c == 'u')
        return scan_unicode(s, out);
    const char *name = c == '\0' ? NULL : strchr(names, c);
    if (name == NULL)
        return fail(s, "unknown escape in a string");
    *(*out)++ = values[name - names];
    return true;
}

/* A string, unescaped, in memory of its own; NULL after an error. */
static char *scan_string(struct scanner *s)
{
    if (!expect(s, '"'))
        return NULL;
    const char *close = s->at; /* room: no escape makes a string longer */
    while (close < s->end && *close != '"')
        close += *close == '\\' && close + 1 < s->end ? 2 : 1;
    char *text = malloc((size_t)(close - s->at) + 1), *out = text;
    if (text == NULL) {
        diag_environment(s->diag, s->place, "out of memory");
        return NULL;
    }
    bool good = true;
    while (good && s->at < s->end && *s->at != '"') {
        unsigned char c = (unsigned char)*s->at;
        if (c < 0x20) {
            good = fail(s, "a control character in a string");
        } else if (c == '\\') {
            s->at++;
            good = scan_escape(s, &out);
        } else {
            *out++ = *s->at++;
        }
    }
    if (good && s->at == s->end)
        good = fail(s, "the string does not end");
    if (!good) {
        free(text);
        return NULL;
    }
    s->at++;
    *out = '\0';
    return text;
}

/* An integer of 0 … 2^63-1, without sign, fraction, exponent or leading zeros. */
static bool scan_integer(struct scanner *s, int64_t *value)
{
    skip_blanks(s);
    const char *first = s->at;
    *value = 0;
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9') {
        int digit = *s->at - '0';
        if (*value > (INT64_MAX - digit) / 10)
            return fail(s, "the number is too large");
        *value = *value * 10 + digit;
        s->at++;
    }
    if (s->at == first)
        return fail(s, "an integer that is not negative expected");
    if (*first == '0' && s->at - first > 1)
        return fail(s, "a number with leading zeros");
    if (s->at < s->end && strchr(".eE", *s->at) != NULL && *s->at != '\0')
        return fail(s, "an integer expected, not a fraction");
    return true;
}

static bool scan_integers(struct scanner *s, int64_t *values, int limit, int *count)
{
    *count = 0;
    if (!expect(s, '['))
        return false;
    if (accept(s, ']'))
        return true;
    do {
        if (*count == limit)
            return fail(s, "too many numbers in the list");
        if (!scan_integer(s, &values[(*count)++]))
            return false;
    } while (accept(s, ','));
    return expect(s, ']');
}

/* ---- the header ------------------------------------------------------------------------------------------------ */

struct extent {
    int64_t begin, end;
};

static bool scan_metadata(struct scanner *s)
{
    if (!expect(s, '{'))
        return false;
    if (accept(s, '}'))
        return true;
    do {
        char *key = scan_string(s);
        char *value = key != NULL && expect(s, ':') ? scan_string(s) : NULL;
        bool good = value != NULL;
        free(key);
        free(value);
        if (!good)
            return false;
    } while (accept(s, ','));
    return expect(s, '}');
}

static bool scan_type(struct scanner *s, enum tensor_type *type)
{
    char *name = scan_string(s);
    if (name == NULL)
        return false;
    int found = 0;
    while (found < TYPE_COUNT && strcmp(types[found].name, name) != 0)
        found++;
    if (found == TYPE_COUNT)
        diag_error(s->diag, s->place, "dtype \"%s\" is not supported; F32, I32 and BOOL are", name);
    free(name);
    *type = (enum tensor_type)found;
    return found < TYPE_COUNT;
}

/* {"dtype": …, "shape": […], "data_offsets": [begin, end]}, each key once, in any order. */
static bool scan_entry(struct scanner *s, struct tensor *tensor, struct extent *extent)
{
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    unsigned seen = 0;
    if (!expect(s, '{'))
        return false;
    do {
        char *key = scan_string(s);
        if (key == NULL)
            return false;
        unsigned k = 0;
        while (k < 3 && strcmp(keys[k], key) != 0)
            k++;
        free(key);
        if (k == 3)
            return fail(s, "unknown key of a tensor; dtype, shape and data_offsets are known");
        if (seen & 1u << k)
            return fail(s, "a key of a tensor stands twice");
        seen |= 1u << k;
        int64_t offsets[2];
        int count;
        if (!expect(s, ':'))
            return false;
        if (k == 0 && !scan_type(s, &tensor->type))
            return false;
        if (k == 1 && !scan_integers(s, tensor->shape, TENSOR_RANK_LIMIT, &tensor->rank))
            return false;
        if (k == 2) {
            if (!scan_integers(s, offsets, 2, &count))
                return false;
            if (count != 2)
                return fail(s, "data_offsets needs two numbers");
            *extent = (struct extent){offsets[0], offsets[1]};
        }
    } while (accept(s, ','));
    if (seen != 7)
        return fail(s, "a tensor needs dtype, shape and data_offsets");
    return expect(s, '}');
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
        diag_error(s->diag, s->place, "tensor \"%s\" stands twice", name);
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

/* The tensor's data in memory of its own, so that it is aligned whatever the header's length. */
static bool copy_data(struct scanner *s, struct tensor *tensor, const unsigned char *from, size_t bytes)
{
    tensor->bytes = bytes;
    tensor->data = malloc(bytes > 0 ? bytes : 1);
    if (tensor->data == NULL) {
        diag_environment(s->diag, s->place, "out of memory");
        return false;
    }
    memcpy(tensor->data, from, bytes);
    for (size_t i = 0; tensor->type == TYPE_BOOL && i < bytes; i++)
        if (from[i] > 1) {
            diag_error(s->diag, s->place, "tensor \"%s\": a BOOL that is neither 0 nor 1", tensor->name);
            return false;
        }
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
        if (extents[i].begin != at) {
            diag_error(s->diag, s->place, "%s between the tensors at byte %lld of the data",
                       extents[i].begin < at ? "an overlap" : "a hole", (long long)extents[i].begin);
            return false;
        }
        at = extents[i].end;
    }
    if (at != data_size) {
        diag_error(s->diag, s->place, "%lld bytes behind the last tensor", (long long)(data_size - at));
        return false;
    }
    return true;
}

/* Doubles the arrays as they fill. */
static bool make_room(struct scanner *s, struct tensors *tensors, struct extent **extents)
{
    size_t count = tensors->count;
    if (count == COUNT_LIMIT)
        return fail(s, "too many tensors");
    if (count > 0 && (count < 16 || (count & (count - 1)) != 0))
        return true;
    size_t room = count < 16 ? 16 : 2 * count;
    struct tensor *items = realloc(tensors->items, room * sizeof *items);
    if (items != NULL)
        tensors->items = items;
    struct extent *more = items == NULL ? NULL : realloc(*extents, room * sizeof *more);
    if (more == NULL) {
        diag_environment(s->diag, s->place, "out of memory");
        return false;
    }
    *extents = more;
    return true;
}

static bool scan_tensor(struct scanner *s, struct tensors *tensors, struct extent **extents, char *name,
                        const unsigned char *data, int64_t data_size)
{
    struct tensor tensor = {.name = name};
    struct extent extent;
    bool good = scan_entry(s, &tensor, &extent) && check_entry(s, tensors, &tensor, extent, data_size) &&
                make_room(s, tensors, extents) &&
                copy_data(s, &tensor, data + extent.begin, (size_t)(extent.end - extent.begin));
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
                        const unsigned char *data, int64_t data_size)
{
    bool metadata = false;
    if (!expect(s, '{'))
        return false;
    if (!accept(s, '}')) {
        do {
            char *name = scan_string(s);
            if (name == NULL)
                return false;
            bool is_metadata = strcmp(name, "__metadata__") == 0;
            if (!expect(s, ':') || (is_metadata && metadata && !fail(s, "__metadata__ stands twice"))) {
                free(name);
                return false;
            }
            if (is_metadata) {
                metadata = true;
                free(name);
                if (!scan_metadata(s))
                    return false;
            } else if (!scan_tensor(s, tensors, extents, name, data, data_size)) {
                return false;
            }
        } while (accept(s, ','));
        if (!expect(s, '}'))
            return false;
    }
    skip_blanks(s);
    return s->at == s->end || fail(s, "something follows the header's object");
}

bool tensors_parse(struct tensors *tensors, const unsigned char *bytes, size_t size, const char *place,
                   struct diag *diag)
{
    *tensors = (struct tensors){0};
    if (size < 8) {
        diag_error(diag, place, "not a safetensors file: %zu bytes, and 8 are needed for the header's length", size);
        return false;
    }
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | bytes[i];
    if (length > HEADER_LIMIT || length > size - 8) {
        diag_error(diag, place, "not a safetensors file: a header of %llu bytes in a file of %zu",
                   (unsigned long long)length, size);
        return false;
    }
    const char *text = (const char *)bytes + 8;
    struct scanner s = {text, text + length, text, place, diag};
    struct extent *extents = NULL;
    int64_t data_size = (int64_t)(size - 8 - (size_t)length);
    bool good = scan_header(&s, tensors, &extents, bytes + 8 + length, data_size) &&
                check_cover(&s, extents, tensors->count, data_size);
    free(extents);
    if (!good)
        tensors_free(tensors);
    return good;
}

static unsigned char *read_whole(const char *path, size_t *size, struct diag *diag)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0 || (!S_ISREG(status.st_mode) && (errno = EINVAL))) {
        diag_environment(diag, path, "cannot be read: %s", strerror(errno));
        if (file >= 0)
            close(file);
        return NULL;
    }
    *size = (size_t)status.st_size;
    unsigned char *bytes = malloc(*size + 1);
    size_t done = 0;
    while (bytes != NULL && done < *size) {
        ssize_t got = read(file, bytes + done, *size - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    close(file);
    if (bytes == NULL || done < *size) {
        diag_environment(diag, path, bytes == NULL ? "out of memory" : "cannot be read to its end");
        free(bytes);
        return NULL;
    }
    return bytes;
}

bool tensors_read(struct tensors *tensors, const char *path, struct diag *diag)
{
    size_t size = 0;
    *tensors = (struct tensors){0};
    unsigned char *bytes = read_whole(path, &size, diag);
    if (bytes == NULL)
        return false;
    bool good = tensors_parse(tensors, bytes, size, path, diag);
    free(bytes);
    return good;
}

const struct tensor *tensors_find(const struct tensors *tensors, const char *name)
{
    for (size_t i = 0; i < tensors->count; i++)
        if (strcmp(tensors->items[i].name, name) == 0)
            return &tensors->items[i];
    return NULL;
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

static void write_string(FILE *out, const char *text)
{
    putc('"', out);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else
            fprintf(out, c == '"' || c == '\\' ? "\\%c" : "%c", c);
    }
    putc('"', out);
}

/* The JSON header, padded with blanks to a multiple of 8 so that the data is aligned. */
static char *make_header(const struct tensor *items, size_t count, size_t *length)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, length);
    if (out == NULL)
        return NULL;
    size_t at = 0;
    putc('{', out);
    for (size_t i = 0; i < count; i++) {
        const struct tensor *t = &items[i];
        fputs(i > 0 ? "," : "", out);
        write_string(out, t->name);
        fprintf(out, ":{\"dtype\":\"%s\",\"shape\":[", types[t->type].name);
        for (int d = 0; d < t->rank; d++)
            fprintf(out, "%s%lld", d > 0 ? "," : "", (long long)t->shape[d]);
        fprintf(out, "],\"data_offsets\":[%zu,%zu]}", at, at + t->bytes);
        at += t->bytes;
    }
    putc('}', out);
    for (long end = ftell(out); end % 8 != 0; end++)
        putc(' ', out);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static bool write_all(int file, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t wrote = write(file, at, bytes);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        at += wrote;
        bytes -= (size_t)wrote;
    }
    return true;
}

static bool write_file(int file, const char *header, size_t length, const struct tensor *items, size_t count)
{
    unsigned char size[8];
    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)((uint64_t)length >> (8 * i));
    bool good = write_all(file, size, 8) && write_all(file, header, length);
    for (size_t i = 0; good && i < count; i++)
        good = write_all(file, items[i].data, items[i].bytes);
    return good && fsync(file) == 0;
}

bool tensors_write(const char *path, const struct tensor *items, size_t count, struct diag *diag)
{
    size_t length = 0, room = strlen(path) + 8;
    char *header = make_header(items, count, &length), *temporary = malloc(room);
    bool good = false;
    if (header == NULL || temporary == NULL) {
        diag_environment(diag, path, "out of memory");
        goto done;
    }
    snprintf(temporary, room, "%s.XXXXXX", path);
    int file = mkstemp(temporary);
    if (file < 0) {
        diag_environment(diag, path, "cannot be written: %s", strerror(errno));
        goto done;
    }
    mode_t mask = umask(0);
    umask(mask);
    good = write_file(file, header, length, items, count) && fchmod(file, 0666 & ~mask) == 0;
    int reason = good ? 0 : errno;
    if (close(file) != 0 && good) {
        good = false;
        reason = errno;
    }
    if (good && rename(temporary, path) != 0) {
        good = false;
        reason = errno;
    }
    if (!good) {
        diag_environment(diag, path, "cannot be written: %s", strerror(reason));
        unlink(temporary);
    }
done:
    free(header);
    free(temporary);
    return good;
}
