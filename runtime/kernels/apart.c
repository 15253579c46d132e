/* SPDX-License-Identifier: MIT */
#include "apart.h"

#include <math.h>
#include <stdlib.h>

#include "base/number.h"

#define MIN_LIMIT 60   /* seconds */
#define SLOW 2e7       /* multiply-adds a second; scalar code at -O0 on a busy machine is three times as fast */

static bool given_limit(double *seconds)
{
    const char *text = getenv("ATTNRUN_LIMIT");
    return text != NULL && number_real(text, seconds) && *seconds >= 0 && isfinite(*seconds);
}

bool apart_limit_good(struct diag *diag)
{
    double seconds;
    if (getenv("ATTNRUN_LIMIT") == NULL || given_limit(&seconds))
        return true;
    return diag_error(diag, "ATTNRUN_LIMIT", "\"%s\" is not a time; write the seconds that a kernel may take, or 0 for "
                      "none", getenv("ATTNRUN_LIMIT"));
}

double apart_work(const struct layer *layer, const struct inputs *in)
{
    const double batch = (double)in->batch, scores = (double)layer->h * (double)in->n * (double)inputs_reach(layer, in);
    return batch * (layer_multiply_adds(layer, (int64_t)in->n, inputs_reach(layer, in)).total + 20 * scores);
}

double apart_seconds(double seconds)
{
    given_limit(&seconds);
    return seconds;
}

double apart_work_limit(double work)
{
    return apart_seconds(MIN_LIMIT + work / SLOW);
}

double apart_limit(const struct layer *layer, const struct inputs *inputs, double calls)
{
    return apart_work_limit(calls * apart_work(layer, inputs));
}
