/* SPDX-License-Identifier: MIT */
/* Frequencies of rotary positions in pairs of doubles. */
#include "spec/rope.h"

#include <math.h>

#include "spec/layer.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

/* ---- pairs of doubles: high + low, about 104 bits; every operation below is one of IEEE's, or fma ---- */

struct pair {
    double high, low;
};

static struct pair sum_of(double a, double b)
{
    const double sum = a + b, of_b = sum - a;
    return (struct pair){sum, (a - (sum - of_b)) + (b - of_b)};
}

static struct pair add(struct pair a, struct pair b)
{
    const struct pair high = sum_of(a.high, b.high), low = sum_of(a.low, b.low);
    const struct pair sum = sum_of(high.high, high.low + low.high);
    return sum_of(sum.high, sum.low + low.low);
}

static struct pair minus(struct pair a) { return (struct pair){-a.high, -a.low}; }

static struct pair multiply(struct pair a, struct pair b)
{
    const double product = a.high * b.high, rest = fma(a.high, b.high, -product);
    const double cross = fma(a.high, b.low, fma(a.low, b.high, rest));
    return sum_of(product, cross);
}

static struct pair from(double a) { return (struct pair){a, 0}; }

static struct pair divide(struct pair a, struct pair b)
{
    const double first = a.high / b.high;
    struct pair rest = add(a, minus(multiply(from(first), b)));
    const double second = rest.high / b.high;
    rest = add(rest, minus(multiply(from(second), b)));
    return add(sum_of(first, second), from(rest.high / b.high));
}

/* pi and ln 2 to 106 bits: each the nearest double and the nearest to what is left */
static const struct pair two_pi = {0x1.921fb54442d18p+2, 0x1.1a62633145c07p-52};
static const struct pair ln_2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

/* ln x = e ln 2 + 2 atanh z with x = m 2^e, 2/3 <= m < 4/3, z = (m - 1) / (m + 1), |z| <= 1/5: z^2n / (2n + 1) is below
 * 2^-110 from n = 23 on */
static struct pair log_of(double x)
{
    int e;
    double m = frexp(x, &e);
    if (m < 2.0 / 3) {
        m *= 2;
        e--;
    }
    const struct pair z = divide(from(m - 1), add(from(m), from(1))), square = multiply(z, z);
    struct pair sum = from(0);
    for (int n = 23; n >= 0; n--)
        sum = add(multiply(sum, square), divide(from(1), from(2 * n + 1)));
    return add(multiply(from(e), ln_2), multiply(from(2), multiply(z, sum)));
}

/* e^x = 2^k e^r, |r| <= 0.35: r^n / n! is below 2^-110 from n = 24 on */
static struct pair exp_of(struct pair x)
{
    const double k = nearbyint(x.high / ln_2.high);
    const struct pair r = add(x, minus(multiply(from(k), ln_2)));
    struct pair sum = from(1);
    for (int n = 24; n > 0; n--)
        sum = add(from(1), divide(multiply(sum, r), from(n)));
    return (struct pair){ldexp(sum.high, (int)k), ldexp(sum.low, (int)k)};
}

double rope_attention_factor(double factor)
{
    return add(multiply(divide(from(1), from(10)), log_of(factor)), from(1)).high;
}

/* ---- the scalings ---- */

/* The wavelength w = 2 pi / f, so L / w = L f / 2 pi. */
static struct pair llama3(const struct layer *layer, struct pair f)
{
    const struct pair waves = divide(multiply(from(layer->rope.original_len), f), two_pi);
    const struct pair slow = divide(f, from(layer->rope.factor));
    if (waves.high > layer->rope.high)
        return f;
    if (waves.high < layer->rope.low)
        return slow;
    const struct pair above = add(waves, from(-layer->rope.low));
    const struct pair r = divide(above, add(from(layer->rope.high), from(-layer->rope.low)));
    return add(multiply(add(from(1), minus(r)), slow), multiply(r, f));
}

