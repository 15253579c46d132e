/* attnrun bench: µs, GFLOP/s and share of peak of a layer and of its steps, on one core.
 *
 * Rounds interleave the peak, the whole layer and the layer phase by phase, because the clock moves; a share is the
 * median of the rounds' own shares. Every round uses the same buffers, so caches are as warm as their size lets them
 * be. FLOPs are twice the multiply-adds of the plain layer, however it is computed. Left out on purpose: more cores.
 */
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "commands.h"
#include "peak.h"
#include "reference.h"

#define DEFAULT_ROUNDS 15
#define ROUND_LIMIT 1000
#define LEAST_SAMPLE_US 50 /* shorter layers are run several times a measurement */

/* A phase's name, and which multiply-adds it does. */
static double project_work(struct layer_cost c) { return c.q + c.k + c.v; }
static double attend_work(struct layer_cost c) { return c.scores + c.values; }
static double output_work(struct layer_cost c) { return c.output; }
static double layer_work(struct layer_cost c) { return c.total; }
static double no_work(struct layer_cost c) { (void)c; return 0; }

static const struct {
    const char *name;
    double (*work)(struct layer_cost cost);
} steps[] = {
    {"layer", layer_work}, /* the whole, first */
    {"transpose", no_work},
    {"project", project_work},
    {"attend", attend_work},
    {"output", output_work},
};

#define STEPS (sizeof steps / sizeof *steps)

/* One kernel being measured. */
struct bench {
    const struct options *options;
    const struct layer *layer;
    const struct kernel_table *call;
    struct inputs inputs;
    struct kernel_args args;
    void *packed, *scratch;
    float *y, *attn;
    const char *isa;
    size_t rounds, repeats;
    double *us[STEPS], *peak; /* [rounds] */
};

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

/* Huge pages where the system gives them: fewer TLB misses, less noise. */
static void *large_pages(size_t bytes)
{
    const size_t page = (size_t)2 << 20, alignment = bytes >= page ? page : KERNEL_ALIGNMENT;
    size_t rounded = (bytes + alignment) / alignment * alignment;
    void *memory = aligned_alloc(alignment, rounded);
    if (memory != NULL && alignment == page)
        madvise(memory, rounded, MADV_HUGEPAGE);
    if (memory != NULL)
        memset(memory, 0, rounded);
    return memory;
}

static void pin_to_this_core(void)
{
    int core = sched_getcpu();
    cpu_set_t set;
    CPU_ZERO(&set);
    if (core >= 0) {
        CPU_SET(core, &set);
        sched_setaffinity(0, sizeof set, &set); /* a refusal costs only accuracy */
    }
}

/* ---- measuring ------------------------------------------------------------------------------------------------- */

static double time_layer(struct bench *b)
{
    const double start = now_us();
    for (size_t r = 0; r < b->repeats; r++)
        b->call->forward(b->packed, &b->args, b->scratch);
    return (now_us() - start) / (double)b->repeats;
}

static size_t step_of_phase(const struct bench *b, size_t phase)
{
    const char *name = b->call->phase_name(phase);
    for (size_t s = 1; s < STEPS; s++)
        if (name != NULL && strcmp(steps[s].name, name) == 0)
            return s;
    return STEPS;
}

/* Phase by phase: phases of one name are added up. */
static void time_steps(struct bench *b, double us[STEPS])
{
    const size_t phases = b->call->phases(b->packed, &b->args);
    for (size_t s = 1; s < STEPS; s++)
        us[s] = 0;
    for (size_t r = 0; r < b->repeats; r++)
        for (size_t phase = 0; phase < phases; phase++) {
            const size_t step = step_of_phase(b, phase), parts = b->call->parts(b->packed, &b->args, phase);
            const double start = now_us();
            for (size_t part = 0; part < parts; part++)
                b->call->run(b->packed, &b->args, b->scratch, phase, part, 0);
            if (step < STEPS)
                us[step] += (now_us() - start) / (double)b->repeats;
        }
}

/* Decides repeats and rounds from a first run; also warms up. */
static void calibrate(struct bench *b)
{
    b->repeats = 1;
    time_layer(b);
    double us = time_layer(b);
    while (us * (double)b->repeats < LEAST_SAMPLE_US && b->repeats < 100000) {
        b->repeats = (size_t)(LEAST_SAMPLE_US / fmax(us, 0.01)) + 1;
        us = time_layer(b);
        if (us * (double)b->repeats >= LEAST_SAMPLE_US / 2.0)
            break;
    }
    const double round = 2 * us * (double)b->repeats + 150;
    const double wanted = 1e6 * b->options->seconds / round;
    const size_t least = b->options->rounds != UNSET ? b->options->rounds : DEFAULT_ROUNDS;
    b->rounds = wanted > ROUND_LIMIT ? ROUND_LIMIT : (size_t)wanted;
    b->rounds = b->rounds > least ? b->rounds : least;
    b->rounds = b->rounds > 0 ? b->rounds : 1;
    for (double end = now_us() + 2e4; now_us() < end;) /* the clock needs some ms of load to settle */
        peak_measure(b->isa);
}

