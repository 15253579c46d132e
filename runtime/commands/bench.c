/* SPDX-License-Identifier: MIT */
/* attnrun bench: µs, GFLOP/s and share of peak of a layer and of its steps, on one core; attnrun roof: what these could
 * take at least.
 *
 * Rounds interleave the peak, the whole layer and the layer phase by phase, because the clock rate changes; a share
 * is the median of the rounds' own shares. Every round uses the same buffers, so caches are as warm as their size
 * allows. A disturbed round is repeated, and so are all rounds of a layer whose figures are still disturbed; if that
 * does not help, they are marked (quiet.h). FLOPs are twice the multiply-adds of the plain layer, however it is
 * computed. Left out on purpose: more cores.
 */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "commands.h"
#include "kernels/apart.h"
#include "kernels/call.h"
#include "plan/isa.h"
#include "reports/roof.h"
#include "reference/reference.h"
#include "base/memory.h"
#include "system/process.h"
#include "timing/peak.h"
#include "timing/rounds.h"
#include "system/clock.h"
#include "timing/timing.h"

#define LAYER "layer"     /* the first step: the layer as a whole */
#define STEPS ROOF_POINTS /* at most, with that one */

/* One call of a list; with a cache it has a past. */
struct bench_call {
    size_t n;
    int64_t past;
};

/* One kernel being measured. */
struct bench {
    const struct options *options;
    struct bench_call wanted;
    struct timed timed;
    size_t rounds, steps;
    const char *name[STEPS];       /* of the steps: those of the kernel's phases */
    struct sample *samples[STEPS]; /* [rounds]: µs of the step; all else is of the whole round */
    double now[STEPS];             /* µs of the current round */
    struct roof *roof;             /* attnrun roof: what is measured, in place of lines; else NULL */
};

/* ---- measuring ------------------------------------------------------------------------------------------------- */

/* Phases of the same name are one step. */
static size_t step_of_phase(struct bench *b, size_t phase)
{
    const struct kernel_table *call = b->timed.call;
    const char *name = (b->timed.backward ? call->back_phase_name : call->phase_name)(phase);
    size_t s = 1;
    while (s < b->steps && strcmp(b->name[s], name) != 0)
        s++;
    b->name[s] = name;
    b->steps = s < b->steps ? b->steps : s + 1;
    return s;
}

/* Times phase by phase. */
static void time_steps(struct bench *b, double us[STEPS])
{
    const struct timed *t = &b->timed;
    const bool back = t->backward;
    const size_t phases = (back ? t->call->back_phases : t->call->phases)(t->packed, &t->args);
    for (size_t s = 1; s < STEPS; s++)
        us[s] = 0;
    for (size_t r = 0; r < t->repeats; r++)
        for (size_t phase = 0; phase < phases; phase++) {
            const size_t step = step_of_phase(b, phase);
            const size_t parts = (back ? t->call->back_parts : t->call->parts)(t->packed, &t->args, phase);
            const double start = now_us();
            for (size_t part = 0; part < parts && !back; part++)
                t->call->run(t->packed, &t->args, t->scratch, phase, part, 0);
            for (size_t part = 0; part < parts && back; part++)
                t->call->back_run(t->packed, &t->args, &t->grads, t->back, phase, part, 0);
            us[step] += parts > 0 ? (now_us() - start) / (double)t->repeats : 0;
        }
}

/* Sets the time limit for the next few calls: the first ones, or a round. */
static void limit_calls(const struct bench *b)
{
    process_limit(apart_limit(b->timed.layer, &b->timed.inputs, 4));
}

/* Chooses repeats and rounds from a first run, which also warms up. */
static void calibrate(struct bench *b)
{
    const double us = timed_calibrate(&b->timed);
    const double round = 2 * us * (double)b->timed.repeats + 150;
    b->rounds = rounds_for(1e6 * b->options->seconds / round,
                           b->options->rounds != UNSET ? b->options->rounds : DEFAULT_ROUNDS);
    settle_clock(b->timed.isa);
}

/* Measures the peak, the layer, the peak, the steps. */
static struct sample take_round(void *context)
{
    struct bench *b = context;
    limit_calls(b);
    const double before = peak_measure(b->timed.isa);
    struct sample whole = timed_sample(&b->timed);
    b->now[0] = whole.us;
    const double between = peak_measure(b->timed.isa);
    const struct stopwatch watch = stopwatch_start();
    time_steps(b, b->now);
    const struct sample steps = stopwatch_stop(&watch, b->timed.repeats);
    whole.wall_us += steps.wall_us;
    whole.cpu_us += steps.cpu_us;
    whole.switches += steps.switches;
    whole.peak = (before + between) / 2;
    return whole;
}

