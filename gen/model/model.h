/* SPDX-License-Identifier: MIT */
/* NAME.layers, as attngen import writes it: how the layers of a model follow, and where their numbers lie in a
 * checkpoint.
 *
 * Left out on purpose: how its lines are read (layers.lua), what they mean and whether they fit the specs (model.lua),
 * what is computed (templates/model/model.c.in).
 */
#pragma once

#include <stddef.h>

struct diag;
struct emit;
struct layer;
struct model;

/* NULL, with errors in diag ("file:line: error: …"), for a file that is none. `text`: of a file that is not on
 * disk yet, else NULL. */
struct model *model_read(const char *path, const char *text, struct diag *diag);
void model_free(struct model *model);

/* "minilm" */
const char *model_name(const struct model *model);
/* Paths of the specs that its layers have, each once, in the order of their first layers. */
const char *const *model_specs(const struct model *model, size_t *count);

/* Bytes with which a sequence's states begin: the number of tokens that they hold, then zeros. */
#define MODEL_STATES_BEGIN 64

/* Tells layers with a cache or states how far a sequence is from the next one, as each has those of all layers. */
void model_place_caches(const struct model *model, struct layer *const *layers);

/* What model.lua checks and model.c.in and model.h.in read; a layer for each of model_specs(). */
void model_context(const struct model *model, struct layer *const *layers, struct emit *emit);
