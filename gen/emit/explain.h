/* SPDX-License-Identifier: MIT */
/* --explain: a walk through one layer, as a teacher would give it. */
#pragma once

#include <stdio.h>

struct layer;

/* Plain text of at most 100 columns: the steps with equation, shapes, parameters, multiply-adds and bytes; the
 * totals; what the number of heads and their width cost. For one sequence of full length. */
void explain_layer(const struct layer *layer, FILE *out);
