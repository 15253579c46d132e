/* SPDX-License-Identifier: MIT */
/* What is read off the rows of keys. */
#include "spec/keys.h"

#include <stdio.h>
#include <string.h>

/* ---- words ----------------------------------------------------------------------------------------------------- */

/* Whether `word` is one of `words`, which blanks part. */
static bool is_of(const char *words, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = words; at != NULL && length > 0 && (at = strstr(at, word)) != NULL; at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

const struct key_word *key_words(enum key key)
{
    static const struct key_word of_switch[] = {
        {"false", false, "no off 0 n none"}, {"true", true, "yes on 1 y"}, {NULL, 0, NULL}};
    return key_rows[key].kind == KIND_SWITCH ? of_switch : key_rows[key].words;
}

const char *key_word(enum key key, int64_t value)
{
    const struct key_word *w = key_words(key);
    while (w->word != NULL && w->value != value)
        w++;
    return w->word;
}

const struct key_word *key_find_word(enum key key, const char *text)
{
    const struct key_word *w = key_words(key);
    while (w->word != NULL && strcmp(w->word, text) != 0)
        w++;
    return w->word != NULL ? w : NULL;
}

const char *key_our_word(enum key key, const char *text)
{
    for (const struct key_word *w = key_words(key); w->word != NULL; w++)
        if (is_of(w->theirs, text))
            return w->word;
    return NULL;
}

/* "none" may not be joined to a mask. */
static const struct key_word *listed_words(enum key key) { return key_words(key) + (key_rows[key].kind == KIND_MASK); }

void key_list_words(enum key key, char *text, size_t size)
{
    const struct key_word *const first = listed_words(key);
    size_t used = 0;
    for (const struct key_word *w = first; w->word != NULL && used < size; w++) {
        const char *joint = w == first ? "" : w[1].word == NULL ? " or " : ", ";
        used += (size_t)snprintf(text + used, size - used, "%s%s", joint, w->word);
    }
}

struct nearest key_nearest_word(enum key key, const char *text, size_t length)
{
    struct nearest nearest = nearest_to(text, length);
    for (const struct key_word *w = listed_words(key); w->word != NULL; w++)
        nearest_offer(&nearest, w->word);
    return nearest;
}

void layer_mask_text(unsigned mask, char text[LAYER_MASK_TEXT])
{
    size_t used = (size_t)snprintf(text, LAYER_MASK_TEXT, "%s", mask == 0 ? "none" : "");
    for (const struct key_word *w = listed_words(KEY_MASK); w->word != NULL; w++)
        if ((mask & (unsigned)w->value) != 0)
            used += (size_t)snprintf(text + used, LAYER_MASK_TEXT - used, "%s%s", used > 0 ? "+" : "", w->word);
}

/* ---- fields ---------------------------------------------------------------------------------------------------- */

int64_t key_whole(const struct layer *layer, enum key key)
{
    const void *field = (const char *)layer + key_rows[key].offset;
    const enum field_type type = key_rows[key].type;
    return type == FIELD_SWITCH ? *(const bool *)field : type == FIELD_WHOLE ? *(const int64_t *)field
         : type == FIELD_WORD ? (int64_t)*(const unsigned *)field : 0;
}

double key_real(const struct layer *layer, enum key key)
{
    return *(const double *)(const void *)((const char *)layer + key_rows[key].offset);
}

void key_set(struct layer *layer, enum key key, int64_t whole, double real)
{
    void *field = (char *)layer + key_rows[key].offset;
    switch (key_rows[key].type) {
    case FIELD_NONE: break;
    case FIELD_SWITCH: *(bool *)field = whole != 0; break;
    case FIELD_WHOLE: *(int64_t *)field = whole; break;
    case FIELD_WORD: *(unsigned *)field = (unsigned)whole; break;
    case FIELD_REAL: *(double *)field = kind_is_real(key_rows[key].kind) ? real : (double)whole; break;
    }
}

/* ---- names ----------------------------------------------------------------------------------------------------- */

enum key key_find(const char *name)
{
    enum key key = 0;
    while (key < KEY_COUNT && strcmp(key_rows[key].name, name) != 0)
        key++;
    return key;
}

enum key key_nickname(const char *theirs, const char **hint)
{
    for (enum key key = 0; key < KEY_COUNT; key++)
        for (size_t i = 0; i < sizeof key_rows[key].nicknames / sizeof *key_rows[key].nicknames; i++)
            if (is_of(key_rows[key].nicknames[i].theirs, theirs)) {
                *hint = key_rows[key].nicknames[i].hint;
                return key;
            }
    return KEY_COUNT;
}

struct nearest layer_nearest_key(const char *key)
{
    struct nearest nearest = nearest_to(key, strlen(key));
    for (enum key k = 0; k < KEY_COUNT; k++)
        nearest_offer(&nearest, key_rows[k].name);
    for (enum key k = 0; k < KEY_COUNT; k++)
        for (size_t i = 0; i < sizeof key_rows[k].nicknames / sizeof *key_rows[k].nicknames; i++)
            nearest_offer_theirs(&nearest, key_rows[k].nicknames[i].theirs, key_rows[k].name);
    return nearest;
}

void layer_print_keys(FILE *out)
{
    static const char *const values[] = {
        [KIND_NAME] = "a C identifier", [KIND_SIZE] = "a whole number from 1",
        [KIND_REACH] = "a whole number from 0, or unbounded", [KIND_COUNT] = "a whole number from 0",
        [KIND_MASK] = "none, or any of %s joined by +", [KIND_WORD] = "%s", [KIND_SWITCH] = "%s",
        [KIND_EXPRESSION] = "an expression", [KIND_LIST] = "a list of numbers above 0",
        [KIND_FACTOR] = "a number", [KIND_CAP] = "a number above 0, or none",
        [KIND_POSITIVE] = "a number above 0", [KIND_SHARE] = "a number from 0, below 1"};
    for (enum key key = 0; key < KEY_COUNT; key++) {
        char words[200] = "";
        const char *value = values[key_rows[key].kind], *mark = strchr(value, '%');
        const int before = mark != NULL ? (int)(mark - value) : (int)strlen(value);
        key_list_words(key, words, sizeof words);
        fprintf(out, "%-22s %.*s%s%s\n", key_rows[key].name, before, value, words, mark != NULL ? mark + 2 : "");
    }
    fprintf(out, "%-22s %s\n", "table.NAME", "the extents of a table that expressions read, as in 2, 8");
    fprintf(out, "%-22s %s\n", "plan.*", "how the kernel is built; the most common is plan.size = small");
}
