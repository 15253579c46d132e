/* SPDX-License-Identifier: MIT */
/* Reads a spec: bytes → lines → values by key → rules → struct layer; then what follows from a layer.
 *
 *   read_lines   "key = value" lines and --set texts, duplicates found, --set over the file
 *   read_values  each value by its key's kind (size, word, mask, …)
 *   rules        what the keys may not say together; each rule runs only if the keys that it needs are good,
 *                so that one mistake is reported once and independent mistakes are all reported
 *   fill, totals defaults, derived sizes, and tensors that no C array could hold
 *
 * Left out on purpose: the meaning of "plan.*" keys (plan.h), includes, variables, quoting, any state.
 */
#include "layer.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "diag.h"
#include "file.h"
#include "filekind.h"
#include "number.h"
#include "reserved.h"
#include "score.h"
#include "visible.h"

#define MAX_SPEC_BYTES (1u << 20) /* a spec of twenty lines has no business being longer */
#define MAX_PLAN_KEYS 256
#define MAX_SIZE INT64_C(2147483647)
#define MAX_NAME 63 /* characters that every C compiler tells apart */
#define MAX_SHOWN 60 /* characters of a value that a message repeats */
#define LOG2_E 1.4426950408889634
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- keys ------------------------------------------------------------------------------------------------ */

enum key {
    KEY_NAME, KEY_D_MODEL, KEY_H, KEY_H_KV, KEY_WIDTH, KEY_D_K, KEY_D_V, KEY_INPUT, KEY_ATTENTION, KEY_D_SOURCE,
    KEY_SEQ_LEN, KEY_SOURCE_LEN, KEY_MASK, KEY_WINDOW_LEFT, KEY_WINDOW_RIGHT, KEY_W_K, KEY_W_V, KEY_W_O,
    KEY_CONV_WIDTH, KEY_BIAS,
    KEY_TERMS, /* and on, by enum score_name: the numbers of score terms */
    KEY_SCORES = KEY_TERMS + SCORE_TERMS, KEY_WEIGHT_LAYOUT, KEY_COUNT
};

enum kind { KIND_NAME, KIND_SIZE, KIND_REACH, KIND_MASK, KIND_FACTOR, KIND_WORD };

struct key_row {
    const char *name;
    enum kind kind;
    const char *const *words; /* KIND_WORD: the value is the index; the first is the default */
};

static const char *const words_width[] = {"narrow", "wide", NULL};
static const char *const words_input[] = {"shared", "split", NULL};
static const char *const words_attention[] = {"self", "cross", NULL};
static const char *const words_w_k[] = {"dense", "tied", NULL};
static const char *const words_w_v[] = {"dense", "identity", NULL};
static const char *const words_w_o[] = {"dense", "none", "conv", NULL}; /* as enum layer_w_o */
static const char *const words_switch[] = {"false", "true", NULL};
static const char *const words_weight_layout[] = {"in_out", "out_in", NULL};

static const struct key_row keys[KEY_COUNT] = {
    [KEY_NAME] = {"name", KIND_NAME, NULL},
    [KEY_D_MODEL] = {"d_model", KIND_SIZE, NULL},
    [KEY_H] = {"h", KIND_SIZE, NULL},
    [KEY_H_KV] = {"h_kv", KIND_SIZE, NULL},
    [KEY_WIDTH] = {"width", KIND_WORD, words_width},
    [KEY_D_K] = {"d_k", KIND_SIZE, NULL},
    [KEY_D_V] = {"d_v", KIND_SIZE, NULL},
    [KEY_INPUT] = {"input", KIND_WORD, words_input},
    [KEY_ATTENTION] = {"attention", KIND_WORD, words_attention},
    [KEY_D_SOURCE] = {"d_source", KIND_SIZE, NULL},
    [KEY_SEQ_LEN] = {"seq_len", KIND_SIZE, NULL},
    [KEY_SOURCE_LEN] = {"source_len", KIND_SIZE, NULL},
    [KEY_MASK] = {"mask", KIND_MASK, NULL},
    [KEY_WINDOW_LEFT] = {"window_left", KIND_REACH, NULL},
    [KEY_WINDOW_RIGHT] = {"window_right", KIND_REACH, NULL},
    [KEY_W_K] = {"w_k", KIND_WORD, words_w_k},
    [KEY_W_V] = {"w_v", KIND_WORD, words_w_v},
    [KEY_W_O] = {"w_o", KIND_WORD, words_w_o},
    [KEY_CONV_WIDTH] = {"conv_width", KIND_SIZE, NULL},
    [KEY_BIAS] = {"bias", KIND_WORD, words_switch},
    [KEY_SCORES] = {"scores", KIND_WORD, words_switch},
    [KEY_WEIGHT_LAYOUT] = {"weight_layout", KIND_WORD, words_weight_layout},
};

#define BIT(key) (UINT64_C(1) << (key))
_Static_assert(KEY_COUNT <= 64, "a bit for each key");

static bool is_number(enum key key)
{
    return key >= KEY_TERMS && key < KEY_TERMS + SCORE_TERMS;
}

/* NULL: of a score term that has no number. */
static const char *name_of(enum key key)
{
    return is_number(key) ? score_terms[key - KEY_TERMS].key : keys[key].name;
}

static bool is_key(enum key key, const char *text)
{
    return name_of(key) != NULL && strcmp(text, name_of(key)) == 0;
}

/* One "key = value", wherever it stood. */
struct entry {
    char *key; /* NULL: not given */
    char *value;
    char *place;  /* "file:line" or "--set key=value" */
    size_t line;  /* 0: of a --set */
};

