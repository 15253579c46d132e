/* SPDX-License-Identifier: MIT */
/* A step of one emitted layer with a cache, its queries, keys and values given, in one run with what reading its keys
 * and values takes:
 *
 *     two workers   by one thread and by two that spin, at several numbers of cached keys; reading, by one and by two;
 *                   the multiply-adds of a step at the peak of a loop in registers. No step takes less than either
 *     ring          at several positions of a long sequence
 *
 * Prints a table in Markdown: medians over the rounds, in each of which everything is measured once, one after the
 * other; and what the fastest samples say, for machines that others use as well.
 *
 *     decode ISA SECONDS CORE CORE, built with -DNAME=tiny -DPREFIX=TINY -DHEADER='"tiny.h"' [-DRING]
 */
#include "../peers/c/crew.h"
#include "../peers/c/read.h"
#include "../../runtime/timing/peak.h"

#include HEADER

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define FUNCTION(name) JOIN(NAME, name)
#define CONSTANT(name) JOIN(PREFIX, name)
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

enum {
    H = CONSTANT(H), H_KV = CONSTANT(H_KV), D_K = CONSTANT(D_K), D_V = CONSTANT(D_V), LEN = CONSTANT(CACHE_LEN),
    SAMPLE_NS = 3000000, MOST_ROUNDS = 999,
    OF_EXPONENTIAL = 10 /* operations for a score's weight, counted as multiply-adds; see `exp` in gen/plan/expect.c */
};

#ifdef RING
static const int32_t past[] = {0, 63, 255, 511, 512, 4096, 32768, 99999};
enum { WAYS = 1 };
#else
static const int32_t past[] = {1024, 4096, 16384};
enum { WAYS = 4 };
#endif
enum { POINTS = sizeof past / sizeof *past };
enum way { STEP, STEP_OF_TWO, READ, READ_BY_TWO };

struct job {
    enum way way;
    int64_t calls;
    FUNCTION(args) args;
    int64_t ns; /* that the calls took, by one thread without the time that others had its core */
    _Atomic size_t next[2]; /* the next part of this phase; the other is being made ready */
    _Atomic int error;
    float sums[2][READ_LINE]; /* what was read; apart from each other */
};

static void *packed, *scratch;
static double samples[POINTS][WAYS][MOST_ROUNDS], products[POINTS][MOST_ROUNDS];

/* on huge pages where the kernel leaves it to madvise; never freed */
static void *room(size_t bytes)
{
    const size_t page = (size_t)1 << 21, size = (bytes + page - 1) / page * page;
    void *at = aligned_alloc(page, size);
    if (at == NULL) {
        fputs("decode: out of memory\n", stderr);
        exit(1);
    }
    madvise(at, size, MADV_HUGEPAGE); /* a refusal costs only time */
    memset(at, 0, size);
    return at;
}

static float *drawn(size_t count)
{
    static uint32_t state = 1;
    float *numbers = room(count * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        numbers[i] = (float)(state >> 8) * 0x1p-23f - 1;
    }
    return numbers;
}

/* Phase by phase; who is free takes the next part. */
static void run_parts(struct job *job, struct crew *crew, int64_t worker, size_t *step)
{
    const size_t phases = FUNCTION(phases)(packed, &job->args);
    for (size_t phase = 0; phase < phases; phase++, ++*step) {
        const size_t parts = FUNCTION(parts)(packed, &job->args, phase);
        _Atomic size_t *next = &job->next[*step % 2];
        if (worker == 0)
            atomic_store(&job->next[(*step + 1) % 2], 0);
        for (size_t part; (part = atomic_fetch_add(next, 1)) < parts;)
            if (FUNCTION(run)(packed, &job->args, scratch, phase, part, (size_t)worker) != 0)
                job->error = 1;
        crew_barrier(crew);
    }
}

