/* SPDX-License-Identifier: MIT */
/* Norm and rotation in words. */
#include "spec/finish.h"

#include <stdio.h>

#include "spec/layer.h"

void norm_text(const struct layer *layer, char q, char text[FINISH_TEXT])
{
    const double eps = layer->qk_norm_eps;
    text[0] = '\0';
    switch (layer->qk_norm) {
    case NORM_RMS:
        snprintf(text, FINISH_TEXT, "%c / sqrt(mean of %c^2 + %.9g) g", q, q, eps);
        break;
    case NORM_LAYER:
        snprintf(text, FINISH_TEXT, "(%c - mean of %c) / sqrt(mean of (%c - mean of %c)^2 + %.9g) g%s", q, q, q, q,
                 eps, layer->qk_shift ? " + c" : "");
        break;
    case NORM_L2:
        snprintf(text, FINISH_TEXT, "%c / max(sqrt(sum of %c^2), %.9g)", q, q, eps);
        break;
    case NORM_RMS_ALL:
        snprintf(text, FINISH_TEXT, "%c / sqrt(mean of %c^2 over all heads + %.9g) g", q, q, eps);
        break;
    default:
        break;
    }
}

static void scaling_text(const struct layer *layer, char text[FINISH_TEXT])
{
    const double factor = layer->rope.factor, length = layer->rope.original_len;
    text[0] = '\0';
    switch (layer->rope.scaling) {
    case SCALING_LINEAR:
        snprintf(text, FINISH_TEXT, " / %.9g", factor);
        break;
    case SCALING_LLAMA3:
        snprintf(text, FINISH_TEXT, " scaled as llama3 (factor %.9g, original length %.9g, %.9g to %.9g)", factor,
                 length, layer->rope.low, layer->rope.high);
        break;
    case SCALING_YARN:
        snprintf(text, FINISH_TEXT,
                 " scaled as yarn (factor %.9g, original length %.9g, beta %.9g to %.9g%s), times %.9g", factor, length,
                 layer->rope.beta_slow, layer->rope.beta_fast, layer->rope.truncate ? "" : ", not truncated",
                 layer->rope.attention_factor);
        break;
    case SCALING_DYNAMIC:
        snprintf(text, FINISH_TEXT, " scaled as dynamic (factor %.9g, original length %.9g, for %lld tokens)", factor,
                 length, (long long)layer->rope.len);
        break;
    case SCALING_LONGROPE:
        snprintf(text, FINISH_TEXT, " / factors of their own, for %lld tokens, times %.9g", (long long)layer->rope.len,
                 layer->rope.attention_factor);
        break;
    default:
        break;
    }
}

void rope_text(const struct layer *layer, char text[FINISH_TEXT])
{
    const long long dims = (long long)layer->rope.dims;
    char pair[60], scaling[FINISH_TEXT];
    text[0] = '\0';
    if (layer->rope.kind == ROPE_NONE)
        return;
    if (layer->rope.kind == ROPE_HALF)
        snprintf(pair, sizeof pair, "c and c + %lld", dims / 2);
    else
        snprintf(pair, sizeof pair, "2c and 2c + 1");
    scaling_text(layer, scaling);
    snprintf(text, FINISH_TEXT, "columns %s, c < %lld, are turned by p f_c, f_c = %.9g^(-2c/%lld)%.130s", pair,
             dims / 2, layer->rope.theta, dims, scaling);
}