struct spec {
    const char *path;
    struct diag *diag;
    bool failed; /* no memory: stop */
    struct entry given[KEY_COUNT];
    struct entry plan[MAX_PLAN_KEYS];
    size_t plan_count;

    uint64_t bad;             /* BIT(key): required and missing, or its value is wrong and has been reported */
    int64_t value[KEY_COUNT]; /* what was written or, without that, the default; valid unless bad */
    double number[SCORE_TERMS];
};

static bool is_given(const struct spec *spec, enum key key)
{
    return spec->given[key].key != NULL;
}

/* Where an error about this key belongs: its line, or the file if it is not written. */
static const char *place_of(const struct spec *spec, enum key key)
{
    return is_given(spec, key) ? spec->given[key].place : spec->path;
}

/* ---- text ------------------------------------------------------------------------------------------------ */

struct shown { char text[4 * MAX_SHOWN + 4]; };

/* Text as a message may repeat it: cut, and with every byte visible (a no-break space in a number is otherwise
 * hard to find). */
static struct shown show(const char *text)
{
    struct shown shown;
    size_t used = 0, taken = 0;
    for (; taken < MAX_SHOWN && text[taken] != '\0'; taken++) {
        const unsigned char byte = (unsigned char)text[taken];
        if (byte >= 0x20 && byte < 0x7f)
            shown.text[used++] = (char)byte;
        else
            used += (size_t)snprintf(shown.text + used, 5, "\\x%02x", byte);
    }
    strcpy(shown.text + used, text[taken] != '\0' ? "..." : "");
    return shown;
}

/* The `length` bytes at `text` as a string; NULL without memory. */
static char *copy_text(const char *text, size_t length)
{
    char *copy = malloc(length + 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

static void out_of_memory(struct spec *spec)
{
    if (!spec->failed)
        diag_environment(spec->diag, spec->path, "out of memory; free some and try again");
    spec->failed = true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

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

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "narrow or wide", "a, b or c" */
static void list_words(const char *const *words, char *text, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; words[i] != NULL && used < size; i++) {
        const char *joint = i == 0 ? "" : words[i + 1] == NULL ? " or " : ", ";
        used += (size_t)snprintf(text + used, size - used, "%s%s", joint, words[i]);
    }
}

/* The word of these that was perhaps meant. */
static struct nearest nearest_word(const char *const *words, const char *text, size_t length)
{
    struct nearest nearest = nearest_to(text, length);
    for (size_t i = 0; words[i] != NULL; i++)
        nearest_offer(&nearest, words[i]);
    return nearest;
}

/* ---- lines ----------------------------------------------------------------------------------------------- */

static void free_entry(struct entry *entry)
{
    free(entry->key);
    free(entry->value);
    free(entry->place);
    *entry = (struct entry){0};
}

static bool is_plan_key(const char *key)
{
    if (strncmp(key, "plan.", 5) != 0 || key[5] == '\0')
        return false;
    for (key += 5; *key != '\0'; key++)
        if (!is_letter(*key) && !is_digit(*key) && *key != '_' && *key != '.')
            return false;
    return true;
}

bool layer_knows_key(const char *key)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (is_key(i, key))
            return true;
    return is_plan_key(key);
}

struct nearest layer_nearest_key(const char *key)
{
    struct nearest nearest = nearest_to(key, strlen(key));
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (name_of(i) != NULL)
            nearest_offer(&nearest, name_of(i));
    return nearest;
}

static void unknown_key(struct spec *spec, const char *place, const char *key)
{
    const char *names[KEY_COUNT + 2] = {0};
    char known[400] = "write one of ", text[NEAREST_TEXT];
    const size_t used = strlen(known);
    size_t count = 0;
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (name_of(i) != NULL)
            names[count++] = name_of(i);
    const struct nearest nearest = layer_nearest_key(key);
    names[count] = "plan.*";
    list_words(names, known + used, sizeof known - used);
    diag_error(spec->diag, place, "unknown key '%s'; %s", show(key).text, nearest_ask(&nearest, text, known));
}

/* Where an entry with this key is or will be kept; NULL once it is reported that there is no such place. */
static struct entry *slot_of(struct spec *spec, const char *place, const char *key)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (is_key(i, key))
            return &spec->given[i];
    if (!is_plan_key(key)) {
        unknown_key(spec, place, key);
        return NULL;
    }
    for (size_t i = 0; i < spec->plan_count; i++)
        if (strcmp(key, spec->plan[i].key) == 0)
            return &spec->plan[i];
    if (spec->plan_count == MAX_PLAN_KEYS) {
        diag_error(spec->diag, place, "more than %d plan keys; write at most that many", MAX_PLAN_KEYS);
        return NULL;
    }
    return &spec->plan[spec->plan_count]; /* counted when it is filled */
}

/* Takes over the entry's texts. */
static void keep(struct spec *spec, struct entry *entry)
{
    struct entry *slot = slot_of(spec, entry->place, entry->key);
    if (slot == NULL) {
        free_entry(entry);
    } else if (slot->key != NULL && entry->line == 0 && slot->line == 0) {
        diag_error(spec->diag, entry->place, "duplicate key '%s', also in '%s'; keep one of them", entry->key,
                   slot->place);
        free_entry(entry);
    } else if (slot->key != NULL && entry->line != 0) {
        diag_error(spec->diag, entry->place, "duplicate key '%s', first in line %zu; keep one of them", entry->key,
                   slot->line);
        free_entry(entry);
    } else {
        if (slot == &spec->plan[spec->plan_count])
            spec->plan_count++;
        free_entry(slot);
        *slot = *entry;
    }
}

