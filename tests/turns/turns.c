/* SPDX-License-Identifier: MIT */
/* Compares the frequencies, cosines and sines of an emitted file, which TURNS_OF names, with lines of turns.txt on the
 * standard input. Prints how many there were and the largest error, in ulps of the exact number.
 */
#include TURNS_OF

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define PAIRS (sizeof turns_of_pairs / sizeof *turns_of_pairs)
#define FLOATS (2 * PAIRS)

/* 2^-96 turns as one number: a difference of one in the last place is rounding's, and turn_by does without that place */
static int step_is(size_t c, const char *decimal)
{
    unsigned __int128 wanted = 0;
    for (; *decimal >= '0' && *decimal <= '9'; decimal++)
        wanted = wanted * 10 + (unsigned)(*decimal - '0');
    const unsigned __int128 got = (unsigned __int128)turns_of_pairs[c].high << 32 | turns_of_pairs[c].low;
    return got - wanted + 1 <= 2;
}

static double ulps_off(float got, double exact)
{
    const double ulp = ldexp(1, ilogb(exact == 0 ? 1 : exact) - 23);
    return fabs(got - exact) / ulp;
}

int main(void)
{
    static float cosines[FLOATS], sines[FLOATS];
    char line[400], integer[64];
    size_t steps = 0, turns = 0, c;
    double worst = 0, cosine, sine;
    long position;
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "step %zu %60[0-9]", &c, integer) == 2) {
            steps++;
            if (c >= PAIRS || !step_is(c, integer)) {
                printf("f_%zu / 2 pi is %016" PRIx64 " %08" PRIx32 ", not %s\n", c, turns_of_pairs[c % PAIRS].high,
                       turns_of_pairs[c % PAIRS].low, integer);
                return 1;
            }
        } else if (sscanf(line, "turn %ld %zu %lf %lf", &position, &c, &cosine, &sine) == 4) {
            turns++;
            turn_by((int32_t)position, cosines, sines);
            const size_t at = INTERLEAVED ? 2 * c + 1 : c;
            const double off = fmax(ulps_off(cosines[at], cosine), ulps_off(sines[at], sine));
            worst = fmax(worst, off);
            if (!(off <= 1) || (INTERLEAVED && (cosines[at - 1] != cosines[at] || sines[at - 1] != -sines[at]))) {
                printf("position %ld, pair %zu: %.9g and %.9g; exact: %.17g and %.17g\n", position, c, cosines[at],
                       sines[at], cosine, sine);
                return 1;
            }
        }
    }
    printf("%zu frequencies, %zu turns, at most %.4f ulp\n", steps, turns, worst);
    return steps == PAIRS && turns > 0 ? 0 : 1;
}