/* Each reads its share of the heads. */
static void run_read(struct job *job, int64_t threads, int64_t worker)
{
    const size_t rows = (size_t)job->args.past[0] + 1;
    for (int64_t head = H_KV * worker / threads; head < H_KV * (worker + 1) / threads; head++) {
        float sum = read_floats(job->args.k_cache + (size_t)head * LEN * D_K, rows * D_K, 0);
        sum += read_floats(job->args.v_cache + (size_t)head * LEN * D_V, rows * D_V, 0);
        job->sums[worker][0] += sum;
    }
}

/* ns so far that this thread was ready while something else had its core; 0 if unknown */
static int64_t waited(void)
{
    long long waited = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    if (file == NULL || fscanf(file, "%*s %lld", &waited) != 1)
        waited = 0;
    if (file != NULL)
        fclose(file);
    return waited;
}

static void work(struct crew *crew, int64_t worker, void *pointer)
{
    struct job *job = pointer;
    size_t step = 0;
    const int64_t lost = worker == 0 ? waited() : 0;
    crew_barrier(crew);
    const int64_t start = crew_now();
    for (int64_t call = 0; call < job->calls; call++)
        if (job->way == STEP) {
            if (FUNCTION(forward)(packed, &job->args, scratch) != 0)
                job->error = 1;
        } else if (job->way == STEP_OF_TWO) {
            run_parts(job, crew, worker, &step);
        } else {
            run_read(job, crew->threads, worker);
            crew_barrier(crew);
        }
    if (worker == 0) {
        job->ns = crew_now() - start;
        job->ns -= crew->threads == 1 ? waited() - lost : 0;
    }
}

/* us that the multiply-adds of a step take at least */
static double multiply_adds(int32_t keys, const char *isa)
{
    double peak = 0; /* GFLOP/s; the best: what else runs on the core is not in it */
    for (int loop = 0; loop < 10; loop++) {
        const double gflops = peak_measure(isa);
        peak = gflops > peak ? gflops : peak;
    }
    return 2e-3 * H * keys * (D_K + D_V + OF_EXPONENTIAL) / peak;
}