static bool measure(struct bench *b)
{
    bool good = (b->peak = calloc(b->rounds, sizeof *b->peak)) != NULL;
    for (size_t s = 0; s < STEPS; s++)
        good = (b->us[s] = calloc(b->rounds, sizeof **b->us)) != NULL && good;
    for (size_t r = 0; good && r < b->rounds; r++) {
        double us[STEPS];
        const double before = peak_measure(b->isa);
        us[0] = time_layer(b);
        const double between = peak_measure(b->isa);
        time_steps(b, us);
        b->peak[r] = (before + between) / 2;
        for (size_t s = 0; s < STEPS; s++)
            b->us[s][r] = us[s];
    }
    return good;
}

/* ---- reporting ------------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    const double l = *(const double *)a, r = *(const double *)b;
    return (l > r) - (l < r);
}

/* The q-quantile of values; sorts them. */
static double quantile(double *values, size_t count, double q)
{
    qsort(values, count, sizeof *values, ascending);
    return values[(size_t)(q * (double)(count - 1) + 0.5)];
}

static void report_step(struct bench *b, size_t step, double multiply_adds)
{
    const double flops = 2 * multiply_adds * (double)b->inputs.batch;
    double *us = b->us[step];
    double *share = malloc(b->rounds * sizeof *share), *peaks = malloc(b->rounds * sizeof *peaks);
    if (share == NULL || peaks == NULL) {
        free(share);
        free(peaks);
        return;
    }
    for (size_t r = 0; r < b->rounds; r++) { /* before anything is sorted */
        peaks[r] = b->peak[r];
        share[r] = b->peak[r] > 0 && us[r] > 0 ? flops / (1e3 * us[r]) / b->peak[r] : 0;
    }
    const double peak = quantile(peaks, b->rounds, 0.5), of_peak = quantile(share, b->rounds, 0.5);
    const double median = quantile(us, b->rounds, 0.5), least = us[0];
    const double spread = quantile(us, b->rounds, 0.75) - quantile(us, b->rounds, 0.25);
    const double gflops = median > 0 ? flops / (1e3 * median) : 0;
    if (b->options->json)
        printf("{\"name\":\"%s\",\"isa\":\"%s\",\"step\":\"%s\",\"us\":%.4g,\"us_min\":%.4g,\"us_spread\":%.4g,"
               "\"gflops\":%.5g,\"peak_gflops\":%.5g,\"share\":%.4g}\n",
               b->layer->name, b->isa, steps[step].name, median, least, spread, gflops, peak, of_peak);
    else if (multiply_adds > 0)
        printf("%-18s %-7s %-10s %11.2f %11.2f %10.2f %9.1f %9.1f %6.1f%%\n", b->layer->name, b->isa, steps[step].name,
               median, least, spread, gflops, peak, 100 * of_peak);
    else
        printf("%-18s %-7s %-10s %11.2f %11.2f %10.2f\n", b->layer->name, b->isa, steps[step].name, median, least,
               spread);
    free(share);
    free(peaks);
}

static void report(struct bench *b)
{
    const struct layer_cost cost = layer_multiply_adds(b->layer, (int64_t)b->inputs.n, (int64_t)b->inputs.m);
    for (size_t s = 0; s < STEPS; s++)
        if (s == 0 || b->us[s][0] > 0) /* steps that the kernel has */
            report_step(b, s, steps[s].work(cost));
}

/* ---- one layer ------------------------------------------------------------------------------------------------- */

static void bench_isa(struct bench *b, int isa, struct diag *diag)
{
    const struct kernel_weights weights = kernel_weights_of(&b->inputs);
    int error = b->call->pack(b->packed, &weights, isa);
    if (error == KERNEL_ISA) {
        fprintf(stderr, "%s %s: skipped, this machine lacks it\n", b->layer->name, b->isa);
        return;
    }
    if (error == KERNEL_OK)
        error = b->call->forward(b->packed, &b->args, b->scratch);
    if (error != KERNEL_OK) {
        diag_error(diag, b->layer->name, "the kernel refuses: %s", b->call->strerror(error));
        return;
    }
    calibrate(b);
    if (measure(b))
        report(b);
    else
        diag_environment(diag, NULL, "out of memory");
    free(b->peak);
    for (size_t s = 0; s < STEPS; s++)
        free(b->us[s]);
    fflush(stdout);
}

/* The same length for every sequence of the batch, in place of m. */
static bool set_lengths(struct bench *b, size_t length, struct diag *diag)
{
    int32_t *lengths = b->inputs.tensor[TENSOR_LENGTHS];
    if (lengths == NULL)
        diag_error(diag, b->layer->name, "--lengths is for a mask with padding; this layer has none");
    else if (length > b->inputs.m)
        diag_error(diag, b->layer->name, "--lengths = %zu is past the %zu keys; ask for less", length,
                   b->inputs.m);
    for (size_t i = 0; diag->errors == 0 && i < b->inputs.batch; i++)
        lengths[i] = (int32_t)length;
    return diag->errors == 0;
}

