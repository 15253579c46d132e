/* SPDX-License-Identifier: MIT */
/* A sweep, as its parts hand it to each other: points.c and probe.c say what it is, examine.c and measure.c do it,
 * results.c and progress.c tell of it.
 *
 * Left out on purpose: the command (commands/sweep.c), joining shards (commands/merge.c).
 */
#pragma once

#include "kernels/load.h"
#include "options/options.h"
#include "reference/compare.h"
#include "reports/journal.h"
#include "system/process.h"
#include "timing/machine.h"
#include "timing/rounds.h"
#include "vary.h"

#define REASON 2000    /* bytes of why a point is not good */
#define ID 16          /* hexadecimal digits of an identity */
#define MAX_LOST 3     /* points lost in a row: what they lack will not come back by itself */
#define GROUP_POINTS 16 /* compiled together, and timed together */
#define COMPILE_S 2    /* of a point, until it is known */

struct point {
    size_t number;     /* from 1 on */
    char *reason;      /* not NULL: illegal */
    char *settings;    /* the keys that the layer is made of */
    const char *isa;
    const char *lacks; /* not NULL: why its pair has no such set, or that the machine has none */
    size_t n, m, batch; /* with a cache m is past + n */
    int64_t past;
    struct layer_parameters parameters;
    double multiply_adds;
    char id[ID + 1];   /* of the layer, the call, the version and the machine */
    bool done;
    bool costs;        /* what its types cost is found out: it has some, or they are varied */
    double weight;     /* approximate seconds of its check on a typical machine, to estimate the time left */
};

struct sweep {
    const struct options *options;
    const char *spec;
    struct axes axes;
    struct machine machine;
    char *version;     /* of attngen */
    char best[20];     /* instruction set if none is varied */
    size_t shard, shards;
    struct point *point; /* those of this shard */
    size_t count;
    size_t legal;        /* points of all shards */
    char id[ID + 1];   /* hash of everything that defines a sweep, except the machine */
    struct journal journal;
    size_t failed, skipped, lost, lost_in_a_row;
    bool interrupted;
    struct {
        bool terminal;
        double shown;                   /* µs */
        struct work {                   /* each kind has a rate of its own */
            const char *what;
            double all, done, us;       /* weights of all points, of finished ones; what these took */
        } compile, check, time, *present;
        double since;                   /* µs: when the present one began */
        const struct point *now;        /* NULL: of a group */
        size_t group, checked;
    } progress;
};

/* Checked: a line that tells what is known before the point is timed, and goes then. */
enum status { STATUS_OK, STATUS_FAILED, STATUS_ILLEGAL, STATUS_SKIPPED, STATUS_CHECKED, STATUS_LOST };

/* Answer of the process that examines a point, as bytes */
struct examined {
    enum status status;
    char reason[REASON];
    bool refused; /* by the compiler */
    size_t packed, scratch, code, bytes;
    double compile_us;
    double error, gate, bound; /* the largest error, and the largest ratios to the gate and the bound */
    struct cost cost; /* of the layer's number types */
    struct folds folds;
};

/* Input of a separate process */
struct job {
    struct sweep *sweep;
    const struct point *const *points;
    size_t count;
};

/* points.c */

bool sweep_read_request(struct sweep *s, struct diag *diag);
/* Reads all points, for the sweep's identity, and keeps those of the shard. */
bool sweep_make_points(struct sweep *s, struct diag *diag);
void sweep_free_points(struct sweep *s);
/* The --set arguments of a point: those of the command line and of the varied keys */
void sweep_point_sets(struct words *sets, const struct sweep *s, size_t number);
struct layer *sweep_point_layer(const struct sweep *s, size_t number, struct diag *diag);

/* probe.c */

bool sweep_ask_machine(struct sweep *s, struct diag *diag);
/* Whether the compiler makes another layer's kernel now, with a cache of its own. */
bool sweep_compiler_works(const struct sweep *s, const struct point *p);

/* results.c */

/* Opens the journal; with --resume, marks what is done. */
bool sweep_begin_journal(struct sweep *s, struct diag *diag);
/* Writes a line that stands for a checked point until its result does. */
bool sweep_note_checked(struct sweep *s, const struct point *p, const struct examined *e, struct diag *diag);
/* Writes one point's result; `examined` and `timing` may be NULL. */
bool sweep_add_result(struct sweep *s, struct point *p, enum status status, const char *reason,
                      const struct examined *examined, const struct timing *timing, struct diag *diag);

/* progress.c */

void sweep_begin_progress(struct sweep *s);
double sweep_time_weight(const struct sweep *s); /* of a point */
/* On a terminal one line that is overwritten; otherwise an occasional line */
void sweep_show_progress(struct sweep *s);
void sweep_clear_progress(const struct sweep *s);
/* Progress shows `what` from now on, with the point `p` or, where that is NULL, with `count` points. */
void sweep_begin_work(struct sweep *s, struct work *work, const struct point *p, size_t count);
/* Work of this weight is done, in the unit of the estimate. */
void sweep_end_work(struct sweep *s, double weight);
/* A point lost through a fault of the machine: no result. False if there were too many. */
bool sweep_lose(struct sweep *s, const struct point *p, const char *reason);

/* examine.c */

/* Compiles points side by side, into the cache. False if interrupted or if no process can be started. */
bool sweep_compile_ahead(struct sweep *s, struct point *const *points, size_t count, struct diag *diag);
bool sweep_compile_point(struct kernel *kernel, const struct sweep *s, const struct point *p, const char *name,
                         struct diag *diag);
struct inputs_draw sweep_draw(const struct sweep *s, const struct point *p, bool full);
/* Calls `work` on the points in a process of its own and takes its answers, of `bytes` in all. False when interrupted
 * or when no process can be started; else *status is OK, or the points are lost or failed, and `reason` says how. */
bool sweep_ask(struct sweep *s, void (*work)(void *context, FILE *answer), const struct point *const *points,
               size_t count, void *answers, size_t bytes, const char *during, enum status *status, char reason[REASON],
               struct diag *diag);
/* If the compiler refuses a layer, that is the layer's fault only if it does so again and compiles another one. False
 * if interrupted or if no process can be started. */
bool sweep_examine(struct examined *e, struct sweep *s, const struct point *p, struct diag *diag);

/* measure.c */

/* Measures all remaining points. False if interrupted, if no result can be written, or if too many points are lost. */
bool sweep_measure(struct sweep *s, struct diag *diag);
