/* SPDX-License-Identifier: MIT */
/* Reads a spec: bytes -> lines -> values by key.
 *
 *   lines   "key = value" lines and --set texts, duplicates found, --set over the file
 *   values  each value by its key's kind (size, word, mask, ...)
 */
#include "spec/spec.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/name.h"
#include "base/number.h"
#include "base/text.h"

#define MAX_SIZE INT64_C(2147483647)
#define LOG2_E 1.4426950408889634

/* ---- text ------------------------------------------------------------------------------------------------ */

static struct shown show(const char *text) { return text_show(text, strlen(text)); }

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

/* Narrows [*text, *text + *length) to what stands between the blanks. */
static void trim(const char **text, size_t *length)
{
    while (*length > 0 && is_blank(**text)) {
        (*text)++;
        (*length)--;
    }
    while (*length > 0 && is_blank((*text)[*length - 1]))
        (*length)--;
}

/* ---- lines ----------------------------------------------------------------------------------------------- */

static bool is_plan_key(const char *key)
{
    if (strncmp(key, "plan.", 5) != 0 || key[5] == '\0')
        return false;
    for (key += 5; *key != '\0'; key++)
        if (!is_letter(*key) && !is_digit(*key) && *key != '_' && *key != '.')
            return false;
    return true;
}

static bool is_table_key(const char *key) { return strncmp(key, "table.", 6) == 0 && key[6] != '\0'; }

bool layer_knows_key(const char *key)
{
    return key_find(key) < KEY_COUNT || is_plan_key(key) || is_table_key(key);
}

static void unknown_key(struct spec *spec, const char *place, const char *key)
{
    char text[NEAREST_TEXT];
    const char *hint;
    const enum key meant = key_nickname(key, &hint);
    const struct nearest nearest = layer_nearest_key(key);
    if (meant < KEY_COUNT)
        diag_error(spec->diag, place, "unknown key '%s'; did you mean '%s'%s?", key, key_rows[meant].name, hint);
    else
        diag_error(spec->diag, place, "unknown key '%s'; %s", show(key).text,
                   nearest_ask(&nearest, text, "write one that attngen --keys lists"));
}

/* The entry with this key among `count`, or the place after them, which is counted when it is filled; NULL, and an
 * error, where there are `limit` already. */
static struct entry *slot_among(struct spec *spec, struct entry *entries, size_t count, size_t limit, const char *place,
                                const char *key, const char *full)
{
    size_t i = 0;
    while (i < count && strcmp(key, entries[i].key) != 0)
        i++;
    if (i == limit)
        diag_error(spec->diag, place, "more than %zu %s", limit, full);
    return i < limit ? &entries[i] : NULL;
}

/* Where an entry with this key is or will be kept; NULL once it is reported that there is no such place. */
static struct entry *slot_of(struct spec *spec, const char *place, const char *key)
{
    if (key_find(key) < KEY_COUNT)
        return &spec->given[key_find(key)];
    if (is_table_key(key))
        return slot_among(spec, spec->tables, spec->table_count, LAYER_TABLES, place, key,
                          "tables; write at most that many, perhaps one with another axis");
    if (is_plan_key(key))
        return slot_among(spec, spec->plan, spec->plan_count, MAX_PLAN_KEYS, place, key,
                          "plan keys; write at most that many");
    unknown_key(spec, place, key);
    return NULL;
}

static void keep(struct spec *spec, const struct entry *entry)
{
    struct entry *slot = slot_of(spec, entry->place, entry->key);
    if (slot == NULL)
        return;
    if (slot->key != NULL && entry->line == 0 && slot->line == 0) {
        diag_error(spec->diag, entry->place, "duplicate key '%s', also in '%s'; keep one of them", entry->key,
                   slot->place);
    } else if (slot->key != NULL && entry->line != 0) {
        diag_error(spec->diag, entry->place, "duplicate key '%s', first in line %zu; keep one of them", entry->key,
                   slot->line);
    } else {
        if (slot == &spec->plan[spec->plan_count])
            spec->plan_count++;
        if (slot == &spec->tables[spec->table_count])
            spec->table_count++;
        *slot = *entry;
    }
}

