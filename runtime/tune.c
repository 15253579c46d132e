/* SPDX-License-Identifier: MIT */
/* attnrun tune: which plan is the fastest here, for one layer.
 *
 *     candidates (candidates.c) → each: compiled, checked against the reference, timed against the default
 *     → the best of them, in rounds → what single keys gained, joined → the winner anew against the default → a file
 *
 * A ratio is the default's time over a candidate's in the same round, so that a clock that moves moves both. What was
 * the best of many is partly so by luck; the figures that are reported and decide are those of the last, fresh run
 * only. Left out on purpose: more than one core, and which candidates there are.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../gen/isa.h"
#include "../gen/planfile.h"
#include "candidates.h"
#include "commands.h"
#include "process.h"
#include "timing.h"
#include "verify.h"

#define CHECKED_BATCH 2     /* sequences, at most */
#define SEATS 5             /* candidates that stay in memory; the slowest makes room */
#define FIRST_ROUNDS 3      /* of each, when it arrives; more while they take less than FIRST_US */
#define FIRST_US 3e4
#define RATIOS_MOST 1024
#define SEARCH_SHARE 0.6    /* of the budget, for arriving candidates */
#define ROUNDS_SHARE 0.7    /* from its start: rounds among the best end here */
#define JOIN_SHARE 0.85     /* likewise: joining keys */
#define LAST_ARRIVALS 4     /* two compilations without hurry(), in times of one with it */
#define JOIN_LEAST 1.003    /* what another key must add */
/* The fresh run: medians of SITTINGS sittings, each with memory of its own. Between the 2nd smallest and the 2nd
 * largest of 9 lies the true median with probability 1 - 2 (1 + 9) / 2^9 = 96 %. */
#define SITTINGS 9
#define SITTING_LOW 1
#define SITTING_HIGH (SITTINGS - 2)
#define PAIRS_LEAST 3
#define PAIRS_MOST 400

_Static_assert(PAIRS_MOST <= RATIOS_MOST, "median_of holds either");

/* A kernel in memory. */
struct seat {
    struct plan_request request;
    struct kernel kernel;
    struct timed timed;
    double ratio[RATIOS_MOST];
    size_t ratios;
};

/* The fresh run. */
struct gain {
    double default_us, tuned_us, ratio, low, high;
};

struct tune {
    const struct options *options;
    const char *spec;
    struct layer *layer;
    struct inputs_draw draw; /* what is timed */
    struct subject subject; /* what candidates are checked with, for kernels that fold so: */
    struct folds folds;
    size_t wrong;           /* kernels that are */
    size_t row;             /* in isa_table */
    double start;           /* when this instruction set began */
    double arrival_us;      /* the longest that a candidate took to be compiled and checked */
    struct plan_file blank; /* asks for nothing; names CPU and compiler */
    struct candidates candidates;
    struct seat standard, seats[SEATS];
    size_t seated;
    size_t measured;
    struct plan_request gained[SEATS * 20]; /* single keys that were faster than the default, and by how much */
    double gained_ratio[SEATS * 20];
    size_t gains;
    struct diag *diag;
};

#define GAINS (sizeof ((struct tune *)0)->gained_ratio / sizeof(double))

static const struct isa *isa_of(const struct tune *t)
{
    return &isa_table[t->row];
}

/* Of the time that is not kept for the last two compilations. */
static bool time_is_up(const struct tune *t, double share)
{
    const double budget = 1e6 * t->options->budget;
    return now_us() - t->start > share * (budget - fmin(LAST_ARRIVALS * t->arrival_us, budget / 2));
}

/* Progress and tables; JSON stands alone. */
static FILE *log_of(const struct tune *t)
{
    return t->options->json ? stderr : stdout;
}

static void print_request(const struct plan_request *request, FILE *out)
{
    if (plan_request_keys(request) > 0)
        plan_request_print(request, out);
    else
        fputs("the default", out);
}

/* ---- the file -------------------------------------------------------------------------------------------------- */