/* A value must be something, and printable. One that is not becomes empty and is kept, so that its key counts as
 * given and nothing more is said about it. */
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
    const char *comment = memchr(text, '#', length);
    if (comment != NULL)
        length = (size_t)(comment - text);
    trim(&text, &length);
    if (length == 0 && line != 0)
        return;

    const char *equals = memchr(text, '=', length);
    if (equals == NULL) {
        char *whole = copy_text(text, length);
        if (whole == NULL)
            out_of_memory(spec);
        else
            diag_error(spec->diag, place, "'%s' has no '='; write key = value", show(whole).text);
        free(whole);
        return;
    }

    const char *value = equals + 1;
    size_t key_length = (size_t)(equals - text), value_length = length - key_length - 1;
    trim(&text, &key_length);
    trim(&value, &value_length);
    struct entry entry = {copy_text(text, key_length), copy_text(value, value_length), copy_text(place, strlen(place)),
                          line};
    if (entry.key == NULL || entry.value == NULL || entry.place == NULL) {
        out_of_memory(spec);
        free_entry(&entry);
    } else if (key_length == 0) {
        diag_error(spec->diag, place, "nothing before the '='; write key = value");
        free_entry(&entry);
    } else {
        check_text(spec, &entry);
        keep(spec, &entry);
    }
}

/* False, and the end, for what is no text of lines: the rest would only repeat it. */
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
    char *place = malloc(strlen(spec->path) + 32);
    if (place == NULL) {
        out_of_memory(spec);
        return;
    }
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
    free(place);
}

static void read_spec_file(struct spec *spec)
{
    size_t length = 0;
    char *bytes = file_bytes(spec->path, MAX_SPEC_BYTES + 1, &length);
    const int error = errno;
    const bool other = bytes != NULL && file_is_other(spec->path, bytes, length, FILE_SPEC, spec->diag);
    spec->failed = true; /* what --set says alone would only be half of it */
    if (bytes == NULL && error == EISDIR) {
        diag_environment(spec->diag, spec->path, "is a directory; give the path of a spec file");
    } else if (bytes == NULL) {
        diag_environment(spec->diag, spec->path, "cannot be read: %s; give the path of a spec file", strerror(error));
    } else if (!other && length > MAX_SPEC_BYTES) {
        diag_error(spec->diag, spec->path, "longer than 1 MiB; a spec has some twenty lines");
    } else if (!other) {
        spec->failed = false;
        read_lines(spec, bytes, length);
    }
    free(bytes);
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

/* ---- names ----------------------------------------------------------------------------------------------- */

static bool is_in(const char *word, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

/* With the float and long double sisters of a name: sinf, sinl. */
static bool is_library_name(const char *name)
{
    char stem[MAX_NAME + 1];
    const size_t length = strlen(name);
    if (is_in(name, library_names, COUNT_OF(library_names)))
        return true;
    if (length < 3 || length > MAX_NAME || (name[length - 1] != 'f' && name[length - 1] != 'l'))
        return false;
    memcpy(stem, name, length - 1);
    stem[length - 1] = '\0';
    return is_in(stem, library_names, COUNT_OF(library_names));
}

const char *layer_name_fault(const char *name)
{
    const size_t length = strlen(name);
    for (size_t i = 0; i < length; i++)
        if (!is_letter(name[i]) && name[i] != '_' && (!is_digit(name[i]) || i == 0))
            return "is no C identifier";
    if (length == 0)
        return "is no C identifier";
    if (length > MAX_NAME)
        return "is longer than 63 characters";
    if (name[0] == '_')
        return "begins with an underscore, which C reserves";
    if (strstr(name, "__") != NULL)
        return "has a double underscore, which C++ reserves";
    if (name[length - 1] == '_')
        return "ends in an underscore, which becomes a double one in every emitted name, and C++ reserves those";
    if (is_in(name, keywords, COUNT_OF(keywords)))
        return "is a keyword of C or C++";
    if (is_library_name(name))
        return "is a name of the C or C++ library";
    return NULL;
}

/* A name near `bad` that would do. */
static void suggest_name(const char *bad, char good[MAX_NAME + 1])
{
    size_t used = 0;
    while (*bad != '\0' && !is_letter(*bad) && !is_digit(*bad))
        bad++;
    if (is_digit(*bad)) {
        strcpy(good, "layer_");
        used = strlen(good);
    }
    for (; *bad != '\0' && used < MAX_NAME - strlen("_layer"); bad++) {
        if (is_letter(*bad) || is_digit(*bad))
            good[used++] = *bad;
        else if (good[used - 1] != '_')
            good[used++] = '_';
    }
    while (used > 0 && good[used - 1] == '_')
        used--;
    good[used] = '\0';
    if (used == 0)
        strcpy(good, "my_layer");
    else if (layer_name_fault(good) != NULL)
        strcpy(good + used, "_layer");
}

/* The file's stem: what stands between the last slash and the last dot. */
static char *stem_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    return copy_text(base, dot != NULL && dot != base ? (size_t)(dot - base) : strlen(base));
}

static void check_name(struct spec *spec)
{
    char good[MAX_NAME + 1];
    if (is_given(spec, KEY_NAME)) {
        const char *name = spec->given[KEY_NAME].value;
        const char *fault = layer_name_fault(name);
        if (fault == NULL || name[0] == '\0')
            return;
        suggest_name(name, good);
        diag_error(spec->diag, place_of(spec, KEY_NAME), "name = '%s' %s; write for example name = %s",
                   show(name).text, fault, good);
        return;
    }
    char *stem = stem_of(spec->path);
    if (stem == NULL) {
        out_of_memory(spec);
        return;
    }
    const char *fault = layer_name_fault(stem);
    if (fault != NULL) {
        suggest_name(stem, good);
        diag_error(spec->diag, spec->path, "there is no name, and the file's stem '%s' %s; write for example name = %s",
                   show(stem).text, fault, good);
    }
    free(stem);
}

/* ---- values ---------------------------------------------------------------------------------------------- */

/* A whole number in decimal, min … MAX_SIZE; -1 if it is not one. */
static int64_t whole_number(const char *text, uint64_t min)
{
    uint64_t number;
    return number_whole(text, strlen(text), min, MAX_SIZE, &number) ? (int64_t)number : -1;
}

static bool read_size(struct spec *spec, enum key key, const char *text)
{
    spec->value[key] = whole_number(text, 1);
    if (spec->value[key] < 0)
        diag_error(spec->diag, place_of(spec, key),
                   "%s = '%s' is not a size; write a whole number from 1 to 2147483647", name_of(key),
                   show(text).text);
    return spec->value[key] >= 0;
}

/* How far a window reaches to one side. */
static bool read_reach(struct spec *spec, enum key key, const char *text)
{
    if (strcmp(text, "unbounded") == 0) {
        spec->value[key] = LAYER_UNBOUNDED;
        return true;
    }
    spec->value[key] = whole_number(text, 0);
    if (spec->value[key] < 0)
        diag_error(spec->diag, place_of(spec, key),
                   "%s = '%s' is not a number of positions; write a whole number from 0 to 2147483647, or unbounded",
                   name_of(key), show(text).text);
    return spec->value[key] >= 0;
}

/* Index of the word in the list; -1 if it is not there. */
static int find_word(const char *const *words, const char *text, size_t length)
{
    for (int i = 0; words[i] != NULL; i++)
        if (strlen(words[i]) == length && memcmp(words[i], text, length) == 0)
            return i;
    return -1;
}

static bool read_word(struct spec *spec, enum key key, const char *text)
{
    char known[100], meant[NEAREST_TEXT];
    spec->value[key] = find_word(keys[key].words, text, strlen(text));
    if (spec->value[key] < 0) {
        const struct nearest nearest = nearest_word(keys[key].words, text, strlen(text));
        list_words(keys[key].words, known, sizeof known);
        diag_error(spec->diag, place_of(spec, key), "%s = '%s' is not known; write %s%s", name_of(key),
                   show(text).text, known, nearest_add(&nearest, meant));
    }
    return spec->value[key] >= 0;
}

/* The words of `mask`, in the order of their bits. */
static void mask_words(const char *words[SCORE_TERMS + 1])
{
    size_t count = 0;
    for (size_t i = 0; i < SCORE_TERMS; i++)
        if (score_terms[i].word != NULL)
            words[count++] = score_terms[i].word;
    words[count] = NULL;
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

        const enum score_name word = score_of_word(part, length);
        const unsigned bit = word < SCORE_TERMS ? score_terms[word].mask : 0;
        if (bit != 0 && (mask & bit) == 0) {
            mask |= bit;
        } else if (bit != 0) {
            diag_error(spec->diag, place, "mask names %s twice; write each mask once", score_terms[word].word);
            return false;
        } else if (length == 0) {
            diag_error(spec->diag, place, "mask has nothing on one side of a '+'; write for example causal+padding");
            return false;
        } else if (length == 4 && memcmp(part, "none", 4) == 0) {
            diag_error(spec->diag, place, "mask joins none to another mask; write none alone, or leave it out");
            return false;
        } else {
            char *unknown = copy_text(part, length);
            const char *words[SCORE_TERMS + 1];
            char known[100], meant[NEAREST_TEXT];
            mask_words(words);
            const struct nearest nearest = nearest_word(words, part, length);
            list_words(words, known, sizeof known);
            if (unknown == NULL)
                out_of_memory(spec);
            else
                diag_error(spec->diag, place, "mask '%s' is not known; write none, or any of %s joined by +%s",
                           show(unknown).text, known, nearest_add(&nearest, meant));
            free(unknown);
            return false;
        }
    }
    spec->value[key] = (int64_t)mask;
    return true;
}

