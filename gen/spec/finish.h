/* SPDX-License-Identifier: MIT */
/* What happens to queries and keys between their projection and the scores, in words: for the banner and --explain.
 *
 * Left out on purpose: doing it (templates/steps/finish.in), and frequencies (rope.h).
 */
#pragma once

struct layer;

#define FINISH_TEXT 300
/* "q / sqrt(mean of q^2 + 1e-06) g" of a row q; empty without a norm. */
void norm_text(const struct layer *layer, char q, char text[FINISH_TEXT]);
/* "columns c and c + 12 are turned by p f_c, f_c = 10000^(-2c/24), c < 12"; empty without a rotation. */
void rope_text(const struct layer *layer, char text[FINISH_TEXT]);
