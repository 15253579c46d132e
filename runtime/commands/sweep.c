/* SPDX-License-Identifier: MIT */
/* attnrun sweep: every point of a product of values generated, compiled, checked and timed.
 *
 *   sweep_read_request   the axes, the shard, the options that belong together
 *   sweep_make_points    all points, legal or not, each with an identity
 *   sweep_begin_journal  what is done already, with --resume
 *   sweep_measure        every point examined; good ones timed in groups
 *   report_all           the table and the files
 *
 * A point has a result only if that depends on the layer: it is lost if the machine has no memory, space or process for
 * it, or if the compiler fails for other layers too. That is reported, and --resume tries it again.
 * Left out on purpose: more than one core.
 */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "kernels/call.h"
#include "reports/report.h"
#include "sweep/sweep.h"

static void say_interrupted(const struct sweep *s, bool begun)
{
    if (!begun) {
        fputs("attnrun sweep: interrupted before its first point; the files are as they were\n", stderr);
        return;
    }
    const bool kept = s->journal.path != NULL && strcmp(s->journal.path, "-") != 0;
    fprintf(stderr, "attnrun sweep: interrupted; %zu of %zu points are done%s\n", s->journal.records.count, s->count,
            kept ? "; the same command with --resume goes on" : "");
}

/* Points were lost through the environment's fault, and can still be measured. */
static void report_lost(const struct sweep *s, struct diag *diag)
{
    const bool kept = s->journal.path != NULL && strcmp(s->journal.path, "-") != 0;
    if (s->lost > 0)
        diag_environment(diag, s->spec, "%zu point%s could not be measured, for reasons of the machine, see above%s%s",
                         s->lost, s->lost == 1 ? "" : "s",
                         s->lost_in_a_row >= MAX_LOST ? "; the sweep stopped, as they came one after the other" : "",
                         kept ? "; the same command with --resume tries again" : "");
}

static void sweep_free(struct sweep *s)
{
    sweep_free_points(s);
    machine_free(&s->machine);
    free(s->version);
    journal_close(&s->journal);
}

static void phases(struct sweep *s, struct diag *diag)
{
    const struct options *o = s->options;
    const bool begun = sweep_read_request(s, diag) && report_possible(o, diag) && sweep_ask_machine(s, diag) &&
                       sweep_make_points(s, diag) && sweep_begin_journal(s, diag);
    const bool ended = begun && sweep_measure(s, diag);
    s->interrupted = signals_waiting();
    if (s->interrupted) {
        diag_free(diag); /* its message says less than ours */
        say_interrupted(s, begun);
    }
    if (!begun)
        return;
    report_lost(s, diag);
    if (ended || s->journal.records.count > 0)
        report_all(&s->journal.records, o, REPORT_PAGE, diag);
    if (ended && s->legal == 0)
        diag_error(diag, s->spec, "no point is legal");
    else if (ended && s->skipped == s->legal)
        call_report_no_isa(s->spec, diag);
}

int command_sweep(const struct options *options)
{
    struct diag diag = {0};
    OWNED(signals_release) sigset_t before; /* which ends an interrupted one */
    signals_hold(&before);
    OWNED(sweep_free) struct sweep s = {.options = options, .spec = options->specs[0], .shard = 1, .shards = 1,
                                        .journal = {.file = -1}};
    phases(&s, &diag);
    return command_end(&diag, s.failed > 0);
}
