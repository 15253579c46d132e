/* SPDX-License-Identifier: MIT */
/* Text that may come from anywhere: names of files, JSON, labels.
 *
 * Left out on purpose: quoting, which each format does in its own way.
 */
#ifndef ATTNGEN_TEXT_H
#define ATTNGEN_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character at `text`; 0: invalid UTF-8, or a control character. */
size_t text_character(const char *text);
/* Whether this character ends a line or turns the direction of writing, so that what is read is not what is there. */
bool text_turns(const char *text);
/* Replaces each byte of such characters, but for new lines and tabulators, by '?'. */
void text_disarm(char *text);

#endif