static char *file_text(const struct tune *t, const struct plan_file *file)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL)
        return NULL;
    fprintf(out, "# Written by attnrun tune for the layer %s: batch %zu, n %zu, m %zu on one core.\n"
                 "# attngen --plan reads it; what a section does not name is decided as without it.\n",
            t->layer->name, t->draw.batch, t->draw.n, t->draw.m);
    plan_file_print(file, t->layer, out);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static bool write_file(const struct tune *t, const struct plan_file *file, const char *path)
{
    char *text = file_text(t, file);
    bool good = text != NULL;
    if (!good)
        diag_environment(t->diag, path, "out of memory");
    good = good && file_replace(path, &(struct piece){text, strlen(text)}, 1, t->diag);
    free(text);
    return good;
}

static void set_request(struct plan_file *file, size_t row, const struct plan_request *request)
{
    file->isa[row].request = *request;
    file->isa[row].request.value[PLAN_FOLD] = PLAN_AUTO; /* that holds for all sets */
    file->common.value[PLAN_FOLD] = request->value[PLAN_FOLD];
    file->isa[row].line = 1;
}

/* ---- a candidate's way into memory ----------------------------------------------------------------------------- */

static void seat_free(struct seat *seat)
{
    timed_free(&seat->timed);
    kernel_unload(&seat->kernel);
    *seat = (struct seat){0};
}

/* --set words for the request, after those of the command line. */
static bool request_words(struct words *words, const struct options *options, const struct plan_request *request)
{
    char value[24], text[64];
    for (size_t i = 0; i < options->compile.set_count; i++)
        words_add(words, options->compile.set[i]);
    for (int key = 0; key < PLAN_KEYS; key++)
        if (request->value[key] != PLAN_AUTO) {
            snprintf(text, sizeof text, "%s=%s", plan_key_name((enum plan_key)key),
                     plan_value_text((enum plan_key)key, request->value[key], value));
            words_add(words, text);
        }
    return !words->failed;
}

/* Reference and bounds hold for every kernel that folds alike. */
static bool compute(struct tune *t, const struct kernel *kernel)
{
    const struct folds folds = kernel_folds(kernel);
    const struct inputs_draw draw = {.seed = t->draw.seed, .init = t->draw.init, .n = t->draw.n, .m = t->draw.m,
                                     .batch = t->draw.batch < CHECKED_BATCH ? t->draw.batch : CHECKED_BATCH};
    const bool made = t->subject.layer != NULL && folds.scores == t->folds.scores && folds.values == t->folds.values;
    if (!made) {
        subject_free(&t->subject);
        t->folds = folds;
        if (!subject_make(&t->subject, t->layer, kernel, &draw, t->diag))
            return false;
    }
    t->subject.kernel = kernel;
    return true;
}

/* Says what is wrong, and the command that shows it: --set words make the same kernel as the plan file did. */
static void report_wrong(struct tune *t, const struct findings *f, const struct plan_request *request)
{
    const struct comparison *const both[] = {&f->y, &f->attn};
    struct compile_options compile = t->options->compile;
    struct words words = {0};
    fprintf(stderr, "FAILED  %s %s: ", t->layer->name, isa_of(t)->name);
    print_request(request, stderr);
    for (int i = 0; i < 2; i++)
        if (both[i]->misses > 0) {
            fputs("\n  ", stderr);
            comparison_print_miss(both[i], stderr);
        }
    fprintf(stderr, "%s%s\n  repeat: ", f->why[0] != '\0' ? "\n  " : "", f->why);
    compile_print_variables(stderr);
    fprintf(stderr, "attnrun check %s --isa %s --seed %llu --n %zu", t->spec, isa_of(t)->name,
            (unsigned long long)t->draw.seed, t->draw.n);
    if (t->layer->cross)
        fprintf(stderr, " --m %zu", t->draw.m);
    request_words(&words, t->options, request);
    compile.set = (const char *const *)words.word;
    compile.set_count = words.count;
    compile_print_options(&compile, stderr);
    fputc('\n', stderr);
    words_free(&words);
}

/* In a process of its own, which a wrong kernel may take with it; what is right goes on to be timed in this one. */
struct verified {
    struct findings findings;
    char reason[300]; /* why there is no verdict; "": there is one */
};

