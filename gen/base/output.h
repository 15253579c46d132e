/* SPDX-License-Identifier: MIT */
/* What becomes of a layer's texts: the number of the pair, paths, rules for Make, files on disk.
 *
 * Left out on purpose: what the texts say (the templates) and how a file is put in its place (replace.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct diag;

/* A layer's files. NAME.h is written last: should a kill leave new files and old ones, the new ones refuse any other
 * header than their own, even one from before headers had a number. */
struct output {
    struct output_file {
        char *path, *text;
        size_t length;
    } *files;
    size_t count;
};

/* Adds FOLDER/NAMEENDING, without the folder where it is NULL. The text is the output's from here on. */
void output_add(struct output *output, const char *folder, const char *name, const char *ending,
                char *text, size_t length);

/* Stands in the texts where the pair's number goes, a C constant as long as this. */
extern const char output_number[];
/* Replaces output_number in all texts by a hash of all texts, by which a .c recognises the header of its own run. */
void output_number_pair(struct output *output);

/* A path that both have, letter case ignored; NULL: none. */
const char *output_shared_path(const struct output *one, const struct output *other);

/* Whether each of these can stand in a rule; else an error in diag. */
bool output_paths_spelled(const char *const *paths, size_t count, struct diag *diag);
/* "NAME.c NAME.h: SOURCE… TEMPLATE…", and an empty rule for each template, so that one may vanish. */
void output_print_rule(const struct output *output, const char *const *sources, size_t count,
                       const char *const *templates, size_t template_count, FILE *out);

/* All pairs, and the rules at the path `deps` unless that is NULL; all files or, with an error, none. */
void output_write(const struct output *outputs, size_t count, const char *folder, const char *deps, const char *rules,
                  struct diag *diag);

void output_free(struct output *output);