/* The pair of columns that turns beta times within the original length. */
static struct pair yarn_pair(const struct layer *layer, double beta)
{
    const struct pair of = divide(from(layer->rope.original_len), multiply(two_pi, from(beta)));
    const struct pair whole = add(log_of(of.high), from(of.low / of.high)); /* ln (a + b) = ln a + b / a */
    return divide(multiply(from((double)layer->rope.dims), whole), multiply(from(2), log_of(layer->rope.theta)));
}

static struct pair yarn(const struct layer *layer, int64_t c, struct pair f)
{
    struct pair low = yarn_pair(layer, layer->rope.beta_fast), high = yarn_pair(layer, layer->rope.beta_slow);
    if (layer->rope.truncate) {
        low = from(floor(low.high));
        high = from(ceil(high.high));
    }
    if (low.high < 0)
        low = from(0);
    if (high.high > (double)layer->rope.dims - 1)
        high = from((double)layer->rope.dims - 1);
    struct pair width = add(high, minus(low));
    if (width.high < 0.001)
        width = divide(from(1), from(1000));
    struct pair ramp = divide(add(from((double)c), minus(low)), width);
    if (ramp.high <= 0 || ramp.high >= 1)
        ramp = from(ramp.high <= 0 ? 0 : 1);
    const struct pair slow = divide(f, from(layer->rope.factor));
    return add(multiply(slow, ramp), multiply(f, add(from(1), minus(ramp))));
}

/* ln of what theta is multiplied by: (factor (len / L - 1) + 1)^(dims / (dims - 2)) */
static struct pair dynamic(const struct layer *layer)
{
    const double length = layer->rope.original_len, rest = (double)(layer->rope.dims - 2);
    if (layer->rope.scaling != SCALING_DYNAMIC || (double)layer->rope.len <= length || rest == 0)
        return from(0);
    const struct pair longer = add(divide(from((double)layer->rope.len), from(length)), from(-1));
    const struct pair times = add(multiply(from(layer->rope.factor), longer), from(1));
    const struct pair log = add(log_of(times.high), from(times.low / times.high)); /* ln (a + b) = ln a + b / a */
    return multiply(log, divide(from((double)layer->rope.dims), from(rest)));
}

static struct pair frequency(const struct layer *layer, int64_t c)
{
    const struct pair share = divide(from((double)(-2 * c)), from((double)layer->rope.dims));
    const struct pair f = exp_of(multiply(share, add(log_of(layer->rope.theta), dynamic(layer))));
    switch (layer->rope.scaling) {
    case SCALING_LINEAR:
        return divide(f, from(layer->rope.factor));
    case SCALING_LLAMA3:
        return llama3(layer, f);
    case SCALING_YARN:
        return yarn(layer, c, f);
    case SCALING_LONGROPE:
        return divide(f, from(layer->rope.factors[c]));
    default:
        return f;
    }
}

/* The next bits of a fraction 0 <= *x < 1. */
static uint32_t take_32(struct pair *x)
{
    const struct pair scaled = {ldexp(x->high, 32), ldexp(x->low, 32)};
    double whole = floor(scaled.high);
    struct pair rest = add(scaled, from(-whole));
    if (rest.high < 0) { /* high was a whole number, and low lies below it */
        whole -= 1;
        rest = add(rest, from(1));
    }
    *x = rest;
    return (uint32_t)whole;
}

struct rope_step rope_step(const struct layer *layer, int64_t c)
{
    const struct pair f = frequency(layer, c), turns = divide(f, two_pi);
    struct pair fraction = add(turns, from(-floor(turns.high)));
    if (fraction.high < 0)
        fraction = add(fraction, from(1));
    const uint64_t first = take_32(&fraction), second = take_32(&fraction);
    return (struct rope_step){.high = first << 32 | second, .low = take_32(&fraction), .radians = f.high};
}
