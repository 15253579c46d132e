/* SPDX-License-Identifier: MIT */
/* attnrun tune: which plan is the fastest here, for one layer.
 *
 *     candidates (candidates.c) → each: compiled, checked against the reference, timed against the default
 *     → the best of them, in rounds → what single keys gained, joined → the winner anew against the default → a file
 *
 * A ratio is the default's time over a candidate's in the same round, so that a change of the clock rate affects
 * both. Disturbed samples are taken again or do not count (quiet.h). The best of many is partly the luckiest, so only
 * the last, fresh run is reported and decides. Its time is reserved from the start (budget.h), and a compilation that
 * would use it is stopped. Left out on purpose: more than one core, and which candidates there are.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/replace.h"
#include "candidates.h"
#include "commands.h"
#include "kernels/cache.h"
#include "kernels/call.h"
#include "plan/expect.h"
#include "plan/isa.h"
#include "plan/planfile.h"
#include "promises/verify.h"
#include "base/memory.h"
#include "system/process.h"
#include "timing/budget.h"
#include "system/clock.h"
#include "timing/timing.h"

#define CHECKED_BATCH 2     /* sequences, at most */
#define SLOTS 5             /* candidates in memory; a faster one replaces the slowest */
#define FIRST_ROUNDS 3      /* of each new candidate; more while they take less than FIRST_US */
#define FIRST_US 3e4
#define FIRST_TRIES 24      /* maximum of rounds to get FIRST_ROUNDS undisturbed ones */
#define RETAKES 3           /* repeats of the disturbed samples of a round */
#define MAX_RATIOS 1024
/* Shares of the budget, without the time that is reserved for the fresh run: */
#define SEARCH_SHARE 0.7    /* no candidate begins later */
#define ROUNDS_SHARE 0.8    /* rounds of the best end here */
#define JOIN_SHARE 0.95     /* no key is joined later */
#define SMALL_CODE 0.6      /* share of the time without ask_small_code(), a guess before the first candidate */
#define COMPILE_MARGIN 1.5  /* factor from the default's compilation time to the winner's */
#define MIN_JOIN_RATIO 1.003 /* what another key must add */
/* The fresh run: medians of SESSIONS sessions, each with memory of its own. The true median is between the 2nd smallest
 * and the 2nd largest of 9 with probability 1 - 2 (1 + 9) / 2^9 = 96 %. */
#define SESSIONS ((size_t)9)
#define SESSION_LOW 1
#define MAX_SESSIONS (2 * SESSIONS) /* disturbed ones do not count */
#define MIN_PAIRS 3
#define MAX_PAIRS 400

/* A place in memory for a candidate's kernel. */
struct slot {
    struct plan_request request;
    struct kernel kernel;
    struct timed timed;
    double us[2][MAX_RATIOS]; /* times of the default and of this one, round by round */
    size_t rounds;
    double ratio;             /* over undisturbed rounds */
};

/* The fresh run. */
struct gain {
    double default_us, tuned_us, ratio, low, high;
    bool disturbed; /* although sessions were repeated */
};

struct tune {
    const struct options *options;
    const char *spec;
    struct layer *layer;
    struct inputs_draw draw; /* what is timed */
    struct subject subject; /* for checking candidates, for kernels that fold in this way: */
    struct folds folds;
    size_t wrong;           /* kernels that are */
    size_t row;             /* in isa_table */
    struct budget budget;   /* of this instruction set */
    double min_us;        /* of the default, so far */
    double sessions_us;     /* that the fresh run takes at least */
    double after_us;        /* the longest time from a candidate's compilation to its first figure */
    bool over;              /* a compilation was stopped, as its time had run out */
    struct plan_file blank; /* without any key; names CPU and compiler */
    struct candidates candidates;
    struct slot standard, slots[SLOTS];
    size_t filled;
    size_t measured, dropped; /* dropped: measured ones whose figures were disturbed */
    struct plan_request gained[SLOTS * 20]; /* single keys that were faster than the default, and by how much */
    double gained_ratio[SLOTS * 20];
    size_t gains;
    struct diag *diag;
};

#define GAINS (sizeof ((struct tune *)0)->gained_ratio / sizeof(double))

static const struct isa *isa_of(const struct tune *t) { return &isa_table[t->row]; }

