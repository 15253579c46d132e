/* SPDX-License-Identifier: MIT */
/* Levenshtein's distance, letter case apart; else a word that is a part of what was typed, as in key_padding. */
#include "base/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LETTERS 60 /* of the longest word that is compared */

static size_t distance(const char *a, size_t rows, const char *b, size_t columns)
{
    size_t row[LETTERS + 1];
    for (size_t j = 0; j <= columns; j++)
        row[j] = j;
    for (size_t i = 1; i <= rows; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            const size_t change = diagonal + (tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]));
            const size_t shift = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = change < shift ? change : shift;
        }
    }
    return row[columns];
}

/* Whether `word` stands in `typed` between separators or its ends */
static bool is_part(const char *typed, size_t length, const char *word, size_t letters)
{
    for (size_t at = 0; at + letters <= length; at++)
        if ((at == 0 || strchr("_-. ", typed[at - 1]) != NULL) && strncmp(typed + at, word, letters) == 0 &&
            (at + letters == length || strchr("_-. ", typed[at + letters]) != NULL))
            return true;
    return false;
}

struct nearest nearest_to(const char *typed, size_t length)
{
    return (struct nearest){typed, NULL, length, length > LETTERS ? 0 : length <= 3 ? length : 3 + length / 9, 0, ""};
}

static void offer(struct nearest *nearest, const char *word, size_t columns, const char *ours)
{
    if (nearest->below == 0 || columns > LETTERS)
        return;
    const size_t d = distance(nearest->typed, nearest->length, word, columns);
    if (d < nearest->below) {
        nearest->below = d;
        nearest->word = ours;
        nearest->part = 0;
    } else if (word == ours && (nearest->word == NULL || nearest->part > 0) && columns > 2 &&
               columns > nearest->part && is_part(nearest->typed, nearest->length, word, columns)) {
        nearest->word = ours;
        nearest->part = columns;
    }
}

void nearest_offer(struct nearest *nearest, const char *word)
{
    offer(nearest, word, strlen(word), word);
}

void nearest_offer_theirs(struct nearest *nearest, const char *theirs, const char *ours)
{
    for (size_t length; theirs != NULL && (length = strcspn(theirs, " ")) > 0; theirs += length) {
        offer(nearest, theirs, length, ours);
        length += theirs[length] == ' ';
    }
}

const char *nearest_ask(const struct nearest *nearest, char text[NEAREST_TEXT], const char *otherwise)
{
    if (nearest->word == NULL)
        return otherwise;
    snprintf(text, NEAREST_TEXT, "did you mean '%s%s'?", nearest->before, nearest->word);
    return text;
}

const char *nearest_add(const struct nearest *nearest, char text[NEAREST_TEXT])
{
    text[0] = '\0';
    if (nearest->word != NULL)
        snprintf(text, NEAREST_TEXT, " (did you mean '%s%s'?)", nearest->before, nearest->word);
    return text;
}
