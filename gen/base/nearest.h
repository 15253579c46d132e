/* SPDX-License-Identifier: MIT */
/* The known word that an unknown one was perhaps meant to be: of keys, values, options, commands, instruction sets.
 *
 * Left out on purpose: which words are known. The caller offers them one by one.
 */
#pragma once

#include <stddef.h>

#define NEAREST_TEXT 100

struct nearest {
    const char *typed, *word; /* NULL: none is near */
    size_t length, below;     /* of `typed`; the distance that the next word must be below */
    size_t part;              /* letters of `word`, where it is a part of `typed` and none is near; else 0 */
    const char *before;       /* put before the word in messages: "--" for options, else "" */
};

/* `before` is "". `typed` need not end after its `length` bytes. */
struct nearest nearest_to(const char *typed, size_t length);
void nearest_offer(struct nearest *nearest, const char *word);
/* The same for words of others, with blanks between, which are called `ours` here; NULL: none */
void nearest_offer_theirs(struct nearest *nearest, const char *theirs, const char *ours);
/* "did you mean 'WORD'?"; `otherwise` where no word is near. */
const char *nearest_ask(const struct nearest *nearest, char text[NEAREST_TEXT], const char *otherwise);
/* For the end of a message that lists the words: " (did you mean 'WORD'?)", or nothing. */
const char *nearest_add(const struct nearest *nearest, char text[NEAREST_TEXT]);