/* Without a limit there is no remaining time to fill. */
static bool time_is_up(const struct tune *t, double share)
{
    const double until = budget_until(&t->budget, share);
    return isinf(until) || now_us() > until;
}

/* Where progress and tables go; JSON has the standard output to itself. */
static FILE *log_of(const struct tune *t) { return t->options->json ? stderr : stdout; }

static void print_request(const struct plan_request *request, FILE *out)
{
    if (plan_request_keys(request) > 0)
        plan_request_print(request, out);
    else
        fputs("the default", out);
}

/* ---- the file -------------------------------------------------------------------------------------------------- */

static bool write_file(const struct tune *t, const struct plan_file *file, const char *path)
{
    struct text text;
    FILE *out = text_begin(&text);
    fprintf(out, "# Written by attnrun tune for the layer %s: batch %zu, n %zu, m %zu on one core.\n"
                 "# attngen --plan reads it; what a section does not name is decided as without it.\n",
            t->layer->name, t->draw.batch, t->draw.n, t->draw.m);
    plan_file_print(file, t->layer, out);
    return text_write(&text, path, t->diag);
}

static void set_request(struct plan_file *file, size_t row, const struct plan_request *request)
{
    file->isa[row].request = *request;
    plan_request_part(&file->isa[row].request, &file->common);
    file->isa[row].line = 1;
}

/* ---- making a candidate's kernel ----------------------------------------------------------------------------- */

static void slot_free(struct slot *slot)
{
    timed_free(&slot->timed);
    kernel_unload(&slot->kernel);
    *slot = (struct slot){0};
}

/* --set arguments for the request, after those of the command line */
static void request_words(struct words *words, const struct options *options, const struct plan_request *request)
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
}

/* Computes reference and bounds, for every kernel that folds and packs in the same way. */
static void compute(struct tune *t, const struct kernel *kernel)
{
    const struct folds folds = kernel_folds(kernel);
    const struct inputs_draw draw = {.seed = t->draw.seed, .init = t->draw.init, .n = t->draw.n, .m = t->draw.m,
                                     .batch = t->draw.batch < CHECKED_BATCH ? t->draw.batch : CHECKED_BATCH,
                                     .pairs = inputs_pairs(t->layer, isa_of(t)->id)};
    const bool made = t->subject.layer != NULL && folds.scores == t->folds.scores && folds.values == t->folds.values &&
                      memcmp(&folds.expands, &t->folds.expands, sizeof folds.expands) == 0 &&
                      t->subject.main.inputs.pairs == draw.pairs;
    if (!made) {
        subject_free(&t->subject);
        t->folds = folds;
        subject_make(&t->subject, t->layer, kernel, &draw);
    }
    t->subject.kernel = kernel;
}

/* Reports what is wrong, and the command that shows it: --set arguments make the same kernel as the plan file. */
static void report_wrong(struct tune *t, const struct findings *f, const struct plan_request *request)
{
    char text[COMPARE_TEXT];
    struct options only = *t->options;
    OWNED(words_free) struct words words = {0};
    fprintf(stderr, "FAILED  %s %s: ", t->layer->name, isa_of(t)->name);
    print_request(request, stderr);
    for (int i = 0; i < OUTPUTS_COMPARED; i++)
        if (f->of[i].misses > 0)
            fprintf(stderr, "\n  %s", compare_miss_text(&f->of[i], "the reference", text));
    fprintf(stderr, "%s%s\n", f->why[0] != '\0' ? "\n  " : "", f->why);
    request_words(&words, t->options, request);
    only.isa = isa_of(t)->name;
    only.n = t->draw.n;
    only.m = layer_is_square(t->layer) ? UNSET : t->draw.m;
    only.set = (struct option_texts){(const char **)words.word, words.count};
    options_repeat(&only, COMMAND_CHECK, t->spec, stderr);
}

/* Checks accuracy and promises in a process of its own, which a wrong kernel may crash; correct ones are then timed in
 * this process. False if the kernel is wrong, which is reported and counted, or with the reason in `diag`. */