static void verify(void *context, FILE *answer)
{
    struct tune *t = context;
    struct diag diag = {0};
    struct verified v = {.findings = subject_verify(&t->subject, isa_of(t)->id, &diag)};
    if (diag.errors > 0)
        snprintf(v.reason, sizeof v.reason, "%s", diag_first(&diag));
    fwrite(&v, sizeof v, 1, answer);
}

/* Accuracy and promises. False when the kernel is wrong, which is said and counted, or with the reason in `diag`. */
static bool check_kernel(struct tune *t, const struct kernel *kernel, const struct plan_request *request)
{
    if (!compute(t, kernel))
        return false;
    struct process_result result;
    struct verified v = {.findings = {.verdict = VERDICT_FAILED}};
    struct findings *const f = &v.findings;
    char text[80];
    const bool called = process_call(&result, verify, t, NULL, t->diag);
    t->subject.kernel = NULL;
    if (!called)
        return false;
    const char *why = process_unanswered(&result, sizeof v, text);
    if (why == NULL)
        memcpy(&v, result.output, sizeof v);
    else
        snprintf(f->why, sizeof f->why, "%s while it was checked", why);
    free(result.output);
    if (v.reason[0] != '\0')
        diag_environment(t->diag, t->spec, "%s", v.reason);
    if (f->verdict == VERDICT_FAILED) {
        t->wrong++;
        report_wrong(t, f, request);
    } else if (f->verdict == VERDICT_LACKING) {
        diag_environment(t->diag, t->spec, "this machine lacks %s", isa_of(t)->name);
    }
    return f->verdict == VERDICT_GOOD;
}

/* What attngen --plan makes of a file, or without a plan where `file` is NULL. */
static bool compile_plan(struct tune *t, struct kernel *kernel, const struct plan_file *file, const char *isa)
{
    struct compile_options options = t->options->compile;
    char *folder = NULL, *path = NULL;
    sigset_t before;
    bool good = true;
    options.isa = isa;
    signals_hold(&before); /* so that the folder does not stay */
    if (file != NULL) {
        folder = folder_make(t->diag);
        path = folder != NULL ? path_join(folder, "tuned.plan") : NULL;
        if (folder != NULL && path == NULL)
            diag_environment(t->diag, NULL, "out of memory");
        good = path != NULL && write_file(t, file, path);
        options.plan = path;
    }
    good = good && compile_kernel(kernel, t->spec, t->layer->name, &options, t->diag);
    if (folder != NULL)
        folder_remove(folder);
    free(folder);
    free(path);
    signals_release(&before);
    return good;
}

/* False when the kernel is wrong, or with the reason in `diag`. */
static bool make_kernel(struct tune *t, struct kernel *kernel, const struct plan_file *file,
                        const struct plan_request *request)
{
    return compile_plan(t, kernel, file, isa_of(t)->name) && check_kernel(t, kernel, request);
}

/* Packed and warm. */
static bool sit_down(struct tune *t, struct timed *timed, const struct kernel *kernel)
{
    if (!timed_make(timed, t->layer, kernel->call, &t->draw, t->diag) ||
        !timed_pack(timed, isa_of(t)->id, t->diag)) {
        if (t->diag->errors == 0)
            diag_environment(t->diag, t->layer->name, "this machine lacks %s", isa_of(t)->name);
        return false;
    }
    timed_drop_weights(timed);
    timed_calibrate(timed);
    return true;
}

/* Small code, which compiles in a third of the time, for an instruction set that is not the one to be measured: the
 * scalar one is in every pair. */
static void hurry(struct plan_file *file, size_t row)
{
    file->isa[row].line = 1;
    file->isa[row].request.value[PLAN_SIZE] = PLAN_SMALL;
}

static bool seat_fill(struct tune *t, struct seat *seat, const struct plan_request *request)
{
    const double start = now_us();
    struct plan_file file = t->blank;
    *seat = (struct seat){.request = *request};
    set_request(&file, t->row, request);
    if (t->row > 0)
        hurry(&file, 0);
    if (make_kernel(t, &seat->kernel, &file, request) && sit_down(t, &seat->timed, &seat->kernel)) {
        t->arrival_us = fmax(t->arrival_us, now_us() - start);
        return true;
    }
    seat_free(seat);
    return false;
}

/* ---- timing ---------------------------------------------------------------------------------------------------- */