/* Kernels compute powers of 2 in f32: what they multiply by is
 * scale log2(e), and that must be finite there, and 0 or normal, for a subnormal number has fewer bits. */
static bool read_factor(struct spec *spec, enum key key, const char *text)
{
    double *number = &spec->number[key - KEY_TERMS];
    if (!number_real(text, number)) {
        diag_error(spec->diag, place_of(spec, key), "%s = '%s' is not a number; write for example 0.125",
                   name_of(key), show(text).text);
        return false;
    }
    const double factor = fabs(*number) * LOG2_E;
    const bool zero = factor == 0 && errno != ERANGE; /* 1e-400 is not meant as 0 */
    if (!(factor <= (double)FLT_MAX)) {
        diag_error(spec->diag, place_of(spec, key),
                   "%s = '%s' times log2(e) is not finite in f32; write a number within 2.35e38", name_of(key),
                   show(text).text);
        return false;
    }
    if (factor < (double)FLT_MIN && !zero) {
        diag_error(spec->diag, place_of(spec, key),
                   "%s = '%s' times log2(e) is subnormal or 0 in f32; write 0, or a number of at least 8.15e-39 in "
                   "size", name_of(key), show(text).text);
        return false;
    }
    return true;
}

static bool read_nothing(struct spec *spec, enum key key, const char *text)
{
    (void)spec, (void)key, (void)text; /* the name has its own check, since its default can be wrong too */
    return true;
}

typedef bool (*value_reader)(struct spec *spec, enum key key, const char *text);
static const value_reader readers[] = {
    [KIND_NAME] = read_nothing, [KIND_SIZE] = read_size, [KIND_REACH] = read_reach,
    [KIND_MASK] = read_mask, [KIND_FACTOR] = read_factor, [KIND_WORD] = read_word,
};