static bool check_kernel(struct tune *t, const struct kernel *kernel, const struct plan_request *request)
{
    compute(t, kernel);
    const struct findings f = apart_verify(&t->subject, isa_of(t)->id, t->diag);
    t->subject.kernel = NULL;
    if (f.verdict == VERDICT_FAILED) {
        t->wrong++;
        report_wrong(t, &f, request);
    } else if (f.verdict == VERDICT_LACKING) {
        diag_environment(t->diag, t->spec, "this machine lacks %s", isa_of(t)->name);
    }
    return f.verdict == VERDICT_GOOD;
}

/* A compilation in a process of its own, which leaves the kernel in the cache. */
struct errand {
    const struct tune *t;
    const struct compile_options *options;
    double until;
};

static void stop_in_time(int signal)
{
    (void)signal;
    kill(getpid(), SIGTERM); /* the handler waits until the compiler is stopped and its files are removed */
}

static void run_errand(void *context, FILE *answer)
{
    const struct errand *e = context;
    const double left = fmax(e->until - now_us(), 1);
    const struct itimerval timer = {.it_value = {(time_t)(left / 1e6), (suseconds_t)fmod(left, 1e6)}};
    struct kernel kernel = {0};
    struct diag ignored = {0}; /* the caller compiles too, from the cache, and reports errors */
    if (freopen("/dev/null", "w", stderr) == NULL)
        return;
    signal(SIGTERM, SIG_DFL);
    signal(SIGALRM, stop_in_time);
    setitimer(ITIMER_REAL, &timer, NULL);
    if (compile_kernel(&kernel, e->t->spec, e->t->layer->name, e->options, &ignored))
        fputc('.', answer);
}

/* compile_kernel() that ends by that time, if there is a cache. False if interrupted, or if it had to be stopped, which
 * is noted. */
static bool compile_in_time(struct tune *t, struct kernel *kernel, const struct compile_options *options, double until)
{
    struct errand errand = {t, options, until};
    OWNED(process_forget) struct process_result result = {0};
    if (!isinf(until) && cache_keeps(t->options->compile.cache)) {
        if (!process_call(&result, run_errand, &errand, NULL, t->diag))
            return false;
        t->over = result.signal == SIGTERM && now_us() >= until;
    }
    return !t->over && compile_kernel(kernel, t->spec, t->layer->name, options, t->diag);
}

/* Compiles the output of attngen --plan for a file, or without a plan if `file` is NULL. False with the reason in
 * `diag`, or if it was not finished by that time. */
static bool compile_plan(struct tune *t, struct kernel *kernel, const struct plan_file *file, const char *isa,
                         double until)
{
    struct compile_options options = t->options->compile;
    bool good = true;
    OWNED(signals_release) sigset_t before;
    signals_hold(&before); /* so that the folder does not stay */
    OWNED(folder_end) char *folder = NULL;
    HEAP char *path = NULL;
    options.isa = isa;
    if (file != NULL) {
        folder = folder_make(t->diag);
        path = folder != NULL ? path_join(folder, "tuned.plan") : NULL;
        good = path != NULL && write_file(t, file, path);
        options.plan = path;
    }
    return good && compile_in_time(t, kernel, &options, until);
}

/* False if the kernel is wrong or takes too long, or with the reason in `diag`. */
static bool make_kernel(struct tune *t, struct kernel *kernel, const struct plan_file *file,
                        const struct plan_request *request, double until)
{
    return compile_plan(t, kernel, file, isa_of(t)->name, until) && check_kernel(t, kernel, request);
}

/* Packs, warms up and calibrates. */
static bool make_ready(struct tune *t, struct timed *timed, const struct kernel *kernel)
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

/* Requests small code, which compiles in a third of the time, for the scalar set, which is in every pair but not
 * measured. */
static void ask_small_code(struct plan_file *file, size_t row)
{
    file->isa[row].line = 1;
    file->isa[row].request.value[PLAN_SIZE] = PLAN_SMALL;
}

static bool slot_fill(struct tune *t, struct slot *slot, const struct plan_request *request, double until)
{
    struct plan_file file = t->blank;
    *slot = (struct slot){.request = *request};
    set_request(&file, t->row, request);
    if (t->row > 0)
        ask_small_code(&file, 0);
    if (make_kernel(t, &slot->kernel, &file, request, until) && make_ready(t, &slot->timed, &slot->kernel))
        return true;
    slot_free(slot);
    return false;
}