static bool prepare(struct bench *b, struct diag *diag)
{
    const struct options *o = b->options;
    const struct inputs_draw draw = {
        .seed = o->seed, .init = o->init, .full_lengths = true, .batch = o->batch != UNSET ? o->batch : 1,
        .n = o->n != UNSET ? o->n : (size_t)b->layer->seq_len,
        .m = o->m != UNSET ? o->m : (size_t)b->layer->source_len};
    if (draw.n > (size_t)b->layer->seq_len || (b->layer->cross && draw.m > (size_t)b->layer->source_len)) {
        diag_error(diag, b->layer->name, "n = %zu or m = %zu is past seq_len = %lld or source_len = %lld; ask for less", draw.n,
                   draw.m, (long long)b->layer->seq_len, (long long)b->layer->source_len);
        return false;
    }
    if (!inputs_draw(&b->inputs, b->layer, &draw, diag) || (o->lengths != UNSET && !set_lengths(b, o->lengths, diag)))
        return false;
    b->packed = large_pages(b->call->packed_bytes);
    b->scratch = large_pages(b->call->scratch_bytes);
    b->y = large_pages(inputs_count(b->layer, &b->inputs, TENSOR_Y) * sizeof(float));
    b->attn = large_pages(inputs_count(b->layer, &b->inputs, TENSOR_ATTN) * sizeof(float));
    b->args = kernel_args_of(b->layer, &b->inputs, b->y, b->attn);
    if (b->packed == NULL || b->scratch == NULL || b->y == NULL || b->attn == NULL) {
        diag_environment(diag, NULL, "out of memory");
        return false;
    }
    return true;
}

static void bench_kernels(struct bench *b, struct diag *diag)
{
    for (int isa = 1; isa < KERNEL_ISA_LIMIT; isa++) {
        b->isa = b->call->isa_name(isa);
        if (b->isa != NULL && options_want_isa(b->options, b->isa))
            bench_isa(b, isa, diag);
    }
}

/* The reference on the same inputs: one line, the least of three runs, or of one when that takes long. */
static void bench_reference(struct bench *b, struct diag *diag)
{
    const struct layer_cost cost = layer_multiply_adds(b->layer, (int64_t)b->inputs.n, (int64_t)b->inputs.m);
    double least = INFINITY;
    for (int run = 0; run < 3 && (run == 0 || least < 1e5); run++) {
        struct reference reference;
        const double start = now_us();
        if (!reference_compute(&reference, b->layer, &b->inputs, false, NULL, NULL, diag))
            return;
        least = fmin(least, now_us() - start);
        reference_free(&reference);
    }
    const double gflops = 2 * cost.total * (double)b->inputs.batch / (1e3 * least);
    if (b->options->json)
        printf("{\"name\":\"%s\",\"isa\":\"double\",\"step\":\"reference\",\"us\":%.4g,\"us_min\":%.4g,"
               "\"gflops\":%.5g,\"peak_gflops\":0,\"share\":0}\n", b->layer->name, least, least, gflops);
    else
        printf("%-18s %-7s %-10s %11.2f %11.2f %10s %9.1f\n", b->layer->name, "double", "reference", least, least, "",
               gflops);
}

static int bench_spec(const struct options *options, const char *spec)
{
    struct diag diag = {0};
    struct kernel kernel = {0};
    struct layer *layer = layer_read(spec, options->compile.set, options->compile.set_count, &diag);
    if (layer != NULL && compile_kernel(&kernel, spec, layer->name, &options->compile, &diag)) {
        struct bench b = {.options = options, .layer = layer, .call = kernel.call};
        if (prepare(&b, &diag)) {
            bench_kernels(&b, &diag);
            if (options->reference)
                bench_reference(&b, &diag);
        }
        inputs_free(&b.inputs);
        free(b.packed);
        free(b.scratch);
        free(b.y);
        free(b.attn);
    }
    int code = diag_report(&diag, stderr);
    diag_free(&diag);
    kernel_unload(&kernel);
    layer_free(layer);
    return code;
}

int command_bench(const struct options *options)
{
    int worst = EXIT_GOOD;
    pin_to_this_core();
    if (!options->json)
        printf("one core, warm caches (the same buffers every round); µs of one call, medians over rounds\n"
               "%-18s %-7s %-10s %11s %11s %10s %9s %9s %7s\n",
               "layer", "isa", "step", "us", "min", "spread", "GFLOP/s", "peak", "share");
    for (size_t i = 0; i < options->spec_count; i++) {
        int code = bench_spec(options, options->specs[i]);
        worst = code > worst ? code : worst;
    }
    return worst;
}