/* A value must be printable and not empty. A bad one is kept as empty, so that its key counts as given and is reported
 * once. */
static void check_text(struct spec *spec, struct entry *entry)
{
    const struct shown key = show(entry->key);
    if (entry->value[0] == '\0')
        diag_error(spec->diag, entry->place, "'%s' has no value; write %s = value", key.text, key.text);
    for (const char *c = entry->value; *c != '\0'; c++)
        if (((unsigned char)*c < 0x20 && *c != '\t') || *c == 0x7f) {
            diag_error(spec->diag, entry->place, "control character \\x%02x; a spec is plain text, write %s = value",
                       (unsigned)*c, key.text);
            entry->value[0] = '\0';
        }
}

/* One line without its end; `line` is 0 for a --set. */
static void read_line(struct spec *spec, const char *text, size_t length, const char *place, size_t line)
{
    const char *const begin = text;
    const char *comment = memchr(text, '#', length);
    if (comment != NULL)
        length = (size_t)(comment - text);
    trim(&text, &length);
    if (length == 0 && line != 0)
        return;

    const char *equals = memchr(text, '=', length);
    if (equals == NULL) {
        diag_error(spec->diag, place, "'%s' has no '='; write key = value", text_show(text, length).text);
        return;
    }

    const char *value = equals + 1;
    size_t key_length = (size_t)(equals - text), value_length = length - key_length - 1;
    trim(&text, &key_length);
    trim(&value, &value_length);
    if (key_length == 0) {
        diag_error(spec->diag, place, "nothing before the '='; write key = value");
        return;
    }
    struct entry entry = {pool_take(&spec->memory, text_part(text, key_length)),
                          pool_take(&spec->memory, text_part(value, value_length)),
                          pool_take(&spec->memory, text_copy(place)), line, (size_t)(value - begin) + 1};
    check_text(spec, &entry);
    keep(spec, &entry);
}

/* False for what is no text: reading ends, as further errors would only repeat it. */
static bool is_text(struct spec *spec, const char *bytes, size_t count, const char *place)
{
    if (memchr(bytes, '\0', count) != NULL)
        diag_error(spec->diag, place, "NUL byte; a spec is plain text in UTF-8, one 'key = value' a line");
    else if (memchr(bytes, '\r', count) != NULL)
        diag_error(spec->diag, place, "carriage return inside a line; end lines with LF or CR LF");
    else
        return true;
    spec->failed = true;
    return false;
}

static void read_lines(struct spec *spec, const char *bytes, size_t length)
{
    HEAP char *place = memory_get(strlen(spec->path) + 32, 1);
    const char *end = bytes + length;
    if (length >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0)
        bytes += 3;
    for (size_t line = 1; bytes < end && !spec->failed; line++) {
        const char *newline = memchr(bytes, '\n', (size_t)(end - bytes));
        const char *stop = newline != NULL ? newline : end;
        size_t count = (size_t)(stop - bytes);
        sprintf(place, "%s:%zu", spec->path, line);
        if (count > 0 && bytes[count - 1] == '\r')
            count--;
        if (!is_text(spec, bytes, count, place))
            break;
        read_line(spec, bytes, count, place, line);
        bytes = newline != NULL ? newline + 1 : end;
    }
}

static void read_spec_file(struct spec *spec)
{
    size_t length = 0;
    HEAP char *bytes = file_read(spec->path, WHOLE_SPEC, &length, spec->diag);
    spec->failed = bytes == NULL; /* what --set says alone would only be half of it */
    if (bytes != NULL)
        read_lines(spec, bytes, length);
}

static void read_sets(struct spec *spec, const char *const *set, size_t set_count)
{
    for (size_t i = 0; i < set_count && !spec->failed; i++) {
        char place[sizeof(struct shown) + 8];
        snprintf(place, sizeof place, "--set %s", show(set[i]).text);
        if (set[i][strspn(set[i], " \t")] == '\0')
            diag_error(spec->diag, "--set", "nothing to set; write --set key=value");
        else
            read_line(spec, set[i], strlen(set[i]), place, 0);
    }
}