static void say_too_short(struct tune *t)
{
    if (t->over)
        diag_error(t->diag, "--budget", "%g s are not enough to compile the default; give more, or 0 for one other "
                   "plan however long it takes", t->options->budget);
}

/* Compiles the default without a plan, as the fresh run does; its time determines how much to reserve. */
static bool fill_standard(struct tune *t)
{
    struct slot *slot = &t->standard;
    const double start = now_us();
    *slot = (struct slot){.request = plan_request_none()};
    if (!compile_plan(t, &slot->kernel, NULL, isa_of(t)->name, t->budget.end)) {
        say_too_short(t);
        return false;
    }
    const double made = now_us(), making = fmax(made - start, slot->kernel.compile_us); /* maybe from the cache */
    if (!check_kernel(t, &slot->kernel, &slot->request))
        return false;
    const double checked = now_us();
    if (!make_ready(t, &slot->timed, &slot->kernel))
        return false;
    const double session = now_us() - checked;
    const struct sample sample = timed_sample_warm(&slot->timed);
    const double pair = 2 * (sample.wall_us + sample.us);
    t->min_us = sample.us;
    t->after_us = checked - made + session + FIRST_ROUNDS * pair;
    t->sessions_us = SESSIONS * (2 * session + MIN_PAIRS * pair + SETTLE_US);
    t->budget.reserve = COMPILE_MARGIN * making + checked - made + t->sessions_us;
    t->budget.longest = (t->row > 0 ? SMALL_CODE : 1) * making + t->after_us;
    return true;
}

/* ---- timing ---------------------------------------------------------------------------------------------------- */

static struct sample take_warm(void *context) { return timed_sample_warm(context); }

static double median_of(double *values, size_t count)
{
    sort_ascending(values, count);
    return count > 0 ? quantile(values, count, 0.5) : 0;
}

/* Sets a slot's ratio from the rounds that count; returns their number. */
static size_t update_ratio(const struct tune *t, struct slot *slot)
{
    const struct quiet_ratio ratio = ratio_quietly(slot->us[0], slot->us[1], slot->rounds, t->min_us);
    slot->ratio = ratio.median;
    return ratio.kept;
}

/* One round: the default, then the slots from `first` on; disturbed samples do not count. */
static void time_round(struct tune *t, size_t first)
{
    size_t again = RETAKES;
    const struct sample standard = sample_quietly(take_warm, &t->standard.timed, &again);
    if (sample_is_disturbed(&standard))
        return;
    t->min_us = fmin(t->min_us, standard.us);
    for (size_t i = first; i < t->filled; i++) {
        struct slot *slot = &t->slots[i];
        const struct sample own = sample_quietly(take_warm, &slot->timed, &again);
        if (sample_is_disturbed(&own) || slot->rounds == MAX_RATIOS)
            continue;
        slot->us[0][slot->rounds] = standard.us;
        slot->us[1][slot->rounds++] = own.us;
    }
}

/* Whether each slot from `first` on has enough rounds that count. */
static bool have_ratios(struct tune *t, size_t first)
{
    for (size_t i = first; i < t->filled; i++)
        if (update_ratio(t, &t->slots[i]) < FIRST_ROUNDS)
            return false;
    return true;
}

/* Rounds of the slots from `first` on until each has a ratio. False when the machine is too disturbed. */
static bool time_first_rounds(struct tune *t, size_t first)
{
    const double start = now_us();
    for (size_t r = 0; r < FIRST_ROUNDS || (r < MAX_RATIOS / 8 && now_us() - start < FIRST_US); r++)
        time_round(t, first);
    for (size_t r = FIRST_ROUNDS; r < FIRST_TRIES && !have_ratios(t, first); r++)
        time_round(t, first);
    return have_ratios(t, first);
}

/* ---- searching ------------------------------------------------------------------------------------------------- */

static int fastest_first(const void *a, const void *b)
{
    const double l = ((const struct slot *)a)->ratio, r = ((const struct slot *)b)->ratio;
    return (l < r) - (l > r);
}

/* A slot without a ratio goes last. */
static void sort_slots(struct tune *t)
{
    for (size_t i = 0; i < t->filled; i++)
        if (update_ratio(t, &t->slots[i]) == 0)
            t->slots[i].ratio = 0;
    qsort(t->slots, t->filled, sizeof *t->slots, fastest_first);
}

