/* SPDX-License-Identifier: MIT */
/* Reads the weights of one layer from a safetensors file of that layer or of a whole model: finds them under their
 * authors' names, and converts layout and element type to the spec's.
 *
 * Left out on purpose: guessing. Ambiguous or missing tensors, and other shapes, are errors that say what was found.
 */
#pragma once

#include <stdbool.h>

#include "base/diag.h"
#include "base/tensors.h"
#include "spec/layer.h"

struct weights_choice {
    const char *path;
    const char *prefix; /* of the layer's names in the file; NULL: the file holds one layer */
    bool zero_bias;     /* a bias that the file lacks is zero */
    bool norm_plus_one; /* weights of norms are stored minus 1, as in Gemma */
};

/* The layer's weights, biases and other learned tensors as F32, under the spec's names, in its shapes; on failure says
 * why in `diag`. */
bool weights_read(struct tensors *weights, const struct layer *layer, const struct weights_choice *choice,
                  struct diag *diag);