/* A size that is not written takes another's value, and is bad where that one is. */
static void size_default(struct spec *spec, enum key key, enum key from)
{
    if (is_given(spec, key))
        return;
    spec->value[key] = spec->value[from];
    if ((spec->bad & BIT(from)) != 0)
        spec->bad |= BIT(key);
}

static void read_values(struct spec *spec)
{
    static const struct { enum key key; const char *example; } required[] = {
        {KEY_D_MODEL, "d_model = 768"}, {KEY_H, "h = 12"}, {KEY_SEQ_LEN, "seq_len = 512"}};

    for (size_t i = 0; i < COUNT_OF(required); i++)
        if (!is_given(spec, required[i].key)) {
            diag_error(spec->diag, spec->path, "%s is missing; write for example %s", name_of(required[i].key),
                       required[i].example);
            spec->bad |= BIT(required[i].key);
        }
    spec->value[KEY_CONV_WIDTH] = 3;
    spec->value[KEY_WINDOW_LEFT] = spec->value[KEY_WINDOW_RIGHT] = LAYER_UNBOUNDED;
    for (enum key key = 0; key < KEY_COUNT; key++) {
        const char *text = spec->given[key].value;
        if (text == NULL)
            continue;
        const enum kind kind = is_number(key) ? KIND_FACTOR : keys[key].kind;
        if (text[0] == '\0' || !readers[kind](spec, key, text)) /* empty: reported with its line */
            spec->bad |= BIT(key);
    }
    size_default(spec, KEY_H_KV, KEY_H);
    size_default(spec, KEY_D_SOURCE, KEY_D_MODEL);
    size_default(spec, KEY_SOURCE_LEN, KEY_SEQ_LEN);
}

/* ---- rules ----------------------------------------------------------------------------------------------- */

static bool is_split(const struct spec *spec) { return spec->value[KEY_INPUT] == 1; }
static bool is_cross(const struct spec *spec) { return spec->value[KEY_ATTENTION] == 1; }
static bool is_tied(const struct spec *spec) { return spec->value[KEY_W_K] == 1; }
static bool is_identity(const struct spec *spec) { return spec->value[KEY_W_V] == 1; }
static bool is_conv(const struct spec *spec) { return spec->value[KEY_W_O] == W_O_CONV; }
static bool is_wide(const struct spec *spec) { return spec->value[KEY_WIDTH] == 1; }
static bool has_window(const struct spec *spec) { return (spec->value[KEY_MASK] & MASK_WINDOW) != 0; }

/* Whether d_k or d_v is d_model / h because nothing else says what it is. */
static bool has_narrow_width(const struct spec *spec)
{
    return !is_wide(spec) && (!is_given(spec, KEY_D_K) || (!is_given(spec, KEY_D_V) && !is_identity(spec)));
}

/* " 4 or 8": the divisors of `whole` next to `part`. */
static void near_divisors(int64_t whole, int64_t part, char *text, size_t size)
{
    int64_t below = 1, above = whole;
    for (int64_t i = 1; i * i <= whole; i++) {
        if (whole % i != 0)
            continue;
        const int64_t pair[2] = {i, whole / i};
        for (int k = 0; k < 2; k++) {
            below = pair[k] < part && pair[k] > below ? pair[k] : below;
            above = pair[k] > part && pair[k] < above ? pair[k] : above;
        }
    }
    if (part > whole || below == above)
        snprintf(text, size, "%lld", (long long)(part > whole ? whole : below));
    else
        snprintf(text, size, "%lld or %lld", (long long)below, (long long)above);
}

static void rule_width(struct spec *spec)
{
    if (is_given(spec, KEY_WIDTH) && is_given(spec, KEY_D_K) && is_given(spec, KEY_D_V) && !is_identity(spec))
        diag_error(spec->diag, place_of(spec, KEY_WIDTH),
                   "width says nothing where d_k and d_v are both given; leave out width, or one of them");
}

static void rule_identity(struct spec *spec)
{
    if (is_identity(spec) && is_given(spec, KEY_D_V))
        diag_error(spec->diag, place_of(spec, KEY_D_V),
                   "d_v is given, but w_v = identity makes it the width of the head's input; leave out d_v");
}

static void rule_self(struct spec *spec)
{
    static const enum key cross_keys[] = {KEY_D_SOURCE, KEY_SOURCE_LEN};
    for (size_t i = 0; i < COUNT_OF(cross_keys) && !is_cross(spec); i++)
        if (is_given(spec, cross_keys[i]))
            diag_error(spec->diag, place_of(spec, cross_keys[i]),
                       "%s is given, but self-attention has no source; leave it out, or write attention = cross",
                       name_of(cross_keys[i]));
}

static void rule_window_side(struct spec *spec)
{
    static const enum key sides[] = {KEY_WINDOW_LEFT, KEY_WINDOW_RIGHT};
    for (size_t i = 0; i < COUNT_OF(sides) && !has_window(spec); i++)
        if (is_given(spec, sides[i]))
            diag_error(spec->diag, place_of(spec, sides[i]),
                       "%s is given, but the mask has no window; leave it out, or add window to the mask",
                       name_of(sides[i]));
}

static void rule_window(struct spec *spec)
{
    if (has_window(spec) && spec->value[KEY_WINDOW_LEFT] == LAYER_UNBOUNDED &&
        spec->value[KEY_WINDOW_RIGHT] == LAYER_UNBOUNDED)
        diag_error(spec->diag, place_of(spec, KEY_MASK),
                   "the mask has a window that is bounded on neither side; give window_left, window_right or both");
}