static void note_gain(struct tune *t, const struct slot *slot)
{
    if (plan_request_keys(&slot->request) != 1 || slot->ratio < MIN_JOIN_RATIO || t->gains == GAINS)
        return;
    size_t at = t->gains++; /* the largest first */
    for (; at > 0 && t->gained_ratio[at - 1] < slot->ratio; at--) {
        t->gained[at] = t->gained[at - 1];
        t->gained_ratio[at] = t->gained_ratio[at - 1];
    }
    t->gained[at] = slot->request;
    t->gained_ratio[at] = slot->ratio;
}

/* A candidate's line in the log: its ratio, or why there is none; then its plan and `behind`. */
static void log_candidate(const struct tune *t, const struct slot *slot, bool seen, const char *behind)
{
    if (seen)
        fprintf(log_of(t), "  %6.3f  ", slot->ratio);
    else
        fputs("       -  ", log_of(t));
    print_request(&slot->request, log_of(t));
    fprintf(log_of(t), "%s\n", seen ? behind : ", dropped: the machine was disturbed");
    fflush(log_of(t));
}

/* Times the new slot for the first time; false when the machine was too disturbed. */
static bool first_ratio(struct tune *t, size_t first, double start)
{
    t->filled++;
    t->measured++;
    const bool seen = time_first_rounds(t, first);
    t->dropped += !seen;
    t->after_us = fmax(t->after_us, now_us() - start);
    return seen;
}

/* The time by which a compilation must end so that its candidate is timed by `until` */
static double compile_until(const struct tune *t, double until) { return until - t->after_us; }

/* Compiles, checks and times a candidate in the free slot; when all are filled, the slowest is dropped. After a wrong
 * one the others are still checked, but no plan file is written. */
static bool try_candidate(void *context, size_t number, double until)
{
    struct tune *t = context;
    struct slot *slot = &t->slots[t->filled];
    if (!slot_fill(t, slot, &t->candidates.item[number].request, compile_until(t, until)))
        return t->diag->errors == 0 && !t->over;
    const bool seen = first_ratio(t, t->filled, now_us());
    log_candidate(t, slot, seen, "");
    if (!seen) {
        slot_free(&t->slots[--t->filled]);
        return true;
    }
    note_gain(t, slot);
    sort_slots(t);
    if (t->filled == SLOTS)
        slot_free(&t->slots[--t->filled]);
    return true;
}

/* All candidates after the default, or those that the time allows; the first if the budget allows it at all. */
static void search(struct tune *t)
{
    budget_spend(&t->budget, SEARCH_SHARE, 1, t->candidates.count, 1, try_candidate, t);
}

/* Rounds of the best; each time the number of rounds has doubled, the slower half is dropped. */
static void halve(struct tune *t)
{
    size_t rounds = 0, next = t->filled > 0 ? t->slots[0].rounds : 0;
    while (t->filled > 1 && rounds < MAX_RATIOS / 2 && !time_is_up(t, ROUNDS_SHARE)) {
        time_round(t, 0);
        if (++rounds < next)
            continue;
        next *= 2;
        sort_slots(t);
        for (size_t keep = (t->filled + 1) / 2; t->filled > keep;)
            slot_free(&t->slots[--t->filled]);
    }
    sort_slots(t);
    while (t->filled > 1)
        slot_free(&t->slots[--t->filled]);
}

/* Adds a single key that gained to the best plan, and keeps it if that is faster. */
static bool join_key(void *context, size_t number, double until)
{
    struct tune *t = context;
    struct plan_request both = t->slots[0].request;
    plan_request_add(&both, &t->gained[number]);
    if (!candidates_add(&t->candidates, &both))
        return true; /* measured already */
    if (!slot_fill(t, &t->slots[1], &t->candidates.item[t->candidates.count - 1].request, compile_until(t, until)))
        return false;
    t->slots[0].rounds = 0;
    const bool seen = first_ratio(t, 0, now_us());
    const bool better = seen && t->slots[1].ratio >= MIN_JOIN_RATIO * t->slots[0].ratio;
    log_candidate(t, &t->slots[1], seen, better ? ", joined" : "");
    slot_free(&t->slots[better ? 0 : 1]);
    if (better) {
        t->slots[0] = t->slots[1];
        t->slots[1] = (struct slot){0};
    }
    t->filled = 1;
    return true;
}

