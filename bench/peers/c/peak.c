/* SPDX-License-Identifier: MIT */
/* The multiply-add peak of some cores at once, from attnrun's register-only loop (runtime/timing/peak.c). */
#include "crew.h"
#include "timing/peak.h"

enum { LOOPS = 10 }; /* about half a millisecond */

struct peaks {
    const char *isa;
    double gflops[64];
};

static void work(struct crew *crew, int64_t worker, void *argument)
{
    struct peaks *peaks = argument;
    (void)crew;
    for (int loop = 0; loop < LOOPS; loop++) { /* the best: what else runs on the core is not in it */
        const double gflops = peak_measure(peaks->isa);
        if (gflops > peaks->gflops[worker])
            peaks->gflops[worker] = gflops;
    }
}

/* GFLOP/s of all `threads` cores (at most 64) together, 0 on failure. */
double cores_peak(const char *isa, int64_t threads, const int32_t *cores)
{
    struct peaks peaks = {.isa = isa, .gflops = {0}};
    double sum = 0;
    if (threads > 64 || crew_time(threads, cores, work, &peaks) < 0)
        return 0;
    for (int64_t t = 0; t < threads; t++)
        sum += peaks.gflops[t];
    return sum;
}