static void take_rounds(struct bench *b)
{
    size_t again = b->rounds;
    for (size_t r = 0; r < b->rounds; r++) {
        const struct sample round = sample_quietly(take_round, b, &again);
        for (size_t s = 0; s < STEPS; s++) {
            b->samples[s][r] = round;
            b->samples[s][r].us = b->now[s];
        }
    }
}

static void measure(struct bench *b)
{
    bool wanted = true;
    for (size_t s = 0; s < STEPS; s++)
        b->samples[s] = memory_get(b->rounds, sizeof **b->samples);
    for (int take = 0; wanted && take <= ROUNDS_AGAIN; take++) {
        take_rounds(b);
        wanted = timing_of(b->samples[0], b->rounds, 0).quiet.disturbed;
    }
}

/* ---- reporting ------------------------------------------------------------------------------------------------- */

/* What a step takes, known by its name; of others the time alone. Multiply-adds of a sequence; and what it reads and
 * writes, each number once: bytes of weights and of cached rows; and of its rows, as f32, 0: not counted, as of
 * backward and of layers with states */
struct work {
    double multiply_adds, held, rows;
};

static struct layer_cost plain_cost(const struct bench *b)
{
    return layer_multiply_adds(b->timed.layer, (int64_t)b->timed.inputs.n,
                               inputs_reach(b->timed.layer, &b->timed.inputs));
}