/* One key after the other; without a limit there is no time for it. */
static void join(struct tune *t)
{
    if (t->filled == 1)
        budget_spend(&t->budget, JOIN_SHARE, 0, t->gains, 0, join_key, t);
}

/* ---- the fresh run --------------------------------------------------------------------------------------------- */

/* The result of a session. */
struct session {
    double us[2], ratio;
    bool quiet; /* at least half of its pairs count */
};

/* One session: both kernels in new memory, alternating, each first every other time, until about `until`. Without quiet
 * pairs the ratio is of all. */
static bool run_session(struct tune *t, const struct kernel *const kernel[2], double until, struct session *session)
{
    struct timed timed[2] = {{0}};
    double us[2][MAX_PAIRS];
    size_t pairs = 0, disturbed = 0, again = MAX_PAIRS;
    bool good = make_ready(t, &timed[0], kernel[0]) && make_ready(t, &timed[1], kernel[1]);
    if (good)
        settle_clock(isa_of(t)->name);
    for (; good && pairs < MAX_PAIRS && (pairs < MIN_PAIRS || now_us() < until); pairs++) {
        const int first = (int)(pairs % 2);
        struct sample both[2];
        both[first] = sample_quietly(take_warm, &timed[first], &again);
        both[!first] = sample_quietly(take_warm, &timed[!first], &again);
        disturbed += sample_is_disturbed(&both[0]) || sample_is_disturbed(&both[1]);
        us[0][pairs] = both[0].us;
        us[1][pairs] = both[1].us;
    }
    if (good) {
        const struct quiet_ratio ratio = ratio_quietly(us[0], us[1], pairs, INFINITY);
        *session = (struct session){.us = {median_of(us[0], pairs), median_of(us[1], pairs)},
                                    .quiet = 2 * ratio.kept >= pairs && 2 * disturbed <= pairs};
        session->ratio = ratio.kept > 0 ? ratio.median : session->us[0] / session->us[1];
    }
    timed_free(&timed[0]);
    timed_free(&timed[1]);
    return good;
}

/* Sessions until SESSIONS are quiet, MAX_SESSIONS or the time is over; the quiet ones are put first. */
static bool run_sessions(struct tune *t, const struct kernel *const kernels[2], struct session *sessions, size_t *quiet,
                    size_t *count)
{
    const double end = t->budget.end;
    *quiet = *count = 0;
    for (double longest = 0; *quiet < SESSIONS && *count < MAX_SESSIONS; ++*count) {
        const double now = now_us();
        if (*count >= SESSIONS && now + longest > end)
            break;
        struct session *last = &sessions[*count];
        if (!run_session(t, kernels, isinf(end) ? now : now + (end - now) / (double)(SESSIONS - *quiet), last))
            return false;
        longest = fmax(longest, now_us() - now);
        if (last->quiet) {
            const struct session session = *last;
            *last = sessions[*quiet];
            sessions[(*quiet)++] = session;
        }
    }
    return true;
}

static bool judge(struct tune *t, const struct kernel *standard, const struct kernel *tuned, struct gain *v)
{
    const struct kernel *const kernels[2] = {standard, tuned};
    struct session sessions[MAX_SESSIONS];
    double us[2][MAX_SESSIONS], ratio[MAX_SESSIONS];
    size_t quiet, count;
    if (!run_sessions(t, kernels, sessions, &quiet, &count))
        return false;
    v->disturbed = quiet < SESSIONS;
    count = v->disturbed ? count : SESSIONS;
    for (size_t s = 0; s < count; s++) {
        us[0][s] = sessions[s].us[0];
        us[1][s] = sessions[s].us[1];
        ratio[s] = sessions[s].ratio;
    }
    v->default_us = median_of(us[0], count);
    v->tuned_us = median_of(us[1], count);
    v->ratio = median_of(ratio, count); /* which sorts them */
    v->low = ratio[SESSION_LOW];
    v->high = ratio[count - 1 - SESSION_LOW];
    return true;
}

/* ---- one instruction set --------------------------------------------------------------------------------------- */

#define MIN_GAIN 1.005 /* worth a plan file; a smaller gain is within what another build changes */

