/* SPDX-License-Identifier: MIT */
/* Random texts for the keys score and visible: all that the language has, and scores that stay of a size at which the bound
 * says something. */
#include "dice.h"

#include <stdarg.h>
#include <stdio.h>

#define DEEP 3

void add(struct drawn *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text->at + text->used, text->size - text->used, format, arguments);
    va_end(arguments);
    text->used += (size_t)length;
    if (text->used >= text->size)
        text->used = text->size - 1;
}

/* A draw of texts: what a '%' of the text stands for is drawn in turn: %i an integer, %f a float, %c a condition, %n a small
 * number that is not 0. */
static void draw_text(struct dice *dice, struct drawn *text, const char *form, int depth, bool score);

#define ONE_OF(dice, ...) \
    ((const char *const[]){__VA_ARGS__}) \
        [between(dice, 0, (int64_t)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)) - 1)]

static const char *integer(struct dice *dice, int depth)
{
    if (depth <= 0 || chance(dice, 0.3))
        return ONE_OF(dice, "p", "j", "i", "p - j", "j - p", "%n", "0");
    return ONE_OF(dice, "(%i + %i)", "(%i - %i)", "%n * (%i)", "(%i) // %n", "(%i) %% %n", "(%i) // -%n", "(%i) %% -%n",
                  "min(%i, %i)", "max(%i, %i)", "abs(%i)", "-(%i)", "where(%c, %i, %i)", "(%i) // (i %% 3)",
                  "(%i) %% (j %% 7)");
}

static const char *real(struct dice *dice, int depth, bool score)
{
    if (depth <= 0 || chance(dice, 0.25))
        return score && chance(dice, 0.5) ? "s" : ONE_OF(dice, "0.25", "1.5", "tau[i]", "grid[%i][%i]", "0.01 * (%i)");
    return ONE_OF(dice, "(%f + %f)", "(%f - %f)", "0.5 * %f", "%f / 3", "%f / (1.5 + abs(%f))", "min(%f, %f)", "max(%f, %f)",
                  "abs(%f)", "-(%f)", "tanh(%f)", "exp(min(%f, 2.0))", "sqrt(abs(%f))", "where(%c, %f, %f)", "tau[i] * %f",
                  "(%i) / 64.0", "max(%i, %f) * 0.125", "log(0.5 + abs(%f))", "floor((%i) / 3)", "floor(2.0 * %f)",
                  "sigmoid(%f)");
}

static const char *condition(struct dice *dice, int depth, bool score)
{
    if (depth > 0 && chance(dice, 0.35))
        return ONE_OF(dice, "(%c and %c)", "(%c or %c)", "not (%c)", "((%c) == (%c))", "((%c) != (%c))", "where(%c, %c, %c)");
    if (chance(dice, 0.06))
        return score ? "%f < %f" : "tau[i] < grid[%i][%i]";
    return ONE_OF(dice, "%i < %i", "%i <= %i", "%i > %i", "%i >= %i", "(%i) %% 2 == 0", "%i != %i", "p // %n == j // %n",
                  "abs(p - j) <= %n");
}

static void draw_text(struct dice *dice, struct drawn *text, const char *form, int depth, bool score)
{
    for (; *form != '\0'; form++) {
        if (*form != '%' || form[1] == '\0') {
            add(text, "%c", *form);
            continue;
        }
        switch (*++form) {
        case 'i': draw_text(dice, text, integer(dice, depth), depth - 1, score); break;
        case 'f': draw_text(dice, text, real(dice, depth, score), depth - 1, score); break;
        case 'c': draw_text(dice, text, condition(dice, depth, score), depth - 1, score); break;
        case 'n': add(text, "%d", (int)between(dice, 1, chance(dice, 0.7) ? 12 : 70)); break;
        default: add(text, "%c", *form); /* "%%" */
        }
    }
}

/* One of the forms, again where it does not fit. */
static void draw_one(struct dice *dice, struct drawn *text, const char *const *forms, size_t count, bool score)
{
    do {
        text->used = 0;
        draw_text(dice, text, forms[bits(dice) % count], DEEP, score);
    } while (text->used + 1 >= text->size);
}

void draw_score(struct dice *dice, struct drawn *text)
{
    static const char *const forms[] = {
        "s + %f", "s - %f", "0.75 * s + 0.5 * %f", "where(%c, s, %f)", "where(%c, -1e999, s)", "where(%c, s, -1e999)",
        "4.0 * tanh(s / 4) + %f", "max(s, %f)", "%f", "s / (1 + abs(%i)) + %f"};
    draw_one(dice, text, forms, sizeof forms / sizeof *forms, true);
}

void draw_visible(struct dice *dice, struct drawn *text)
{
    static const char *const forms[] = {
        "%c", "%c", "%c or j == p", "p // %n == j // %n or %c", "(p - j) %% %n == 0 and (%c)",
        "j < %n or abs(p - j) < %n", "(p // %n + j // %n + i) %% %n != 0"};
    draw_one(dice, text, forms, sizeof forms / sizeof *forms, false);
}
