/* SPDX-License-Identifier: MIT */
/* Random numbers of the random layers: splitmix64. Layer I of seed S is drawn from them alike on every machine. */
#ifndef DICE_H
#define DICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dice {
    uint64_t state;
};

static inline uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static inline uint64_t bits(struct dice *dice)
{
    return mix(dice->state += 0x9E3779B97F4A7C15u);
}

static inline bool chance(struct dice *dice, double p)
{
    return (double)(bits(dice) >> 11) * 0x1p-53 < p;
}

static inline int64_t between(struct dice *dice, int64_t low, int64_t high)
{
    return low + (int64_t)(bits(dice) % (uint64_t)(high - low + 1));
}

/* Text of a spec, cut where it is full. */
struct drawn {
    char *at;
    size_t used, size;
};

void add(struct drawn *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Expressions: a score that reads the tables `tau` (of `h` numbers) and `grid` (of 3 x 5), and a condition of who sees whom. */
void draw_score(struct dice *dice, struct drawn *text);
void draw_visible(struct dice *dice, struct drawn *text);

#endif