static bool is_worth(const struct gain *v) { return !v->disturbed && v->low > 1 && v->ratio >= MIN_GAIN; }

static void print_json(const struct tune *t, const struct gain *v, const struct plan_request *request)
{
    printf("{\"name\":\"%s\",\"isa\":\"%s\",\"default_us\":%.5g,\"tuned_us\":%.5g,\"ratio\":%.4f,\"ratio_low\":%.4f,"
           "\"ratio_high\":%.4f,\"gained\":%s,\"modelled\":%zu,\"measured\":%zu,"
           "\"dropped\":%zu,\"disturbed\":%d,\"plan\":\"", t->layer->name,
           isa_of(t)->name, v->default_us, v->tuned_us, v->ratio, v->low, v->high, is_worth(v) ? "true" : "false",
           t->candidates.considered, t->measured, t->dropped, v->disturbed);
    print_request(request, stdout);
    printf("\"}\n");
}

/* Why nothing was measured, and what would be enough. */
static void print_nothing(const struct tune *t)
{
    const char *layer = t->layer->name, *isa = isa_of(t)->name;
    if (t->candidates.count <= 1)
        printf("%s %s: the spec leaves no other plan to measure, the default is kept\n", layer, isa);
    else
        printf("%s %s: no other plan could be measured in %g s, the default is kept; --budget %.0f is enough for "
               "some\n", layer, isa, t->options->budget,
               ceil(1e-6 * (now_us() - t->budget.start + t->budget.reserve + 4 * t->budget.longest)));
}

static void print_gain(const struct tune *t, const struct gain *v, const struct plan_request *request)
{
    const char *layer = t->layer->name, *isa = isa_of(t)->name;
    printf("%s %s: %zu plans measured; in a fresh run: default %.5g us, tuned %.5g us, ratio %.3f (%.3f to %.3f)\n",
           layer, isa, t->measured, v->default_us, v->tuned_us, v->ratio, v->low, v->high);
    if (is_worth(v))
        printf("%s %s: gained %.1f %% by ", layer, isa, 100 * (v->ratio - 1));
    else if (v->disturbed)
        printf("%s %s: the machine was disturbed, which is no ground for a plan: the default is kept; tune again when "
               "it is quiet; the best was ", layer, isa);
    else
        printf("%s %s: no gain %s, the default is kept; the best was ", layer, isa,
               v->low > 1 ? "of half a per cent" : "beyond the noise");
    print_request(request, stdout);
    putchar('\n');
}

/* What was gained, in words. */
static void print_verdict(const struct tune *t, const struct gain *v, const struct plan_request *request)
{
    if (t->options->json)
        print_json(t, v, request);
    else if (t->measured == 0)
        print_nothing(t);
    else if (t->over && plan_request_keys(request) == 0)
        printf("%s %s: %zu plans measured; the best could not be compiled again in time, the default is kept\n",
               t->layer->name, isa_of(t)->name, t->measured);
    else if (plan_request_keys(request) == 0)
        printf("%s %s: none of %zu plans was faster than the default, which is kept%s\n", t->layer->name,
               isa_of(t)->name, t->measured,
               t->dropped > 0 ? "; the machine was disturbed, tune again when it is quiet" : "");
    else
        print_gain(t, v, request);
    fflush(stdout);
}

/* The fresh run: the winner as attngen --plan makes it, against the default without a plan; and its consequence for the
 * file */
static void decide(struct tune *t, struct plan_file *file)
{
    const bool won = t->filled > 0 && t->slots[0].ratio > 1;
    const struct plan_request none = plan_request_none(), winner = won ? t->slots[0].request : none;
    struct plan_file alone = t->blank;
    struct kernel tuned = {0};
    struct gain v = {t->min_us, t->min_us, 1, 1, 1, false};
    t->over = false;
    timed_free(&t->standard.timed);
    while (t->filled > 0)
        slot_free(&t->slots[--t->filled]);
    set_request(&alone, t->row, &winner);
    const bool made = won && make_kernel(t, &tuned, &alone, &winner,
                                         compile_until(t, t->budget.end - t->sessions_us));
    if (made && judge(t, &t->standard.kernel, &tuned, &v)) {
        if (is_worth(&v))
            set_request(file, t->row, &winner);
        print_verdict(t, &v, &winner);
    } else if (!won || t->over) {
        print_verdict(t, &v, &none);
    }
    kernel_unload(&tuned);
}

