/* SPDX-License-Identifier: MIT */
/* beside ISA SECONDS: times layers side by side, in one process, in turns, by the CPU time of its thread, so that who shares
 * the machine moves the ratios as little as can be.
 *
 * Each line of the standard input is a layer: a label, then what stands behind `attnrun bench`, separated by tabs. The first
 * one is the base. Two more words are known:
 *   calls=7,182,…    a sample is a call of each sequence alone, at these lengths, not one call of the batch
 *   segments=64      segments of so many tokens, one behind the other
 * Prints for each layer and each of its steps: label, step, µs (the median), µs of the fastest sample, and over the base's the
 * median of the ratios of a round, their quartiles, and the ratio of the fastest samples; separated by blanks.
 * Ends with 3 where something is missing.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/options.h"
#include "kernels/call.h"
#include "kernels/compile.h"
#include "options/options.h"
#include "spec/layer.h"
#include "system/clock.h"
#include "timing/timing.h"

#define MAX_LAYERS 64
#define MAX_WORDS 64
#define MAX_CALLS 64
#define MAX_ROUNDS 1000
#define SAMPLE_US 5e3 /* at least */

static const char *const steps[] = {"layer", "transpose", "project", "attend", "output"};
#define STEPS (sizeof steps / sizeof *steps)

/* One of the layers that are timed. */
struct entry {
    char *label;
    struct options options;
    struct kernel kernel;
    struct layer *layer;
    struct timed timed;
    size_t calls, length[MAX_CALLS]; /* 0: one call, as drawn */
    double *us[STEPS];               /* [round]; of the whole layer first */
};

static double cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

/* One call, phase by phase; phases of one name are added up. */
static void add_call(const struct timed *t, const struct kernel_args *args, double us[STEPS])
{
    const size_t phases = t->call->phases(t->packed, args);
    if (phases == 0) {
        fprintf(stderr, "beside: the kernel refuses a call with n = %zu\n", args->n);
        exit(EXIT_ENVIRONMENT);
    }
    double start = cpu_us();
    for (size_t phase = 0; phase < phases; phase++) {
        const size_t parts = t->call->parts(t->packed, args, phase);
        for (size_t part = 0; part < parts; part++)
            t->call->run(t->packed, args, t->scratch, phase, part, 0);
        const double end = cpu_us();
        const char *name = t->call->phase_name(phase);
        us[0] += end - start;
        for (size_t s = 1; s < STEPS; s++)
            if (name != NULL && strcmp(name, steps[s]) == 0)
                us[s] += end - start;
        start = end;
    }
}

static void add_calls(const struct entry *e, double us[STEPS])
{
    if (e->calls == 0)
        add_call(&e->timed, &e->timed.args, us);
    for (size_t i = 0; i < e->calls; i++) {
        struct kernel_args args = kernel_args_of_sequence(e->layer, &e->timed.inputs, e->timed.args, i);
        const int32_t length = (int32_t)e->length[i];
        args.n = args.m = e->length[i];
        args.tensor[TENSOR_LENGTHS] = args.tensor[TENSOR_LENGTHS] != NULL ? &length : NULL;
        add_call(&e->timed, &args, us);
    }
}

static void take_sample(struct entry *e, size_t round)
{
    double us[STEPS] = {0};
    add_calls(e, us); /* finds what ran before in the caches: it does not count */
    memset(us, 0, sizeof us);
    size_t repeats = 0;
    do {
        add_calls(e, us);
        repeats++;
    } while (us[0] < SAMPLE_US);
    for (size_t s = 0; s < STEPS; s++)
        e->us[s][round] = us[s] / (double)repeats;
}

/* Words of our own, which are taken out of the line. */
static size_t segment_of(const char *word)
{
    return strncmp(word, "segments=", 9) == 0 ? strtoul(word + 9, NULL, 10) : 0;
}

static bool read_calls(struct entry *e, const char *word)
{
    if (strncmp(word, "calls=", 6) != 0)
        return false;
    for (char *at = (char *)word + 6; *at != '\0' && e->calls < MAX_CALLS; at += *at == ',')
        e->length[e->calls++] = strtoul(at, &at, 10);
    return true;
}

static void set_segments(struct entry *e, size_t tokens)
{
    int32_t *segment = e->timed.inputs.tensor[TENSOR_SEGMENT];
    for (size_t b = 0; b < e->timed.inputs.batch; b++)
        for (size_t t = 0; t < e->timed.inputs.n; t++)
            segment[b * e->timed.inputs.n + t] = (int32_t)(t / tokens);
}