/* What ran before had other memory: one call brings this one's back. */
static double sample(const struct timed *timed)
{
    timed->call->forward(timed->packed, &timed->args, timed->scratch);
    return timed_sample(timed);
}

static double median_of(const double *values, size_t count)
{
    double sorted[RATIOS_MOST];
    if (count == 0)
        return 0;
    memcpy(sorted, values, count * sizeof *sorted);
    sort_ascending(sorted, count);
    return quantile(sorted, count, 0.5);
}

static double ratio_of(const struct seat *seat)
{
    return median_of(seat->ratio, seat->ratios);
}

/* One round: the default, then the seats from `first` on. */
static void time_round(struct tune *t, size_t first)
{
    const double us = sample(&t->standard.timed);
    for (size_t i = first; i < t->seated; i++) {
        struct seat *seat = &t->seats[i];
        const double ratio = us / sample(&seat->timed);
        if (seat->ratios < RATIOS_MOST)
            seat->ratio[seat->ratios++] = ratio;
    }
}

/* Rounds from seat `first` on until the first figure is worth something. */
static void time_first_rounds(struct tune *t, size_t first)
{
    const double start = now_us();
    for (size_t r = 0; r < FIRST_ROUNDS || (r < RATIOS_MOST / 8 && now_us() - start < FIRST_US); r++)
        time_round(t, first);
}

/* ---- searching ------------------------------------------------------------------------------------------------- */

static int fastest_first(const void *a, const void *b)
{
    const double l = ratio_of(a), r = ratio_of(b);
    return (l < r) - (l > r);
}

static void sort_seats(struct tune *t)
{
    qsort(t->seats, t->seated, sizeof *t->seats, fastest_first);
}

static void note_gain(struct tune *t, const struct seat *seat)
{
    if (plan_request_keys(&seat->request) != 1 || ratio_of(seat) < JOIN_LEAST || t->gains == GAINS)
        return;
    size_t at = t->gains++; /* the largest first */
    for (; at > 0 && t->gained_ratio[at - 1] < ratio_of(seat); at--) {
        t->gained[at] = t->gained[at - 1];
        t->gained_ratio[at] = t->gained_ratio[at - 1];
    }
    t->gained[at] = seat->request;
    t->gained_ratio[at] = ratio_of(seat);
}

/* A candidate arrives: the free seat, or the slowest one's once it is known to be slower. */
static bool arrive(struct tune *t, const struct plan_request *request)
{
    struct seat *seat = &t->seats[t->seated];
    if (!seat_fill(t, seat, request))
        return false;
    t->seated++;
    t->measured++;
    time_first_rounds(t, t->seated - 1);
    fprintf(log_of(t), "  %6.3f  ", ratio_of(seat));
    print_request(request, log_of(t));
    fputc('\n', log_of(t));
    fflush(log_of(t));
    note_gain(t, seat);
    sort_seats(t);
    if (t->seated == SEATS)
        seat_free(&t->seats[--t->seated]);
    return true;
}

/* All candidates, or those that the time allows; the first in any case. A wrong one does not keep the others from being
 * checked, but nothing comes of the run any more. */
static void search(struct tune *t)
{
    for (size_t i = 1; i < t->candidates.count && (i == 1 || !time_is_up(t, SEARCH_SHARE)); i++)
        if (!arrive(t, &t->candidates.item[i].request) && t->diag->errors > 0)
            return;
}

/* Rounds among the best; every time that the rounds have doubled, the slower half leaves. */
static void halve(struct tune *t)
{
    size_t rounds = 0, next = t->seated > 0 ? t->seats[0].ratios : 0;
    while (t->seated > 1 && rounds < RATIOS_MOST / 2 && !time_is_up(t, ROUNDS_SHARE)) {
        time_round(t, 0);
        if (++rounds < next)
            continue;
        next *= 2;
        sort_seats(t);
        for (size_t keep = (t->seated + 1) / 2; t->seated > keep;)
            seat_free(&t->seats[--t->seated]);
    }
    sort_seats(t);
    while (t->seated > 1)
        seat_free(&t->seats[--t->seated]);
}