static void tune_isa(struct tune *t, size_t row, bool fold, struct plan_file *file)
{
    const struct plan_request none = plan_request_none();
    t->row = row;
    t->gains = t->filled = t->measured = t->dropped = 0;
    set_request(file, row, &none);
    if (candidates_make(&t->candidates, t->layer, row, (int64_t)t->draw.batch, fold, t->diag) && fill_standard(t)) {
        fprintf(log_of(t), "%s %s: %zu plans, %zu %s; ratios of the default's time to theirs, at first sight:\n",
                t->layer->name, isa_of(t)->name, t->candidates.considered, t->candidates.count - 1,
                expect_knows(isa_of(t)) ? "near the default's time or faster by the model" : "to try without a model");
        search(t);
        if (t->wrong == 0 && t->diag->errors == 0) {
            halve(t);
            join(t);
        }
        if (t->wrong == 0 && t->diag->errors == 0)
            decide(t, file);
    }
    slot_free(&t->standard);
    while (t->filled > 0)
        slot_free(&t->slots[--t->filled]);
    candidates_free(&t->candidates);
}

/* ---- the command ----------------------------------------------------------------------------------------------- */

/* Which rows of isa_table this machine has, by packing; bits. */
static unsigned rows_here(struct tune *t)
{
    const struct inputs_draw draw = {.seed = t->draw.seed, .batch = 1, .n = 1, .m = 1};
    struct kernel kernel = {0};
    OWNED(inputs_free) struct inputs inputs = {0};
    struct plan_file file = t->blank;
    unsigned rows = 0;
    for (size_t i = 0; i < isa_count; i++)
        ask_small_code(&file, i);
    if (!compile_plan(t, &kernel, &file, t->options->isa, t->budget.end)) {
        say_too_short(t);
        return 0;
    }
    inputs_draw(&inputs, t->layer, &draw, NULL);
    HEAP void *packed = large_pages(kernel.call->packed_bytes);
    const struct kernel_weights weights = kernel_weights_of(&inputs);
    for (size_t i = 0; i < isa_count; i++)
        if (options_want_isa(t->options, isa_table[i].name) &&
            kernel.call->pack(packed, &weights, isa_table[i].id) != KERNEL_ISA)
            rows |= 1u << i;
    kernel_unload(&kernel);
    if (rows == 0)
        call_report_no_isa(t->spec, t->diag);
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
    t->budget = budget_begin(t->options->budget, now_us);
    unsigned rows = rows_here(t);
    for (size_t i = isa_count; i-- > 0;) {
        if ((rows >> i & 1u) == 0)
            continue;
        if (!t->options->each_isa)
            rows = 1u << i; /* the best alone */
        tune_isa(t, i, (rows & (rows - 1)) == 0, &file);
        if (t->diag->errors > 0 || t->wrong > 0)
            break;
        t->budget = budget_begin(t->options->budget, now_us); /* of the next one */
    }
    if (t->wrong > 0)
        fprintf(stderr, "%s: error: a plan makes a kernel that is wrong, see above; no plan file is written\n",
                t->spec);
    else if (t->diag->errors == 0 && write_file(t, &file, t->options->out))
        fprintf(log_of(t), "written: %s\n", t->options->out);
}

static bool choose_draw(struct tune *t)
{
    t->draw = options_draw(t->options, t->layer, 1);
    t->draw.full_lengths = true;
    return inputs_fit(t->layer, &t->draw, true, t->spec, t->diag);
}

int command_tune(const struct options *options)
{
    struct diag diag = {0};
    HEAP struct tune *t = memory_get(1, sizeof *t);
    t->options = options;
    t->spec = options->specs[0];
    t->diag = &diag;
    pin_to_this_core();
    t->layer = layer_read(t->spec, options->compile.set, options->compile.set_count, &diag);
    if (t->layer != NULL && options_fit(options, t->layer, t->spec, &diag) && choose_draw(t) &&
        file_possible(options->out, &diag))
        tune_all(t);
    const int code = command_end(&diag, t->wrong > 0);
    subject_free(&t->subject);
    layer_free(t->layer);
    return code;
}