/* ---- the name -------------------------------------------------------------------------------------------- */

char *spec_stem(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    return text_part(base, dot != NULL && dot != base ? (size_t)(dot - base) : strlen(base));
}

void spec_check_name(struct spec *spec)
{
    char good[MAX_NAME + 1];
    if (is_given(spec, KEY_NAME)) {
        const char *name = spec->given[KEY_NAME].value;
        const char *fault = layer_name_fault(name);
        if (fault == NULL || name[0] == '\0')
            return;
        name_suggest(name, good);
        wrong(spec, KEY_NAME, "name = '%s' %s; write for example name = %s", show(name).text, fault, good);
        return;
    }
    HEAP char *stem = spec_stem(spec->path);
    const char *fault = layer_name_fault(stem);
    if (fault != NULL) {
        name_suggest(stem, good);
        diag_error(spec->diag, spec->path, "there is no name, and the file's stem '%s' %s; write for example name = %s",
                   show(stem).text, fault, good);
    }
}

/* ---- values ---------------------------------------------------------------------------------------------- */

/* A size from 1; a number of positions from 0; how far a window reaches to one side. */
static bool read_whole(struct spec *spec, enum key key, const char *text)
{
    const enum key_kind kind = key_rows[key].kind;
    uint64_t number = 0;
    if (kind == KIND_REACH && strcmp(text, "unbounded") == 0) {
        spec->value[key] = LAYER_UNBOUNDED;
        return true;
    }
    const bool good = number_whole(text, strlen(text), kind == KIND_SIZE, MAX_SIZE, &number);
    spec->value[key] = good ? (int64_t)number : -1;
    if (!good)
        wrong(spec, key, "%s = '%s' is not a %s; write a whole number from %d to 2147483647%s", key_rows[key].name,
              show(text).text, kind == KIND_SIZE ? "size" : "number of positions", kind == KIND_SIZE,
              kind == KIND_REACH ? ", or unbounded" : "");
    return good;
}

/* A number above 0 that is one in f32 too. */
static bool read_positive(struct spec *spec, enum key key, const char *text)
{
    double *number = &spec->real[key];
    const bool good = number_real(text, number) && *number >= (double)FLT_MIN && *number <= (double)FLT_MAX;
    if (!good)
        wrong(spec, key, "%s = '%s' is not a number above 0 in f32; write one from 1.18e-38 to 3.40e38",
              key_rows[key].name, show(text).text);
    return good;
}

/* For the end of a message that a key does not have this word: where the word belongs, or a similar one that the key
 * has. */
static const char *meant_word(enum key key, const char *text, char meant[NEAREST_TEXT])
{
    static const enum key types[] = {KEY_PRECISION, KEY_WEIGHT_TYPE, KEY_CACHE_TYPE, KEY_TENSOR_TYPE};
    const char *ours = key_our_word(key, text);
    bool of_types = false;
    for (size_t i = 0; i < COUNT_OF(types); i++)
        of_types = of_types || types[i] == key;
    for (size_t i = 0; of_types && ours == NULL && i < COUNT_OF(types); i++) {
        const char *other = key_find_word(types[i], text) != NULL ? text : key_our_word(types[i], text);
        if (other != NULL) {
            snprintf(meant, NEAREST_TEXT, " (%s = %s is legal)", key_rows[types[i]].name, other);
            return meant;
        }
    }
    if (key == KEY_HEADS && *text >= '0' && *text <= '9')
        return " (the number of heads is h)";
    struct nearest nearest = key_nearest_word(key, text, strlen(text));
    if (ours != NULL)
        nearest.word = ours;
    return nearest_add(&nearest, meant);
}

static bool read_word(struct spec *spec, enum key key, const char *text)
{
    char known[160], meant[NEAREST_TEXT];
    const struct key_word *word = key_find_word(key, text);
    spec->value[key] = word != NULL ? word->value : -1;
    if (word == NULL) {
        key_list_words(key, known, sizeof known);
        wrong(spec, key, "%s = '%s' is not known; write %s%s", key_rows[key].name, show(text).text, known,
              meant_word(key, text, meant));
    }
    return word != NULL;
}

