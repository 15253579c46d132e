/* SPDX-License-Identifier: MIT */
/* What becomes of a layer's texts: the number of the pair, its paths, rules for Make, files on disk.
 *
 * Left out on purpose: what the texts say (the templates) and how a file is put in its place (replace.h).
 */
#ifndef ATTNGEN_OUTPUT_H
#define ATTNGEN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct diag;

/* Paths and texts of NAME.c and NAME.h; the .c is written first: should a kill leave one new file and one old, the new
 * .c refuses any other header than its own, even one from before headers had a number. */
struct output {
    char *path[2], *text[2];
    size_t length[2];
};

/* Stands in the texts where the pair's number goes, a C constant as long as this. */
extern const char output_number[];
/* Writes a number of both texts in all those places, by which the .c tells the header of its own run from any other. */
void output_number_pair(struct output *output);

/* Sets the paths: FOLDER/NAME.c and FOLDER/NAME.h, without the folder where it is NULL. False without memory. */
bool output_set_paths(struct output *output, const char *folder, const char *name);

/* "NAME.c NAME.h: SPEC PLAN TEMPLATE…", and an empty rule for each template, so that one may vanish. `plan` may be
 * NULL. */
void output_print_rule(const struct output *output, const char *spec, const char *plan, const char *const *templates,
                       size_t template_count, FILE *out);

/* All pairs, and the rules at the path `deps` unless that is NULL; all files or, with an error, none. */
void output_write(const struct output *outputs, size_t count, const char *folder, const char *deps, const char *rules,
                  struct diag *diag);

void output_free(struct output *output);

#endif
