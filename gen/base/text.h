/* SPDX-License-Identifier: MIT */
/* Text that may come from anywhere: names of files, JSON, labels.
 *
 * Left out on purpose: quoting, which each format does in its own way.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

static inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
static inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* Text as a message may repeat it: cut, and every byte visible, as a no-break space in a number is hard to find. */
#define TEXT_SHOWN 60 /* bytes of the text, at most */
struct shown { char text[4 * TEXT_SHOWN + 4]; };
struct shown text_show(const char *text, size_t length);

/* Bytes of the character at `text`; 0: invalid UTF-8, or a control character. */
size_t text_character(const char *text);
/* Whether this character ends a line or turns the direction of writing, so that what is read is not what is there. */
bool text_turns(const char *text);
/* Replaces each byte of such characters, but for new lines and tabulators, by '?'. */
void text_disarm(char *text);
/* Writes " WORD", quoted for a shell where it must be; what could end or break a comment becomes '?'. */
void text_print_word(FILE *out, const char *word);