/* The bits of a mask's word; 0: there is none. */
static unsigned mask_of(const char *text, size_t length)
{
    char word[TEXT_SHOWN + 1];
    snprintf(word, sizeof word, "%.*s", (int)length, text);
    const struct key_word *found = length < sizeof word ? key_find_word(KEY_MASK, word) : NULL;
    return found != NULL ? (unsigned)found->value : 0;
}

/* Masks that something else joins, as a spec writes them; NULL where one is not known. */
static const char *joined_masks(const char *text, char joined[TEXT_SHOWN + 1])
{
    size_t used = 0;
    while (*text != '\0') {
        const size_t length = strcspn(text, ",|& "), blanks = strspn(text + length, ",|& ");
        if (used + length + 2 > TEXT_SHOWN || mask_of(text, length) == 0)
            return NULL;
        used += (size_t)sprintf(joined + used, "%s%.*s", used > 0 ? "+" : "", (int)length, text);
        text += length + blanks;
    }
    return joined;
}

/* "none", or masks joined by '+'. */
static bool read_mask(struct spec *spec, enum key key, const char *text)
{
    const char *place = place_of(spec, key);
    unsigned mask = 0;
    bool more = strcmp(text, "none") != 0;
    while (more) {
        const char *part = text;
        const size_t whole = strcspn(text, "+");
        size_t length = whole;
        trim(&part, &length);
        more = text[whole] == '+';
        text += whole + (more ? 1 : 0);

        const unsigned bit = mask_of(part, length);
        if (bit != 0 && (mask & bit) == 0) {
            mask |= bit;
        } else if (bit != 0) {
            return diag_error(spec->diag, place, "mask names %s twice; write each mask once", key_word(key, bit));
        } else if (length == 0) {
            return diag_error(spec->diag, place, "mask has nothing on one side of a '+'; write for example "
                              "causal+padding");
        } else if (length == 4 && memcmp(part, "none", 4) == 0) {
            return diag_error(spec->diag, place, "mask joins none to another mask; write none alone, or leave it out");
        } else {
            char unknown[TEXT_SHOWN + 2], known[100], meant[NEAREST_TEXT], joined[TEXT_SHOWN + 1];
            struct nearest nearest = key_nearest_word(key, part, length);
            snprintf(unknown, sizeof unknown, "%.*s", (int)length, part);
            key_list_words(key, known, sizeof known);
            if (key_our_word(key, unknown) != NULL)
                nearest.word = key_our_word(key, unknown);
            if (strpbrk(unknown, ",|& ") != NULL)
                nearest.word = length <= TEXT_SHOWN ? joined_masks(unknown, joined) : NULL;
            return diag_error(spec->diag, place, "mask '%s' is not known; write none, or any of %s joined by +%s",
                              show(unknown).text, known, nearest_add(&nearest, meant));
        }
    }
    spec->value[key] = (int64_t)mask;
    return true;
}

/* Kernels compute powers of 2 in f32: what they multiply by is
 * scale log2(e), and that must be finite there, and 0 or normal, for a subnormal number has fewer bits. */
static bool read_factor(struct spec *spec, enum key key, const char *text)
{
    double *number = &spec->real[key];
    if (!number_real(text, number))
        return wrong(spec, key, "%s = '%s' is not a number; write for example 0.125", key_rows[key].name,
                     show(text).text);
    const double factor = fabs(*number) * LOG2_E;
    const bool zero = factor == 0 && errno != ERANGE; /* 1e-400 is not meant as 0 */
    if (!(factor <= (double)FLT_MAX))
        return wrong(spec, key, "%s = '%s' times log2(e) is not finite in f32; write a number within 2.35e38",
                     key_rows[key].name, show(text).text);
    if (factor < (double)FLT_MIN && !zero)
        return wrong(spec, key, "%s = '%s' times log2(e) is subnormal or 0 in f32; write 0, or a number of at least "
                     "8.15e-39 in size", key_rows[key].name, show(text).text);
    return true;
}