/* Single keys that gained are joined to the best, one after the other, as long as that makes it faster. */
static void join(struct tune *t)
{
    for (size_t g = 0; g < t->gains && t->seated == 1 && !time_is_up(t, JOIN_SHARE); g++) {
        struct plan_request both = t->seats[0].request;
        plan_request_add(&both, &t->gained[g]);
        if (!candidates_add(&t->candidates, t->layer, t->row, (int64_t)t->draw.batch, &both))
            continue; /* measured already */
        if (!seat_fill(t, &t->seats[1], &t->candidates.item[t->candidates.count - 1].request))
            return;
        t->seated = 2;
        t->measured++;
        t->seats[0].ratios = 0;
        time_first_rounds(t, 0);
        const bool better = ratio_of(&t->seats[1]) >= JOIN_LEAST * ratio_of(&t->seats[0]);
        fprintf(log_of(t), "  %6.3f  ", ratio_of(&t->seats[1]));
        print_request(&t->seats[1].request, log_of(t));
        fprintf(log_of(t), "%s\n", better ? ", joined" : "");
        fflush(log_of(t));
        seat_free(&t->seats[better ? 0 : 1]);
        if (better) {
            t->seats[0] = t->seats[1];
            t->seats[1] = (struct seat){0};
        }
        t->seated = 1;
    }
}

/* ---- the fresh run --------------------------------------------------------------------------------------------- */

/* One sitting: both with new memory, in turns, who is first by turns. */
static bool sit(struct tune *t, const struct kernel *const kernel[2], size_t pairs, double us[2], double *ratio)
{
    struct timed timed[2] = {{0}};
    double all[2][PAIRS_MOST], ratios[PAIRS_MOST];
    bool good = sit_down(t, &timed[0], kernel[0]) && sit_down(t, &timed[1], kernel[1]);
    if (good)
        settle_clock(isa_of(t)->name);
    for (size_t p = 0; good && p < pairs; p++) {
        const int first = (int)(p % 2);
        all[first][p] = sample(&timed[first]);
        all[!first][p] = sample(&timed[!first]);
        ratios[p] = all[0][p] / all[1][p];
    }
    if (good) {
        us[0] = median_of(all[0], pairs);
        us[1] = median_of(all[1], pairs);
        *ratio = median_of(ratios, pairs);
    }
    timed_free(&timed[0]);
    timed_free(&timed[1]);
    return good;
}

static bool judge(struct tune *t, const struct kernel *standard, const struct kernel *tuned, double default_us,
                  struct gain *v)
{
    const struct kernel *const kernels[2] = {standard, tuned};
    double us[2][SITTINGS], ratio[SITTINGS];
    /* the rest of the budget, and as many pairs as that allows; a sample is two calls, or what repeats make of it */
    const double left = 1e6 * t->options->budget - (now_us() - t->start);
    const double pair = 4 * fmax(default_us, 100);
    const double wanted = left / SITTINGS / pair;
    const size_t pairs = wanted < PAIRS_LEAST ? PAIRS_LEAST : wanted > PAIRS_MOST ? PAIRS_MOST : (size_t)wanted;
    for (size_t s = 0; s < SITTINGS; s++) {
        double both[2];
        if (!sit(t, kernels, pairs, both, &ratio[s]))
            return false;
        us[0][s] = both[0];
        us[1][s] = both[1];
    }
    v->default_us = median_of(us[0], SITTINGS);
    v->tuned_us = median_of(us[1], SITTINGS);
    sort_ascending(ratio, SITTINGS);
    v->ratio = quantile(ratio, SITTINGS, 0.5);
    v->low = ratio[SITTING_LOW];
    v->high = ratio[SITTING_HIGH];
    return true;
}

/* ---- one instruction set --------------------------------------------------------------------------------------- */

#define WORTH 1.005 /* the least gain that is worth a plan to keep; less is within what another build changes */

static bool is_worth(const struct gain *v)
{
    return v->low > 1 && v->ratio >= WORTH;
}