static void rule_conv_width(struct spec *spec)
{
    if (is_given(spec, KEY_CONV_WIDTH) && !is_conv(spec))
        diag_error(spec->diag, place_of(spec, KEY_CONV_WIDTH),
                   "conv_width is given, but there is no convolution; leave it out, or write w_o = conv");
}

static void rule_h_kv_divides(struct spec *spec)
{
    const int64_t h = spec->value[KEY_H], h_kv = spec->value[KEY_H_KV];
    char near[60];
    if (h % h_kv == 0)
        return;
    near_divisors(h, h_kv, near, sizeof near);
    diag_error(spec->diag, place_of(spec, KEY_H_KV),
               "h_kv = %lld does not divide h = %lld; write for example h_kv = %s", (long long)h_kv,
               (long long)h, near);
}

static void rule_h_kv_grouped(struct spec *spec)
{
    const char *cause = is_split(spec) ? "input = split" : is_tied(spec) ? "w_k = tied"
                      : is_identity(spec) ? "w_v = identity" : NULL;
    const int64_t h = spec->value[KEY_H], h_kv = spec->value[KEY_H_KV];
    if (cause != NULL && h_kv < h)
        diag_error(spec->diag, place_of(spec, KEY_H_KV),
                   "h_kv = %lld is less than h = %lld, but %s gives every head its own keys and values; leave out h_kv",
                   (long long)h_kv, (long long)h, cause);
}

static void rule_tied(struct spec *spec)
{
    const int64_t d_model = spec->value[KEY_D_MODEL], d_source = spec->value[KEY_D_SOURCE];
    if (is_tied(spec) && is_cross(spec) && d_source != d_model)
        diag_error(spec->diag, place_of(spec, KEY_D_SOURCE),
                   "d_source = %lld, but w_k = tied projects source with W_Q, which has d_model = %lld rows; "
                   "leave out d_source, or write w_k = dense",
                   (long long)d_source, (long long)d_model);
}

static void rule_h_divides_d_model(struct spec *spec)
{
    const int64_t h = spec->value[KEY_H], d_model = spec->value[KEY_D_MODEL];
    const char *cause = is_split(spec) ? "input = split cuts x into h parts"
                      : is_conv(spec) ? "w_o = conv gives each head d_model / h columns of y"
                      : has_narrow_width(spec) ? "width = narrow makes a head d_model / h wide" : NULL;
    const char *other = is_split(spec) || is_conv(spec) ? "" : ", or width = wide, or give d_k and d_v";
    char near[60];
    if (cause == NULL || d_model % h == 0)
        return;
    near_divisors(d_model, h, near, sizeof near);
    diag_error(spec->diag, place_of(spec, KEY_H), "h = %lld does not divide d_model = %lld, but %s; write h = %s%s",
               (long long)h, (long long)d_model, cause, near, other);
}

static void rule_h_divides_d_source(struct spec *spec)
{
    const int64_t h = spec->value[KEY_H], d_source = spec->value[KEY_D_SOURCE];
    char near[60];
    if (!is_split(spec) || !is_cross(spec) || !is_given(spec, KEY_D_SOURCE) || d_source % h == 0)
        return;
    near_divisors(d_source, h, near, sizeof near);
    diag_error(spec->diag, place_of(spec, KEY_D_SOURCE),
               "h = %lld does not divide d_source = %lld, but input = split cuts source into h parts; write a multiple "
               "of h, or h = %s", (long long)h, (long long)d_source, near);
}

struct rule {
    uint64_t needs; /* BIT(key) of the keys that must not be bad */
    void (*check)(struct spec *spec);
};

static const struct rule rules[] = {
    {BIT(KEY_WIDTH) | BIT(KEY_D_K) | BIT(KEY_D_V) | BIT(KEY_W_V), rule_width},
    {BIT(KEY_W_V), rule_identity},
    {BIT(KEY_ATTENTION), rule_self},
    {BIT(KEY_MASK), rule_window_side},
    {BIT(KEY_MASK) | BIT(KEY_WINDOW_LEFT) | BIT(KEY_WINDOW_RIGHT), rule_window},
    {BIT(KEY_W_O), rule_conv_width},
    {BIT(KEY_H) | BIT(KEY_H_KV), rule_h_kv_divides},
    {BIT(KEY_H) | BIT(KEY_H_KV) | BIT(KEY_INPUT) | BIT(KEY_W_K) | BIT(KEY_W_V), rule_h_kv_grouped},
    {BIT(KEY_D_MODEL) | BIT(KEY_D_SOURCE) | BIT(KEY_W_K) | BIT(KEY_ATTENTION), rule_tied},
    {BIT(KEY_D_MODEL) | BIT(KEY_H) | BIT(KEY_INPUT) | BIT(KEY_WIDTH) | BIT(KEY_D_K) | BIT(KEY_D_V) | BIT(KEY_W_V) |
     BIT(KEY_W_O), rule_h_divides_d_model},
    {BIT(KEY_D_SOURCE) | BIT(KEY_H) | BIT(KEY_INPUT) | BIT(KEY_ATTENTION), rule_h_divides_d_source},
};

static void check_rules(struct spec *spec)
{
    for (size_t i = 0; i < COUNT_OF(rules); i++)
        if ((spec->bad & rules[i].needs) == 0)
            rules[i].check(spec);
}

/* ---- the layer ------------------------------------------------------------------------------------------- */

/* A value of the spec or, where it is not given, of `otherwise`. */
static int64_t value_or(const struct spec *spec, enum key key, int64_t otherwise)
{
    return is_given(spec, key) ? spec->value[key] : otherwise;
}