/* What is left, 1 less it, is divided by. */
static bool read_share(struct spec *spec, enum key key, const char *text)
{
    double *number = &spec->real[key];
    const bool good = number_real(text, number) && *number >= 0 && *number < 1;
    if (!good)
        wrong(spec, key, "%s = '%s' is not a number from 0, below 1; write for example 0.1", key_rows[key].name,
              show(text).text);
    return good;
}

/* A number above 0, or "none". */
static bool read_cap(struct spec *spec, enum key key, const char *text)
{
    if (strcmp(text, "none") == 0)
        return true;
    if (!read_factor(spec, key, text))
        return false;
    if (spec->real[key] <= 0)
        wrong(spec, key, "%s = %.9g is not above 0; write a number above 0, or none", key_rows[key].name,
              spec->real[key]);
    return spec->real[key] > 0;
}

bool spec_next(const char **at, double *number)
{
    const char *first = *at, *comma = strchr(first, ',');
    size_t length = comma != NULL ? (size_t)(comma - first) : strlen(first);
    char text[64] = "";
    *at = comma != NULL ? comma + 1 : NULL;
    for (; length > 0 && (*first == ' ' || *first == '\t'); length--)
        first++;
    while (length > 0 && (first[length - 1] == ' ' || first[length - 1] == '\t'))
        length--;
    memcpy(text, first, length < sizeof text ? length : 0);
    return number_real(text, number) && *number >= (double)FLT_MIN && *number <= (double)FLT_MAX;
}

/* How many, and the smallest, of numbers above 0 */
static bool read_list(struct spec *spec, enum key key, const char *text)
{
    double number;
    bool good = true;
    spec->value[key] = 0;
    spec->real[key] = INFINITY;
    for (const char *at = text; at != NULL && good; spec->value[key]++) {
        good = spec_next(&at, &number);
        spec->real[key] = fmin(spec->real[key], good ? number : 0);
    }
    if (!good)
        wrong(spec, key, "number %lld of %s is not one above 0 in f32; write numbers from 1.18e-38 to 3.40e38 with "
              "commas between, as in 1, 1.25", (long long)spec->value[key], key_rows[key].name);
    return good;
}

static bool read_nothing(struct spec *spec, enum key key, const char *text)
{
    (void)spec, (void)key, (void)text; /* the name has its own check, its default can be wrong too; so do expressions */
    return true;
}

static bool (*const readers[])(struct spec *spec, enum key key, const char *text) = {
    [KIND_NAME] = read_nothing, [KIND_SIZE] = read_whole, [KIND_REACH] = read_whole, [KIND_COUNT] = read_whole,
    [KIND_MASK] = read_mask, [KIND_WORD] = read_word, [KIND_SWITCH] = read_word, [KIND_EXPRESSION] = read_nothing,
    [KIND_LIST] = read_list,
    [KIND_FACTOR] = read_factor, [KIND_CAP] = read_cap, [KIND_POSITIVE] = read_positive, [KIND_SHARE] = read_share};

/* A key that must be given, and is not, is bad; so is one that perhaps must be, of which nothing is said. */
static void check_required(struct spec *spec, enum key key)
{
    const struct key_row *row = &key_rows[key];
    if (is_given(spec, key) || row->example == NULL || !key_is_of(spec, key))
        return;
    spec->bad_read = false;
    const bool wanted = row->needed != NULL ? row->needed(spec) : row->has_meaning == NULL || row->has_meaning(spec);
    if (wanted && !spec->bad_read)
        diag_error(spec->diag, spec->path, "%s is missing; write for example %s = %s", row->name, row->name,
                   row->example);
    spec->bad[key] = wanted || spec->bad_read;
}

/* A key that is not given takes the value of another one, and is bad where that one is. */
static void take_default(struct spec *spec, enum key key)
{
    for (size_t i = 0; i < COUNT_OF(key_rows[key].from) && !is_given(spec, key); i++) {
        const enum key from = key_rows[key].from[i];
        if (from == KEY_NAME || !key_is_of(spec, from) || !has_meaning(spec, from))
            continue;
        spec->value[key] = spec->value[from];
        spec->real[key] = spec->real[from];
        spec->bad[key] = spec->bad[key] || spec->bad[from];
        return;
    }
}