static struct work work_of(const struct bench *b, size_t step)
{
    const struct layer_cost c = plain_cost(b);
    const struct layer *l = b->timed.layer;
    const struct inputs *in = &b->timed.inputs;
    const struct layer_parameters p = layer_parameters(l);
    const double all = layer_parameter_bytes(l), output = layer_packed_bytes(l, p.of[TENSOR_W_O], p.of[TENSOR_B_O]);
    const double hidden = layer_packed_bytes(l, p.of[TENSOR_W_1] + p.of[TENSOR_W_G],
                                             p.of[TENSOR_B_1] + p.of[TENSOR_B_G]);
    const double down = layer_packed_bytes(l, p.of[TENSOR_W_2], p.of[TENSOR_B_2]);
    const double n = (double)(in->batch * in->n), m = l->cross ? (double)(in->batch * in->m) : n;
    const double q = n * (double)(l->h * l->d_k), kv = m * (double)(l->h_kv * (l->d_k + l->d_v));
    const double z = n * (double)(l->h * l->d_v), y = n * (double)l->d_out, of_hidden = n * (double)l->d_ff;
    const double x = l->projected ? q + kv : n * (double)l->d_model + (l->cross ? m * (double)l->d_source : 0);
    double row = 0, cached = 0;
    for (size_t i = 0; i < in->batch; i++) {
        const double rows = (double)inputs_cached(l, in, i);
        cached += l->window_left >= 0 ? fmin(rows, (double)l->window_left) : rows;
    }
    for (int part = 0; part < inputs_cache_parts(l); part++)
        row += (double)(inputs_cache_width(l, part) * (size_t)l->h_kv *
                        layer_tensor_size(l, inputs_cache_of(l, part)));
    /* in backward: scores, which are recomputed, and two products for each product of forward; no second projection */
    const double project = c.q + c.k + c.v, attend = c.scores + c.values, attend_back = 3 * c.scores + 2 * c.values;
    const bool forms = c.made_k > 0; /* keys and values of heads from latents, in a step of their own */
    const struct { const char *name; double forward, back, held, numbers; } steps[] = {
        {LAYER, c.total, attend_back + 2 * (project + c.output), all + cached * row, x + y},
        {"project", project, 0, all - output - hidden - down, x + q + kv},
        {"attend", forms ? 0 : attend, attend_back, cached * row, q + kv + z},
        {"expand", forms ? c.made_k + c.made_v + attend : 0, 0, cached * row, 0},
        {"output", c.output, c.output, output, z + y},
        {"hidden", c.ffn - c.down, 0, hidden, n * (double)l->d_model + of_hidden},
        {"down", c.down, 0, down, of_hidden + y}, {"input", 0, project, 0, 0},
        {"weights", 0, project + c.output, 0, 0}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (strcmp(steps[i].name, b->name[step]) == 0)
            return (struct work){b->timed.backward ? steps[i].back : steps[i].forward, steps[i].held,
                                 b->timed.backward || layer_keeps_states(l) ? 0 : sizeof(float) * steps[i].numbers};
    return (struct work){0, 0, 0};
}

/* Prints what follows the figures of a call with a cache; nothing without one. */
static void print_cached(const struct bench *b, size_t step, double us, bool json)
{
    const double bytes = work_of(b, step).held, gigabytes = us > 0 ? bytes / (1e3 * us) : 0;
    if (!layer_has_cache(b->timed.layer))
        return;
    if (json)
        printf("\"n\":%zu,\"past\":%lld,\"bytes\":%.6g,\"gbytes\":%.4g,", b->wanted.n, (long long)b->wanted.past, bytes,
               gigabytes);
    else
        printf("  n %zu past %lld", b->wanted.n, (long long)b->wanted.past);
    if (!json && bytes > 0)
        printf(" %.4g MB %.1f GB/s", bytes / 1e6, gigabytes);
}

static void report_step(struct bench *b, size_t step)
{
    const double multiply_adds = work_of(b, step).multiply_adds;
    const struct timing t = timing_of(b->samples[step], b->rounds,
                                      2 * multiply_adds * (double)b->timed.inputs.batch);
    const char *name = b->timed.layer->name, *isa = b->timed.isa;
    const double spread = t.us_q3 - t.us_q1;
    char cpu_share[40] = "";
    if (!isnan(t.quiet.cpu_share))
        snprintf(cpu_share, sizeof cpu_share, "\"cpu_share\":%.4g,", t.quiet.cpu_share);
    /* at the end of the line, so that scripts need not expect it; short steps always vary */
    const char *star = t.quiet.disturbed ? " *" : step == 0 && t.us > SURE_RATIO * t.us_min ? " ~" : "";
    if (b->options->json) {
        printf("{\"name\":\"%s\",\"isa\":\"%s\",\"step\":\"%s\",", name, isa, b->name[step]);
        print_cached(b, step, t.us, true);
        printf("\"us\":%.4g,\"us_min\":%.4g,\"us_spread\":%.4g,%s\"switches\":%zu,\"disturbed\":%d,"
               "\"gflops\":%.5g,\"peak_gflops\":%.5g,\"share\":%.4g}\n", t.us, t.us_min, spread, cpu_share,
               t.quiet.switches, t.quiet.disturbed, t.gflops, t.peak, t.share);
    } else {
        printf("%-18s %-7s %-12s %11.2f %11.2f %10.2f", name, isa, b->name[step], t.us, t.us_min, spread);
        if (multiply_adds > 0)
            printf(" %9.1f %9.1f %6.1f%%", t.gflops, t.peak, 100 * t.share);
        print_cached(b, step, t.us, false);
        printf("%s\n", star);
    }
}

/* What was measured of a step as a point of the roofline */
static void add_point(struct bench *b, size_t step)
{
    struct roof *const roof = b->roof;
    struct roof_point *const point = &roof->points[roof->count++];
    const struct timing t = timing_of(b->samples[step], b->rounds, 0);
    const struct work work = work_of(b, step);
    snprintf(point->step, sizeof point->step, "%s", b->name[step]);
    point->us = t.us;
    point->flops = 2 * work.multiply_adds * (double)b->timed.inputs.batch;
    point->bytes = work.rows > 0 ? work.rows + work.held : 0;
    roof->peak = step == 0 ? t.peak : roof->peak;
}

/* What the call accesses, and the roofs; before and after its steps are measured, as others use the machine too */
static void raise_roof(struct bench *b)
{
    struct roof *const roof = b->roof;
    if (roof == NULL)
        return;
    snprintf(roof->isa, sizeof roof->isa, "%s", b->timed.isa);
    roof->n = b->timed.inputs.n;
    roof->past = layer_has_cache(b->timed.layer) ? b->wanted.past : -1;
    roof->accessed = (double)timed_bytes(b->timed.layer, b->timed.call, &b->timed.inputs);
    roof_measure(roof);
}

static void report(struct bench *b)
{
    for (size_t s = 0; s < b->steps; s++)
        if (s == 0 || b->samples[s][0].us > 0) /* steps that the call has */
            (b->roof != NULL ? add_point : report_step)(b, s);
}

/* Of what the timed call has left */
static void print_digest(const struct bench *b)
{
    const struct timed *t = &b->timed;
    const unsigned long long digest = kernel_digest(DIGEST_OF_NOTHING, t->layer, &t->inputs, &t->args, NULL);
    printf(b->options->json ? "{\"name\":\"%s\",\"isa\":\"%s\",\"digest\":\"%016llx\"}\n"
                            : "%-18s %-7s digest       %016llx\n", t->layer->name, t->isa, digest);
}

/* ---- one layer ------------------------------------------------------------------------------------------------- */

static void say_skipped(const char *name, const char *isa, const char *why)
{
    fprintf(stderr, "%s %s: skipped, %s\n", name, isa, why);
}

/* False if the machine lacks it, which is printed, or with the reason in `diag`. */
static bool bench_isa(struct bench *b, int isa, struct diag *diag)
{
    limit_calls(b);
    if (!timed_pack(&b->timed, isa, diag)) {
        if (diag->errors == 0)
            say_skipped(b->timed.layer->name, b->timed.call->isa_name(isa),
                        call_why_skipped(b->timed.layer, (size_t)(isa_find(b->timed.call->isa_name(isa)) - isa_table)));
        return false;
    }
    raise_roof(b);
    calibrate(b);
    measure(b);
    raise_roof(b);
    report(b);
    if (b->options->digest)
        print_digest(b);
    process_limit(0);
    for (size_t s = 0; s < STEPS; s++)
        free(b->samples[s]);
    return true;
}

static bool prepare(struct bench *b, const struct layer *layer, const struct kernel_table *call, struct diag *diag)
{
    const struct options *o = b->options;
    const struct inputs_draw draw = {
        .seed = o->seed, .init = o->init, .full_lengths = true, .batch = o->batch != UNSET ? o->batch : 1,
        .n = b->wanted.n, .past_given = layer_has_cache(layer), .past = b->wanted.past,
        .m = o->m != UNSET ? o->m : (size_t)layer->source_len};
    const bool good = timed_make(&b->timed, layer, call, &draw, diag) &&
                      (o->lengths == NULL || inputs_set_lengths(&b->timed.inputs, layer, o->lengths, diag));
    if (good && o->backward)
        timed_backward(&b->timed);
    return good;
}

/* The reference on the same inputs: one line, the fastest of three runs, or of one if that takes long */
static void bench_reference(struct bench *b)
{
    const struct layer_cost cost = plain_cost(b);
    double min = INFINITY;
    for (int run = 0; run < 3 && (run == 0 || min < 1e5); run++) {
        const double start = now_us();
        OWNED(reference_free) struct reference reference;
        reference_compute(&reference, b->timed.layer, &b->timed.inputs, false, NULL, NULL);
        min = fmin(min, now_us() - start);
    }
    const double gflops = 2 * cost.total * (double)b->timed.inputs.batch / (1e3 * min);
    if (b->options->json)
        printf("{\"name\":\"%s\",\"isa\":\"double\",\"step\":\"reference\",\"us\":%.4g,\"us_min\":%.4g,"
               "\"gflops\":%.5g,\"peak_gflops\":0,\"share\":0}\n", b->timed.layer->name, min, min, gflops);
    else
        printf("%-18s %-7s %-12s %11.2f %11.2f %10s %9.1f\n", b->timed.layer->name, "double", "reference", min, min,
               "", gflops);
}

static void print_heading(const struct layer *layer)
{
    if (layer_has_cache(layer))
        printf("with a cache: MB of weights and cached rows that a step reads, each once, from where they fit (a call "
               "finds\nwhat the one before it left in L1, L2, L3)\n");
    printf("one core, warm caches (the same buffers every round); µs of one call, medians over rounds\n"
           "* after a line: the machine was disturbed; the minimum is closer to the truth; ~ after that of a layer:\n"
           "the median is 5 to 30 %% above the minimum, and differences as small as that are not sure\n"
           "%-18s %-7s %-12s %11s %11s %10s %9s %9s %7s\n",
           "layer", "isa", "step", "us", "min", "spread", "GFLOP/s", "peak", "share");
}

/* What a separate process measures: an instruction set, or without one the reference */
struct job {
    const struct options *options;
    const struct layer *layer;
    const struct kernel_table *call;
    const char *spec;
    struct bench_call wanted;
    int isa;
    bool *headed;
    size_t timed, lacking; /* numbers of instruction sets, and of the reference */
    int worst;             /* exit code */
    bool of_roofs;         /* attnrun roof */
    struct roof *roofs;    /* those of all calls so far */
    size_t roof_count;
};

/* What that process answers */
struct answer {
    int code;
    struct roof roof; /* of attnrun roof; else, and where nothing was measured, without points */
};

#define LACKING (-1) /* in place of an exit code: the machine has no such instruction set */

/* Runs in that process: everything from random inputs to the printed line, so that all memory is its own. */
static void bench_here(void *context, FILE *answer)
{
    const struct job *job = context;
    struct answer said = {0};
    struct bench b = {.options = job->options, .wanted = job->wanted, .steps = 1, .name = {LAYER},
                      .roof = job->of_roofs ? &said.roof : NULL};
    struct diag diag = {0};
    bool timed = true;
    if (prepare(&b, job->layer, job->call, &diag)) {
        if (!*job->headed && !job->of_roofs)
            print_heading(job->layer);
        fflush(stdout);
        if (job->isa == 0)
            bench_reference(&b);
        else
            timed = bench_isa(&b, job->isa, &diag);
    }
    const int ended = system_end(diag_report(&diag, stderr));
    said.code = timed || ended != EXIT_GOOD ? ended : LACKING;
    fwrite(&said, sizeof said, 1, answer);
}

/* A kernel that ended its process. */
static int report_crash(const struct job *job, const char *why)
{
    struct options only = *job->options;
    char n[24], past[24];
    const bool cached = layer_has_cache(job->layer);
    snprintf(n, sizeof n, "%zu", job->wanted.n);
    snprintf(past, sizeof past, "%lld", (long long)job->wanted.past);
    only.isa = job->call->isa_name(job->isa);
    only.queries = only.queries != NULL || cached ? n : NULL;
    only.pasts = cached ? past : NULL;
    fprintf(stderr, "FAILED  %s %s: %s\n", job->layer->name, only.isa, why);
    options_repeat(&only, job->of_roofs ? COMMAND_ROOF : COMMAND_BENCH, job->spec, stderr);
    return EXIT_CHECK_FAILED;
}

/* Prints and keeps the roofs that a process has measured, if any; its exit code */
static int take_answer(struct job *job, const char *bytes)
{
    struct answer said;
    memcpy(&said, bytes, sizeof said);
    if (said.roof.count == 0)
        return said.code;
    roof_print(&said.roof, job->layer->name, job->options->json, stdout);
    job->roofs = memory_grow(job->roofs, job->roof_count + 1, sizeof *job->roofs);
    job->roofs[job->roof_count++] = said.roof;
    return said.code;
}

/* Waits idly while the process measures; its exit code, or that for how it ended, may be the worst. A set that the
 * machine lacks is counted, and no failure. */
static void bench_apart(struct job *job)
{
    OWNED(process_forget) struct process_result result = {0};
    OWNED(diag_free) struct diag diag = {0};
    char text[80];
    int code = EXIT_GOOD;
    if (process_call(&result, bench_here, job, NULL, &diag)) {
        const char *why = process_unanswered(&result, sizeof(struct answer), text);
        if (why == NULL)
            code = take_answer(job, result.output);
        else if (result.signal == SIGPIPE)
            raise(SIGPIPE); /* nobody reads the output */
        else if (process_stopped(&result) || job->isa == 0)
            diag_environment(&diag, job->layer->name, "%s while it was measured", why);
        else
            code = report_crash(job, why);
    }
    if (diag.errors > 0)
        code = diag_report(&diag, stderr);
    *(code == LACKING ? &job->lacking : &job->timed) += 1;
    code = code == LACKING ? EXIT_GOOD : code;
    *job->headed = *job->headed || code <= EXIT_CHECK_FAILED;
    job->worst = code > job->worst ? code : job->worst;
}

/* Every requested instruction set, and the reference; errors of the call are reported once. Of roofs, where no set is
 * requested, the best one that the machine has. */
static void bench_kernels(struct job *job)
{
    const size_t before = job->timed;
    for (size_t i = 0; i < isa_count && job->worst <= EXIT_CHECK_FAILED; i++) {
        const size_t row = job->of_roofs ? isa_count - 1 - i : i;
        if (job->of_roofs && !job->options->each_isa && job->timed > before)
            break;
        const char *name = job->call->isa_name(isa_table[row].id);
        job->isa = isa_table[row].id;
        if (name != NULL && options_want_isa(job->options, name)) {
            bench_apart(job);
        } else if (name == NULL && options_name_isa(job->options, isa_table[row].name)) {
            say_skipped(job->layer->name, isa_table[row].name, call_why_skipped(job->layer, row));
            job->lacking++;
        }
    }
    job->isa = 0;
    if (job->options->reference && job->worst <= EXIT_CHECK_FAILED)
        bench_apart(job);
}

/* Number `at` of a list; false after its end */
static bool number_of(const char *list, size_t at, int64_t *number)
{
    for (; list != NULL && at > 0; at--)
        list = strchr(list, ',') != NULL ? strchr(list, ',') + 1 : NULL;
    if (list != NULL)
        *number = strtoll(list, NULL, 10);
    return list != NULL;
}

/* The requested calls, each number of queries with each past; a missing list has defaults. `most`: maximum number of
 * calls */
static size_t list_calls(const struct options *options, const struct layer *layer, struct bench_call *calls,
                         size_t most)
{
    const bool cached = layer_has_cache(layer);
    const int64_t len = layer->cache_len;
    size_t count = 0;
    int64_t n, past;
    if (options->queries == NULL && options->pasts == NULL && cached) {
        const struct bench_call defaults[] = {{(size_t)layer->seq_len, 0}, {1, len / 4}, {1, len / 2}, {1, len - 1}};
        while (count < sizeof defaults / sizeof *defaults && count < most) {
            calls[count] = defaults[count];
            count++;
        }
        return count;
    }
    for (size_t i = 0; options->queries == NULL ? i == 0 : number_of(options->queries, i, &n); i++) {
        n = options->queries == NULL ? options->pasts != NULL ? 1 : layer->seq_len : n;
        for (size_t j = 0; options->pasts == NULL ? j == 0 : number_of(options->pasts, j, &past); j++)
            if (count < most)
                calls[count++] = (struct bench_call){(size_t)n, options->pasts == NULL ? 0 : past};
    }
    return count;
}

#define MAX_CALLS 400

static int bench_spec(const struct options *options, const char *spec, bool of_roofs, bool *headed)
{
    OWNED(diag_free) struct diag diag = {0};
    OWNED(kernel_unload) struct kernel kernel = {0};
    struct layer *layer = layer_read(spec, options->compile.set, options->compile.set_count, &diag);
    int code = EXIT_GOOD;
    if (layer != NULL && options_fit(options, layer, spec, &diag) &&
        compile_kernel(&kernel, spec, layer->name, &options->compile, &diag)) {
        struct job job = {.options = options, .layer = layer, .call = kernel.call, .spec = spec, .headed = headed,
                          .of_roofs = of_roofs};
        struct bench_call calls[MAX_CALLS];
        if (options->backward && !layer->train)
            diag_error(&diag, spec, "--backward is for a layer with train = true; this one has no backward pass");
        if (options->out != NULL && options->each_isa &&
            (options->isa == NULL || strchr(options->isa, ',') != NULL))
            diag_error(&diag, spec, "--out draws the calls of one instruction set; name one with --isa, or none for "
                       "the best");
        if (options->pasts != NULL && !layer_has_cache(layer))
            diag_error(&diag, spec, "--past is for a layer with a cache; this one has none");
        const size_t count = diag.errors == 0 ? list_calls(options, layer, calls, MAX_CALLS) : 0;
        for (size_t i = 0; i < count && job.worst <= EXIT_CHECK_FAILED; i++) {
            job.wanted = calls[i];
            bench_kernels(&job);
        }
        code = job.worst;
        if (options->out != NULL && code == EXIT_GOOD && job.roof_count > 0)
            roof_draw(job.roofs, job.roof_count, layer->name, options->out, &diag);
        free(job.roofs);
        if (job.lacking > 0 && job.timed == 0)
            call_report_no_isa(spec, &diag);
    }
    if (diag.errors > 0)
        code = diag_report(&diag, stderr);
    layer_free(layer);
    return code;
}

int command_bench(const struct options *options)
{
    int worst = EXIT_GOOD;
    bool headed = options->json; /* whether the headings are printed: before the first line of figures */
    pin_to_this_core();
    for (size_t i = 0; i < options->spec_count; i++) {
        int code = bench_spec(options, options->specs[i], false, &headed);
        worst = code > worst ? code : worst;
    }
    return worst;
}

int command_roof(const struct options *options)
{
    bool headed = true;
    pin_to_this_core();
    return bench_spec(options, options->specs[0], true, &headed);
}