static void print_json(const struct tune *t, const struct gain *v, const struct plan_request *request)
{
    printf("{\"name\":\"%s\",\"isa\":\"%s\",\"default_us\":%.5g,\"tuned_us\":%.5g,\"ratio\":%.4f,\"ratio_low\":%.4f,"
           "\"ratio_high\":%.4f,\"gained\":%s,\"modelled\":%zu,\"measured\":%zu,\"plan\":\"", t->layer->name,
           isa_of(t)->name, v->default_us, v->tuned_us, v->ratio, v->low, v->high, is_worth(v) ? "true" : "false",
           t->candidates.modelled, t->measured);
    print_request(request, stdout);
    printf("\"}\n");
}

/* What was gained, in words. */
static void print_verdict(const struct tune *t, const struct gain *v, const struct plan_request *request)
{
    const char *layer = t->layer->name, *isa = isa_of(t)->name;
    if (t->options->json) {
        print_json(t, v, request);
        return;
    }
    if (plan_request_keys(request) == 0) {
        printf("%s %s: none of %zu plans was faster than the default, which is kept", layer, isa, t->measured);
    } else {
        printf("%s %s: %zu plans measured; in a fresh run: default %.5g us, tuned %.5g us, ratio %.3f (%.3f to %.3f)\n", layer, isa,
               t->measured, v->default_us, v->tuned_us, v->ratio, v->low, v->high);
        if (is_worth(v))
            printf("%s %s: gained %.1f %% by ", layer, isa, 100 * (v->ratio - 1));
        else
            printf("%s %s: no gain %s, the default is kept; the best was ", layer, isa,
                   v->low > 1 ? "of half a per cent" : "beyond the noise");
        print_request(request, stdout);
    }
    putchar('\n');
    fflush(stdout);
}

/* The winner anew, and what it means for the file: both kernels as attngen makes them with and without it. */
static void decide(struct tune *t, struct plan_file *file)
{
    const struct plan_request winner = t->seats[0].request, none = plan_request_none();
    const double default_us = sample(&t->standard.timed);
    struct plan_file alone = t->blank;
    struct kernel standard = {0}, tuned = {0};
    struct gain v = {default_us, default_us, 1, 1, 1};
    if (ratio_of(&t->seats[0]) <= 1) {
        print_verdict(t, &v, &none);
        return;
    }
    seat_free(&t->standard);
    seat_free(&t->seats[0]);
    t->seated = 0;
    set_request(&alone, t->row, &winner);
    if (make_kernel(t, &standard, NULL, &none) && make_kernel(t, &tuned, &alone, &winner) &&
        judge(t, &standard, &tuned, default_us, &v)) {
        if (is_worth(&v))
            set_request(file, t->row, &winner);
        print_verdict(t, &v, &winner);
    }
    kernel_unload(&tuned);
    kernel_unload(&standard);
}

static void tune_isa(struct tune *t, size_t row, bool fold, struct plan_file *file)
{
    const struct plan_request none = plan_request_none();
    t->row = row;
    t->start = now_us();
    t->gains = t->seated = t->measured = 0;
    t->arrival_us = 0;
    set_request(file, row, &none);
    if (!candidates_make(&t->candidates, t->layer, row, (int64_t)t->draw.batch, fold, t->diag) ||
        !seat_fill(t, &t->standard, &none)) {
        candidates_free(&t->candidates);
        return;
    }
    fprintf(log_of(t), "%s %s: %zu plans by the model, %zu near the default's time or faster; ratios of the default's "
            "time to theirs:\n", t->layer->name, isa_of(t)->name, t->candidates.modelled, t->candidates.count - 1);
    search(t);
    if (t->wrong == 0 && t->diag->errors == 0) {
        halve(t);
        join(t);
    }
    if (t->wrong == 0 && t->diag->errors == 0 && t->seated > 0)
        decide(t, file);
    else if (t->wrong == 0 && t->diag->errors == 0)
        fprintf(log_of(t), "%s %s: the spec leaves no other plan to measure, the default is kept\n",
                t->layer->name, isa_of(t)->name);
    seat_free(&t->standard);
    while (t->seated > 0)
        seat_free(&t->seats[--t->seated]);
    candidates_free(&t->candidates);
}

/* ---- the command ----------------------------------------------------------------------------------------------- */