/* us of a call, the mean of `calls` */
static double measure(struct job *job, enum way way, int64_t calls, const int32_t *cores)
{
    job->way = way;
    job->calls = calls;
    job->next[0] = job->next[1] = 0;
    const int64_t threads = way == STEP_OF_TWO || way == READ_BY_TWO ? 2 : 1;
    do { /* again where more was taken for waiting than there was */
        if (crew_time(threads, cores, work, job) < 0 || job->error) {
            fputs("decode: a call failed\n", stderr);
            exit(1);
        }
    } while (job->ns <= 0);
    return 1e-3 * (double)job->ns / (double)calls;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* the quantile of the first `count` of `numbers`, which are sorted by this */
static double quantile(double *numbers, size_t count, double part)
{
    qsort(numbers, count, sizeof *numbers, by_size);
    return numbers[(size_t)(part * (double)(count - 1) + 0.5)];
}

static double median_ratio(const double *over, const double *under, size_t count)
{
    static double ratios[MOST_ROUNDS];
    for (size_t i = 0; i < count; i++)
        ratios[i] = over[i] / under[i];
    return quantile(ratios, count, 0.5);
}

int main(int argc, char **argv)
{
    static struct job job;
    int isa = 0;
    while (argc > 1 && isa < 8 && (FUNCTION(isa_name)(isa) == NULL || strcmp(FUNCTION(isa_name)(isa), argv[1]) != 0))
        isa++;
    if (argc != 5 || isa == 8) {
        fputs("use: decode ISA SECONDS CORE CORE\n", stderr);
        return 2;
    }
    const int32_t cores[2] = {atoi(argv[3]), atoi(argv[4])};
    int32_t length;
    packed = room(CONSTANT(PACKED_BYTES));
    scratch = room(CONSTANT(SCRATCH_BYTES_FOR)(2));
    job.args = (FUNCTION(args)){
        .q = drawn((size_t)H * D_K), .k = drawn((size_t)H_KV * D_K), .v = drawn((size_t)H_KV * D_V), .past = &length,
        .y = room((size_t)H * D_V * sizeof(float)), .k_cache = drawn((size_t)H_KV * LEN * D_K),
        .v_cache = drawn((size_t)H_KV * LEN * D_V), .batch = 1, .n = 1, .m = 1};
    const int error = FUNCTION(pack)(packed, &(FUNCTION(weights)){0}, isa);
    if (error != 0) {
        fprintf(stderr, "decode: %s\n", FUNCTION(strerror)(error));
        return 1;
    }
    size_t rounds = 0;
    const int64_t until = crew_now() + (int64_t)(1e9 * atof(argv[2]));
    for (; rounds < MOST_ROUNDS && (rounds < 5 || crew_now() < until); rounds++)
        for (size_t point = 0; point < POINTS; point++) {
            products[point][rounds] = multiply_adds(past[point] + 1, argv[1]);
            for (int way = 0; way < WAYS; way++) {
                length = past[point];
                const double once = measure(&job, way, 2, cores);
                const int64_t calls = (int64_t)(1e-3 * SAMPLE_NS / once) + 1;
                samples[point][way][rounds] = measure(&job, way, calls, cores);
            }
        }
#ifdef RING
    printf("| %s, %s, ring of %d: position | µs | quartiles | fastest | times that at %d |\n"
           "| --: | --: | --: | --: | --: |\n", TEXT(NAME), argv[1], LEN, (int)past[3]);
    for (size_t point = 0; point < POINTS; point++) {
        const double ratio = median_ratio(samples[point][STEP], samples[3][STEP], rounds);
        static double sorted[MOST_ROUNDS];
        memcpy(sorted, samples[point][STEP], sizeof sorted);
        const double median = quantile(sorted, rounds, 0.5);
        printf("| %d | %.2f | %.2f … %.2f | %.2f | %.3f |\n", (int)past[point], median, quantile(sorted, rounds, 0.25),
               quantile(sorted, rounds, 0.75), sorted[0], ratio);
    }
#else
    printf("| %s, %s: keys | reading, µs | GB/s | products, µs | step, µs | share of reading | of products | "
           "two read, GB/s | times one | two workers, µs | times one | fastest samples | share of two reading |\n"
           "| --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |\n", TEXT(NAME), argv[1]);
    for (size_t point = 0; point < POINTS; point++) {
        double (*s)[MOST_ROUNDS] = samples[point];
        const double share = median_ratio(s[READ], s[STEP], rounds);
        const double two_read = median_ratio(s[READ], s[READ_BY_TWO], rounds);
        const double two = median_ratio(s[STEP], s[STEP_OF_TWO], rounds);
        const double share_of_two = median_ratio(s[READ_BY_TWO], s[STEP_OF_TWO], rounds);
        const double megabytes = 4e-6 * H_KV * (D_K + D_V) * (past[point] + 1.0);
        const double of_products = median_ratio(products[point], s[STEP], rounds);
        double us[WAYS];
        for (int way = 0; way < WAYS; way++)
            us[way] = quantile(s[way], rounds, 0.5);
        printf("| %d | %.0f | %.0f | %.0f | %.0f | %.0f %% | %.0f %% | %.0f | %.2f | %.0f | %.2f | %.2f | %.0f %% |\n",
               (int)past[point], us[READ], 1e3 * megabytes / us[READ], quantile(products[point], rounds, 0.5),
               us[STEP], 100 * share, 100 * of_products, 1e3 * megabytes / us[READ_BY_TWO], two_read, us[STEP_OF_TWO],
               two, s[STEP][0] / s[STEP_OF_TWO][0], 100 * share_of_two);
    }
#endif
    fprintf(stderr, "%zu rounds\n", rounds);
    return 0;
}