static void fill(struct layer *layer, const struct spec *spec)
{
    layer->d_model = spec->value[KEY_D_MODEL];
    layer->h = spec->value[KEY_H];
    layer->h_kv = spec->value[KEY_H_KV];
    layer->d_source = spec->value[KEY_D_SOURCE];
    layer->seq_len = spec->value[KEY_SEQ_LEN];
    layer->source_len = spec->value[KEY_SOURCE_LEN];
    layer->split = is_split(spec);
    layer->cross = is_cross(spec);
    layer->tied = is_tied(spec);
    layer->identity = is_identity(spec);
    layer->w_o = (enum layer_w_o)spec->value[KEY_W_O];
    layer->conv_width = spec->value[KEY_CONV_WIDTH];
    layer->mask = (unsigned)spec->value[KEY_MASK];
    layer->window_left = spec->value[KEY_WINDOW_LEFT];
    layer->window_right = spec->value[KEY_WINDOW_RIGHT];
    layer->bias = spec->value[KEY_BIAS] == 1;
    layer->scores = spec->value[KEY_SCORES] == 1;
    layer->out_in = spec->value[KEY_WEIGHT_LAYOUT] == 1;

    const int64_t parts = layer->split ? layer->h : 1;
    const int64_t from_width = is_wide(spec) ? layer->d_model : layer->d_model / layer->h;
    layer->d_in_q = layer->d_model / parts;
    layer->d_in_kv = layer->d_source / parts;
    layer->d_k = value_or(spec, KEY_D_K, from_width);
    layer->d_v = layer->identity ? layer->d_in_kv : value_or(spec, KEY_D_V, from_width);
    layer->d_k_given = is_given(spec, KEY_D_K);
    layer->d_v_given = is_given(spec, KEY_D_V);
    layer->width = is_given(spec, KEY_D_K) && is_given(spec, KEY_D_V) ? WIDTH_GIVEN
                 : is_wide(spec) ? WIDTH_WIDE : WIDTH_NARROW;
    layer->d_out = layer->w_o == W_O_NONE ? layer->h * layer->d_v : layer->d_model;
    memcpy(layer->number, spec->number, sizeof layer->number);
    if (!is_given(spec, KEY_TERMS + SCORE_SCALE))
        layer->scale = 1.0 / sqrt((double)layer->d_k);
}

static int by_key(const void *a, const void *b)
{
    return strcmp((*(const struct entry *const *)a)->key, (*(const struct entry *const *)b)->key);
}

/* The keys that were given, one a line; NULL without memory. */
static char *given_text(const struct layer *layer, const struct spec *spec)
{
    const struct entry *plan[MAX_PLAN_KEYS];
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return NULL;
    fprintf(out, "name = %s\n", layer->name);
    for (size_t i = KEY_NAME + 1; i < KEY_COUNT; i++)
        if (is_given(spec, i))
            fprintf(out, "%s = %s\n", name_of(i), spec->given[i].value);
    for (size_t i = 0; i < spec->plan_count; i++)
        plan[i] = &spec->plan[i];
    qsort(plan, spec->plan_count, sizeof(const struct entry *), by_key);
    for (size_t i = 0; i < spec->plan_count; i++)
        fprintf(out, "%s = %s\n", plan[i]->key, plan[i]->value);
    if (fclose(out) != 0) {
        free(text);
        text = NULL;
    }
    return text;
}

/* Name, text and plan options: what needs memory. */
static bool fill_texts(struct layer *layer, const struct spec *spec)
{
    const struct entry *name = &spec->given[KEY_NAME];
    layer->name = name->key != NULL ? copy_text(name->value, strlen(name->value)) : stem_of(spec->path);
    layer->text = layer->name != NULL ? given_text(layer, spec) : NULL;
    if (layer->text == NULL)
        return false;
    if (spec->plan_count == 0)
        return true;
    layer->options = calloc(spec->plan_count, sizeof *layer->options);
    if (layer->options == NULL)
        return false;
    for (size_t i = 0; i < spec->plan_count; i++) {
        const struct entry *entry = &spec->plan[i];
        struct layer_option *option = &layer->options[layer->options_count++];
        option->key = copy_text(entry->key, strlen(entry->key));
        option->value = copy_text(entry->value, strlen(entry->value));
        option->place = copy_text(entry->place, strlen(entry->place));
        if (option->key == NULL || option->value == NULL || option->place == NULL)
            return false;
    }
    return true;
}

/* False if that is no int64_t, and so beyond PTRDIFF_MAX of any machine. */
static bool tensor_bytes(enum layer_tensor tensor, const int64_t *shape, int count, int64_t *bytes)
{
    *bytes = count == 0 ? 0 : (int64_t)layer_tensor_size(tensor);
    for (int i = 0; i < count; i++)
        if (__builtin_mul_overflow(*bytes, shape[i], bytes))
            return false;
    return true;
}

/* Every tensor of one sequence, and all of them together, must be countable in bytes. */
static void check_totals(const struct layer *layer, const struct spec *spec)
{
    const struct layer_call one = {1, layer->seq_len, layer->source_len};
    int64_t shape[4], bytes = 0, total = 0;
    bool fits = true, all_fit = true;
    for (enum layer_tensor tensor = 0; tensor < TENSOR_COUNT; tensor++) {
        const int count = layer_tensor_shape(layer, tensor, &one, shape);
        fits = tensor_bytes(tensor, shape, count, &bytes);
        if (!fits) {
            char text[100] = "";
            for (int i = layer_tensor_has_axis(layer, tensor, "batch"), used = 0; i < count; i++)
                used += snprintf(text + used, sizeof text - (size_t)used, "[%lld]", (long long)shape[i]);
            diag_error(spec->diag, spec->path, "%s %s has more than 2^63 - 1 bytes, which no C array can; "
                       "choose smaller sizes", layer_tensor_name(tensor), text);
        }
        all_fit = all_fit && fits;
        if (fits && total >= 0 && __builtin_add_overflow(total, bytes, &total))
            total = -1;
    }
    if (all_fit && total < 0)
        diag_error(spec->diag, spec->path, "the tensors of one sequence together have more than 2^63 - 1 bytes; "
                   "choose smaller sizes");
}