/* Which rows of isa_table this machine has, by packing; bits. */
static unsigned rows_here(struct tune *t)
{
    const struct inputs_draw draw = {.seed = t->draw.seed, .batch = 1, .n = 1, .m = 1};
    struct kernel kernel = {0};
    struct inputs inputs = {0};
    struct plan_file file = t->blank;
    unsigned rows = 0;
    for (size_t i = 0; i < isa_count; i++)
        hurry(&file, i);
    if (!inputs_draw(&inputs, t->layer, &draw, t->diag) || !compile_plan(t, &kernel, &file, t->options->isa)) {
        inputs_free(&inputs);
        return 0;
    }
    void *packed = large_pages(kernel.call->packed_bytes);
    const struct kernel_weights weights = kernel_weights_of(&inputs);
    for (size_t i = 0; packed != NULL && i < isa_count; i++)
        if (options_want_isa(t->options, isa_table[i].name) &&
            kernel.call->pack(packed, &weights, isa_table[i].id) != KERNEL_ISA)
            rows |= 1u << i;
    free(packed);
    kernel_unload(&kernel);
    inputs_free(&inputs);
    if (rows == 0)
        diag_environment(t->diag, t->spec, "this machine has none of the instruction sets asked for");
    return rows;
}

static void tune_all(struct tune *t)
{
    struct plan_file file;
    char cpu[PLAN_TEXT], compiler[PLAN_TEXT];
    if (!compiler_text(compiler, t->diag))
        return;
    plan_this_cpu(cpu);
    t->blank = plan_file_empty();
    for (size_t i = 0; i < isa_count; i++) {
        strcpy(t->blank.isa[i].cpu, cpu[0] != '\0' ? cpu : "unknown");
        strcpy(t->blank.isa[i].compiler, compiler);
    }
    file = t->blank;
    unsigned rows = rows_here(t);
    for (size_t i = isa_count; i-- > 0;) {
        if ((rows >> i & 1u) == 0)
            continue;
        if (!t->options->each_isa)
            rows = 1u << i; /* the best alone */
        tune_isa(t, i, (rows & (rows - 1)) == 0, &file);
        if (t->diag->errors > 0 || t->wrong > 0)
            break;
    }
    if (t->wrong > 0)
        fprintf(stderr, "%s: error: a plan makes a kernel that is wrong, see above; no plan file is written\n",
                t->spec);
    else if (t->diag->errors == 0 && write_file(t, &file, t->options->out))
        fprintf(log_of(t), "written: %s\n", t->options->out);
}

static size_t given_or(size_t given, int64_t otherwise)
{
    return given != UNSET ? given : (size_t)otherwise;
}

static bool choose_draw(struct tune *t)
{
    const struct options *o = t->options;
    const struct layer *l = t->layer;
    t->draw = (struct inputs_draw){.seed = o->seed, .init = o->init, .full_lengths = true,
                                   .batch = given_or(o->batch, 1), .n = given_or(o->n, l->seq_len)};
    t->draw.m = l->cross ? given_or(o->m, l->source_len) : t->draw.n;
    if (t->draw.n >= 1 && t->draw.m >= 1 && t->draw.batch >= 1 && t->draw.n <= (size_t)l->seq_len &&
        t->draw.m <= (size_t)l->source_len)
        return true;
    diag_error(t->diag, t->spec, "batch %zu, n %zu, m %zu: what is timed needs 1 or more of each, and at most n %lld, "
               "m %lld", t->draw.batch, t->draw.n, t->draw.m, (long long)l->seq_len, (long long)l->source_len);
    return false;
}

int command_tune(const struct options *options)
{
    struct diag diag = {0};
    struct tune *t = calloc(1, sizeof *t);
    int code;
    if (t == NULL) {
        diag_environment(&diag, NULL, "out of memory");
        return diag_report(&diag, stderr);
    }
    t->options = options;
    t->spec = options->specs[0];
    t->diag = &diag;
    pin_to_this_core();
    t->layer = layer_read(t->spec, options->compile.set, options->compile.set_count, &diag);
    if (t->layer != NULL && choose_draw(t) && file_possible(options->out, &diag))
        tune_all(t);
    code = diag_report(&diag, stderr);
    if (code == EXIT_GOOD && t->wrong > 0)
        code = EXIT_CHECK_FAILED;
    subject_free(&t->subject);
    layer_free(t->layer);
    diag_free(&diag);
    free(t);
    return code;
}
