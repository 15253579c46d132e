/* SPDX-License-Identifier: MIT */
/* Names of layers, which become prefixes in C and C++.
 *
 * Left out on purpose: where a name comes from (spec.c).
 */
#pragma once

#define MAX_NAME 63 /* characters that every C compiler tells apart */

/* Why this cannot be the name of a layer; NULL if it can. */
const char *layer_name_fault(const char *name);
/* A name near `bad` that would do. */
void name_suggest(const char *bad, char good[MAX_NAME + 1]);