void spec_values(struct spec *spec)
{
    for (enum key key = 0; key < KEY_COUNT; key++) {
        const struct key_row *row = &key_rows[key];
        const char *text = spec->given[key].value;
        spec->real[key] = row->absent;
        spec->value[key] = (int64_t)row->absent;
        if (text == NULL)
            continue;
        if (text[0] == '\0' || !readers[row->kind](spec, key, text)) /* empty: reported with its line */
            spec->bad[key] = true;
        spec->differs[key] = spec->value[key] != (int64_t)row->absent || spec->real[key] != row->absent ||
                             row->kind == KIND_EXPRESSION || key == KEY_NORM; /* of a linear layer any is one */
    }
    for (enum key key = 0; key < KEY_COUNT; key++)
        check_required(spec, key);
    if (is_given(spec, KEY_ROPE_FACTORS) && !is_given(spec, KEY_ROPE_SCALING))
        spec->value[KEY_ROPE_SCALING] = SCALING_LONGROPE;
    for (enum key key = 0; key < KEY_COUNT; key++)
        take_default(spec, key);
}

/* FNV-1a, 64 bits. */
void spec_fingerprint(const char *text, char fingerprint[17])
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *c = text; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    snprintf(fingerprint, 17, "%016" PRIx64, hash);
}

/* What the line has of a key that is not left out */
static void print_steering(const struct spec *spec, const struct layer *layer, enum key key, FILE *out)
{
    const struct key_row *row = &key_rows[key];
    const bool from_field = row->type != FIELD_NONE && (row->steers == STEERS_ALWAYS || row->steers == STEERS_MEANT);
    const int64_t value = from_field ? key_whole(layer, key) : spec->value[key];
    char text[LAYER_MASK_TEXT];
    if (row->kind == KIND_MASK)
        layer_mask_text((unsigned)value, text);
    else if (row->kind == KIND_EXPRESSION)
        spec_fingerprint(spec->given[key].value, text);
    else if (row->steers == STEERS_IF_ANY)
        snprintf(text, sizeof text, "true");
    else if (row->kind == KIND_WORD || row->kind == KIND_SWITCH)
        snprintf(text, sizeof text, "%s%s", key_word(key, value),
                 key == KEY_INPUT && layer->heads_first ? "_first" : "");
    else if (kind_is_real(row->kind))
        snprintf(text, sizeof text, "%.9g", spec->real[key]);
    else if (row->kind == KIND_REACH && value == LAYER_UNBOUNDED)
        snprintf(text, sizeof text, "unbounded");
    else
        snprintf(text, sizeof text, "%" PRId64, value);
    fprintf(out, "%s%s=%s", ftell(out) > 0 ? " " : "", row->name, text);
}

char *spec_steering(struct spec *spec, const struct layer *layer)
{
    char fingerprint[17];
    struct text text;
    FILE *out = text_begin(&text);
    for (enum key key = 0; key < KEY_COUNT; key++) {
        const enum key_steers steers = key_rows[key].steers;
        if (key_rows[key].of != 0 && (key_rows[key].of & ~OF_STATES) == 0 && !key_is_of(spec, key))
            continue;
        if (steers == STEERS_ALWAYS || (steers == STEERS_MEANT && has_meaning(spec, key)) ||
            (steers <= STEERS_IF_ANY && spec->differs[key]))
            print_steering(spec, layer, key, out);
    }
    for (size_t i = 0; i < spec->table_count; i++) { /* blanks in extents */
        spec_fingerprint(spec->tables[i].value, fingerprint);
        fprintf(out, " %s=%s", spec->tables[i].key, fingerprint);
    }
    return text_end(&text);
}

void spec_read(struct spec *spec, const char *const *set, size_t set_count)
{
    if (spec->text != NULL)
        read_lines(spec, spec->text, strlen(spec->text));
    else
        read_spec_file(spec);
    read_sets(spec, set, set_count);
}
