/* SPDX-License-Identifier: MIT */
/* NAME.layers, as attngen import writes it: how the layers of a model follow, and where their numbers lie in a
 * checkpoint. Read here, checked against its specs, and handed to the templates of NAME_model.c and NAME_model.h.
 *
 * Left out on purpose: what is computed (templates/model.c.in), and models that are no encoder of tokens, which are
 * refused by name.
 */
#ifndef ATTNGEN_MODEL_H
#define ATTNGEN_MODEL_H

#include <stdbool.h>
#include <stddef.h>

struct diag;
struct emit;
struct layer;
struct model;

/* NULL, with errors in diag ("file:line: error: …"), for a file that is none. */
struct model *model_read(const char *path, struct diag *diag);
void model_free(struct model *model);

/* "minilm" */
const char *model_name(const struct model *model);
/* Paths of the specs that its layers have, each once, in the order of their first layers. */
const char *const *model_specs(const struct model *model, size_t *count);

/* Whether the model is one that NAME_model.c is written for, and fits its layers: one for each of model_specs(). */
bool model_check(const struct model *model, struct layer *const *layers, struct diag *diag);
/* What model.c.in and model.h.in read, of a model that was checked. */
void model_context(const struct model *model, struct layer *const *layers, struct emit *emit);

#endif
