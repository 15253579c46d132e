/* SPDX-License-Identifier: MIT */
/* The activations, each a row: ROW(NAME, word, gated, theirs, equation, operations, powers). `word` names f in
 * activation = and ffn =, `gated` the feed-forward with f(x W_g) (x W_1), NULL: there is none; such rows stand last.
 * `theirs`: what others call f, blanks between. Of a vector: `operations`, instructions beside the exponential, a
 * division as five; `powers`, exponentials.
 */
#pragma once

#define QUICK_GELU 1.702 /* what quick_gelu multiplies a by */

#define ACTIVATION_ROWS(ROW) \
    ROW(RELU, "relu", "reglu", NULL, "relu(a) = max(a, 0)", 1, 0) \
    ROW(GELU, "gelu", "geglu", NULL, "gelu(a) = a (1 + erf(a / sqrt(2))) / 2", 20, 0) \
    ROW(GELU_TANH, "gelu_tanh", "geglu_tanh", "gelu_new gelu_pytorch_tanh gelu_fast", \
        "gelu_tanh(a) = a (1 + tanh(sqrt(2 / pi) (a + 0.044715 a^3))) / 2", 9, 1) \
    ROW(QUICK_GELU, "quick_gelu", "quick_geglu", NULL, "quick_gelu(a) = a / (1 + exp(-1.702 a))", 9, 1) \
    ROW(SILU, "silu", "swiglu", "swish", "silu(a) = a / (1 + exp(-a))", 9, 1) \
    ROW(SIGMOID, "sigmoid", "glu", NULL, "sigmoid(a) = 1 / (1 + exp(-a))", 8, 1) \
    ROW(RELU2, "relu2", NULL, "relu_squared squared_relu", "relu2(a) = max(a, 0)^2", 2, 0) \
    ROW(TANH, "tanh", NULL, NULL, "tanh(a) = 1 - 2 / (1 + exp(2 a))", 22, 0)