static void free_spec(struct spec *spec)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        free_entry(&spec->given[i]);
    for (size_t i = 0; i < spec->plan_count; i++)
        free_entry(&spec->plan[i]);
    free(spec);
}

/* The layer of a spec without faults; NULL without memory, or if its sizes are too much. */
static struct layer *make_layer(struct spec *spec)
{
    const size_t errors = spec->diag->errors;
    struct layer *layer = calloc(1, sizeof *layer);
    if (layer == NULL || !fill_texts(layer, spec)) {
        out_of_memory(spec);
    } else {
        fill(layer, spec);
        check_totals(layer, spec);
    }
    if (spec->diag->errors == errors)
        return layer;
    layer_free(layer);
    return NULL;
}

struct layer *layer_read(const char *path, const char *const *set, size_t set_count, struct diag *diag)
{
    const size_t errors = diag->errors;
    struct spec *spec = calloc(1, sizeof *spec);
    if (spec == NULL) {
        diag_environment(diag, path, "out of memory; free some and try again");
        return NULL;
    }
    spec->path = path;
    spec->diag = diag;

    struct layer *layer = NULL;
    read_spec_file(spec);
    read_sets(spec, set, set_count);
    if (!spec->failed) {
        check_name(spec);
        read_values(spec);
        check_rules(spec);
        if (diag->errors == errors)
            layer = make_layer(spec);
    }
    free_spec(spec);
    return layer;
}

void layer_free(struct layer *layer)
{
    if (layer == NULL)
        return;
    for (size_t i = 0; i < layer->options_count; i++) {
        free(layer->options[i].key);
        free(layer->options[i].value);
        free(layer->options[i].place);
    }
    free(layer->options);
    free(layer->text);
    free(layer->name);
    free(layer);
}

/* ---- masks ----------------------------------------------------------------------------------------------- */

void layer_mask_text(unsigned mask, char text[LAYER_MASK_TEXT])
{
    size_t used = 0;
    for (size_t i = 0; i < SCORE_TERMS; i++)
        if ((mask & score_terms[i].mask) != 0)
            used += (size_t)snprintf(text + used, LAYER_MASK_TEXT - used, "%s%s", used > 0 ? "+" : "",
                                     score_terms[i].word);
    if (used == 0)
        snprintf(text, LAYER_MASK_TEXT, "none");
}

/* ---- costs ----------------------------------------------------------------------------------------------- */

/* As many pairs as a window of so many rows leaves visible. */
int64_t layer_conv_taps(const struct layer *layer, int64_t n)
{
    const int64_t pad = layer_conv_pad(layer);
    const struct layer window = {.mask = MASK_WINDOW, .window_left = pad, .window_right = layer->conv_width - 1 - pad};
    return visible_pairs(&window, n, n);
}

int64_t layer_conv_pad(const struct layer *layer)
{
    return (layer->mask & MASK_CAUSAL) != 0 ? layer->conv_width - 1 : (layer->conv_width - 1) / 2;
}

struct layer_cost layer_multiply_adds(const struct layer *layer, int64_t n, int64_t m)
{
    const double heads = (double)layer->h, heads_kv = (double)layer->h_kv;
    const double d_k = (double)layer->d_k, d_v = (double)layer->d_v, d_model = (double)layer->d_model;
    const double queries = (double)n, keys_read = (double)m;
    const double pairs = (double)visible_pairs(layer, n, m);
    const bool k_is_q = layer->tied && !layer->cross;

    struct layer_cost cost = {0};
    cost.q = queries * (double)layer->d_in_q * heads * d_k;
    cost.k = k_is_q ? 0 : keys_read * (double)layer->d_in_kv * heads_kv * d_k;
    cost.v = layer->identity ? 0 : keys_read * (double)layer->d_in_kv * heads_kv * d_v;
    cost.scores = pairs * heads * d_k;
    cost.values = pairs * heads * d_v;
    if (layer->w_o == W_O_DENSE)
        cost.output = queries * heads * d_v * d_model;
    else if (layer->w_o == W_O_CONV)
        cost.output = (double)layer_conv_taps(layer, n) * d_v * d_model;
    cost.total = cost.q + cost.k + cost.v + cost.scores + cost.values + cost.output;
    return cost;
}

static int64_t elements(const struct layer *layer, enum layer_tensor tensor)
{
    int64_t shape[4], product = 1;
    const int count = layer_weight_shape(layer, tensor, shape);
    for (int i = 0; i < count; i++)
        product *= shape[i];
    return count > 0 ? product : 0;
}

struct layer_parameters layer_parameters(const struct layer *layer)
{
    struct layer_parameters p = {
        .w_q = elements(layer, TENSOR_W_Q), .b_q = elements(layer, TENSOR_B_Q),
        .w_k = elements(layer, TENSOR_W_K), .b_k = elements(layer, TENSOR_B_K),
        .w_v = elements(layer, TENSOR_W_V), .b_v = elements(layer, TENSOR_B_V),
        .w_o = elements(layer, TENSOR_W_O), .b_o = elements(layer, TENSOR_B_O)};
    p.total = p.w_q + p.b_q + p.w_k + p.b_k + p.w_v + p.b_v + p.w_o + p.b_o;
    return p;
}