static bool prepare(struct entry *e, const char *isa, char *line, struct diag *diag)
{
    char *words[MAX_WORDS + 3], *name = "beside";
    int count = 0;
    size_t segments = 0;
    words[count++] = name;
    e->label = strtok(line, "\t");
    for (char *word; (word = strtok(NULL, "\t")) != NULL && count < MAX_WORDS;) {
        if (segment_of(word) > 0)
            segments = segment_of(word);
        else if (!read_calls(e, word))
            words[count++] = word;
    }
    words[count++] = "--isa";
    words[count++] = (char *)isa;
    words[count] = NULL;
    const struct option_command *command = options_find(&attnrun_program, "bench");
    if (!options_parse(&e->options, count, words, command, diag))
        return false;
    const struct options *o = &e->options;
    const char *spec = o->spec_count > 0 ? o->specs[0] : "";
    e->layer = layer_read(spec, o->compile.set, o->compile.set_count, diag);
    if (e->layer == NULL || !compile_kernel(&e->kernel, spec, e->layer->name, &o->compile, diag))
        return false;
    const struct inputs_draw draw = {
        .seed = o->seed, .init = o->init, .full_lengths = true, .batch = o->batch != UNSET ? o->batch : 1,
        .n = o->n != UNSET ? o->n : (size_t)e->layer->seq_len,
        .m = o->m != UNSET ? o->m : (size_t)e->layer->source_len};
    if (!timed_make(&e->timed, e->layer, e->kernel.call, &draw, diag) ||
        (o->lengths != NULL && !inputs_set_lengths(&e->timed.inputs, e->layer, o->lengths, diag)))
        return false;
    if (segments > 0 && e->timed.inputs.tensor[TENSOR_SEGMENT] != NULL)
        set_segments(e, segments);
    if (!timed_pack(&e->timed, kernel_isa(e->kernel.call, isa), diag)) {
        if (diag->errors == 0)
            diag_environment(diag, NULL, "this machine lacks %s", isa);
        return false;
    }
    timed_drop_weights(&e->timed);
    return true;
}

static void report(const struct entry *base, const struct entry *e, size_t step, size_t rounds, double *room)
{
    double us[MAX_ROUNDS], base_us[MAX_ROUNDS];
    memcpy(us, e->us[step], rounds * sizeof *us);
    memcpy(base_us, base->us[step], rounds * sizeof *base_us);
    for (size_t r = 0; r < rounds; r++)
        room[r] = base_us[r] > 0 ? us[r] / base_us[r] : NAN;
    sort_ascending(us, rounds);
    sort_ascending(base_us, rounds);
    sort_ascending(room, rounds);
    if (us[0] > 0)
        printf("%s %s %.6g %.6g %.4f %.4f %.4f %.4f\n", e->label, steps[step], quantile(us, rounds, 0.5), us[0],
               quantile(room, rounds, 0.5), quantile(room, rounds, 0.25), quantile(room, rounds, 0.75),
               us[0] / base_us[0]);
}

int main(int argc, char **argv)
{
    static struct entry entries[MAX_LAYERS];
    static char lines[MAX_LAYERS][4096];
    static double room[MAX_ROUNDS];
    struct diag diag = {0};
    size_t count = 0;
    if (argc != 3) {
        fputs("usage: beside ISA SECONDS < LINES\n", stderr);
        return EXIT_USAGE;
    }
    pin_to_this_core();
    while (count < MAX_LAYERS && fgets(lines[count], sizeof lines[count], stdin) != NULL) {
        lines[count][strcspn(lines[count], "\n")] = '\0';
        if (!prepare(&entries[count], argv[1], lines[count], &diag)) {
            diag_report(&diag, stderr);
            return EXIT_ENVIRONMENT;
        }
        count++;
    }
    for (size_t i = 0; i < count; i++)
        for (size_t s = 0; s < STEPS; s++)
            if ((entries[i].us[s] = calloc(MAX_ROUNDS, sizeof(double))) == NULL)
                return EXIT_ENVIRONMENT;
    const double end = now_us() + 1e6 * strtod(argv[2], NULL);
    size_t rounds = 0;
    for (; count > 0 && rounds < MAX_ROUNDS && (rounds < 3 || now_us() < end); rounds++)
        for (size_t i = 0; i < count; i++)
            take_sample(&entries[(i + rounds) % count], rounds);
    for (size_t i = 0; i < count; i++)
        for (size_t s = 0; s < STEPS; s++)
            report(&entries[0], &entries[i], s, rounds, room);
    return EXIT_GOOD;
}
