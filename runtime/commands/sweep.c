/* SPDX-License-Identifier: MIT */
/* attnrun sweep: every point of a product of values generated, compiled, checked and timed.
 *
 *   read_request    the axes, the shard, the options that belong together
 *   make_points     all points, legal or not, each with an identity
 *   begin_journal   what is done already, with --resume
 *   examine         one point, in a process of its own: compiled and compared with the reference; it may crash
 *   time_group      as many points as fit in memory, in a process of their own: timed in rounds
 *   report_all      the table and the files
 *
 * A point's result is written when its group is timed. An interrupted group is examined and timed again; its kernels
 * are in the cache by then. Only what belongs to the layer is a result: a point is lost if the machine has no memory,
 * space or process for it, or if the compiler fails at other layers too. That is reported, and --resume tries it again.
 * Left out on purpose: more than one core.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../gen/isa.h"
#include "../../gen/number.h"
#include "../../gen/replace.h"
#include "kernels/apart.h"
#include "kernels/call.h"
#include "kernels/code.h"
#include "commands.h"
#include "reports/journal.h"
#include "timing/machine.h"
#include "system/process.h"
#include "reports/report.h"
#include "timing/rounds.h"
#include "system/sha256.h"
#include "vary.h"

#define GROUP_POINTS 16                     /* lost at most by an interruption */
#define GROUP_BYTES ((size_t)2 << 30)       /* of the layers of a group, and at most a quarter of the memory */
#define REASON 2000
#define ID 16                               /* hexadecimal digits of an identity */
#define MAX_LOST 3                         /* points lost in a row: what they lack will not come back by itself */
#define CHECK_PART 0.6                      /* of a point's time that it is generated, compiled and checked, about */
#define PLAIN_PROGRESS_S 30                 /* between two lines of progress where there is no terminal */
#define LONG_S 600                          /* whose first line comes at once */

struct point {
    size_t number;     /* from 1 on */
    char *reason;      /* not NULL: illegal */
    char *settings;    /* the keys that the layer is made of */
    const char *isa;
    size_t n, m, batch;
    struct layer_parameters parameters;
    double multiply_adds;
    char id[ID + 1];   /* of the layer, the call, the version and the machine */
    bool done;
    double weight;     /* seconds, about, on a machine like the author's; for the time left */
};

struct sweep {
    const struct options *options;
    const char *spec;
    struct axes axes;
    struct machine machine;
    char *version;     /* of attngen */
    char best[20];     /* instruction set where none is varied */
    size_t shard, shards;
    struct point *point; /* those of this shard */
    size_t count;
    size_t legal;        /* points of all shards */
    char id[ID + 1];   /* of everything that a sweep is, but the machine */
    struct journal journal;
    size_t failed, skipped, lost, lost_in_a_row;
    bool interrupted;
    struct {
        bool terminal;
        double start, shown, all, done; /* µs; µs; weights: of what is to do, of what is done */
        const struct point *now;        /* NULL: a group is timed */
        size_t group, checked;
    } progress;
};

/* ---- the request ----------------------------------------------------------------------------------------------- */

/* Keys of a call, not of the spec. */
static bool is_call_key(const char *key)
{
    static const char *const keys[] = {"isa", "n", "m", "batch"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

/* --set and --n, --m, --batch fix what --vary varies? */
static void check_axis(const struct options *o, const struct axis *axis, struct diag *diag)
{
    const struct {
        const char *key;
        bool given;
    } fixed[] = {{"n", o->n != UNSET}, {"m", o->m != UNSET}, {"batch", o->batch != UNSET}, {"isa", o->each_isa}};
    const size_t length = strlen(axis->key);
    const struct nearest nearest = layer_nearest_key(axis->key);
    char place[100], meant[NEAREST_TEXT];
    snprintf(place, sizeof place, "--vary %s", axis->key);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (fixed[i].given && strcmp(fixed[i].key, axis->key) == 0)
            diag_error(diag, place, "--%s fixes it; give one of the two", axis->key);
    for (size_t i = 0; i < o->compile.set_count; i++)
        if (strncmp(o->compile.set[i], axis->key, length) == 0 && o->compile.set[i][length] == '=')
            diag_error(diag, place, "--set %s fixes it; give one of the two", o->compile.set[i]);
    for (size_t i = 0; strcmp(axis->key, "isa") == 0 && i < axis->count; i++)
        if (isa_find(axis->value[i]) == NULL)
            diag_error(diag, place, "unknown instruction set '%s'; attngen --help lists them", axis->value[i]);
    if (!is_call_key(axis->key) && (!layer_knows_key(axis->key) || strcmp(axis->key, "name") == 0))
        diag_error(diag, place, "no key that can be varied; write a key of the spec, plan.…, isa, n, m or batch%s",
                   nearest_add(&nearest, meant));
}

/* Several instruction sets of --isa are an axis like any other, the last one; "isa=avx2,avx512", malloc'd. */
static char *isa_axis(const struct options *o)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return NULL;
    fprintf(out, "isa=%s", o->isa != NULL ? o->isa : isa_table[0].name);
    for (size_t i = 1; o->isa == NULL && i < isa_count; i++)
        fprintf(out, ",%s", isa_table[i].name);
    return fclose(out) == 0 ? text : NULL;
}

static bool read_request(struct sweep *s, struct diag *diag)
{
    const struct options *o = s->options;
    const char **vary = calloc(o->vary.count + 1, sizeof *vary);
    char *isa = isa_axis(o);
    const bool several = o->each_isa && (o->isa == NULL || strchr(o->isa, ',') != NULL);
    if (vary == NULL || isa == NULL) {
        diag_environment(diag, NULL, "out of memory");
    } else {
        memcpy(vary, o->vary.text, o->vary.count * sizeof *vary);
        vary[o->vary.count] = isa;
        if (axes_parse(&s->axes, vary, o->vary.count + several, diag))
            for (size_t i = 0; i < o->vary.count; i++)
                check_axis(o, &s->axes.axis[i], diag);
    }
    free(vary);
    free(isa);
    if (o->isa != NULL)
        isa_parse_list(o->isa, diag);
    if (o->shard != NULL)
        shard_parse(o->shard, &s->shard, &s->shards, diag);
    if (o->resume && (o->json_lines == NULL || strcmp(o->json_lines, "-") == 0))
        diag_error(diag, "command line", "--resume needs --json FILE, the file that an earlier run wrote");
    return diag->errors == 0;
}

/* ---- the machine ----------------------------------------------------------------------------------------------- */

/* A layer that compiles in no time, in a folder of its own; its path, malloc'd. */
static char *make_probe(char **folder, struct diag *diag)
{
    static const char text[] = "d_model = 33\nh = 11\nseq_len = 3\n";
    *folder = folder_make(diag);
    char *spec = *folder != NULL ? path_join(*folder, "probe.layer") : NULL;
    if (spec != NULL && file_replace(spec, &(struct piece){text, strlen(text)}, 1, diag))
        return spec;
    free(spec);
    return NULL;
}

static void remove_probe(char *folder, char *spec)
{
    if (folder != NULL)
        folder_remove(folder);
    free(folder);
    free(spec);
}

/* Which instruction set an emitted file takes by itself; a tiny one is asked. */
static void ask_best(struct sweep *s, const char *spec, struct diag *diag)
{
    struct compile_options options = s->options->compile;
    struct kernel kernel = {0};
    struct timed timed = {0};
    const struct inputs_draw draw = {.seed = 1, .batch = 1, .n = 1, .m = 1};
    options.set_count = 0;
    struct layer *layer = layer_read(spec, NULL, 0, diag);
    if (layer != NULL && compile_kernel(&kernel, spec, layer->name, &options, diag) &&
        timed_make(&timed, layer, kernel.call, &draw, diag) && timed_pack(&timed, 0, diag))
        snprintf(s->best, sizeof s->best, "%s", timed.isa);
    timed_free(&timed);
    kernel_unload(&kernel);
    layer_free(layer);
}

static void find_best(struct sweep *s, struct diag *diag)
{
    char *folder, *spec = make_probe(&folder, diag);
    if (spec != NULL)
        ask_best(s, spec, diag);
    remove_probe(folder, spec);
}

static bool ask_machine(struct sweep *s, struct diag *diag)
{
    s->version = compile_generator(&s->options->compile, diag);
    if (s->version == NULL || !machine_ask(&s->machine, diag))
        return false;
    if (s->options->isa != NULL)
        snprintf(s->best, sizeof s->best, "%s", s->options->isa);
    else if (axes_find(&s->axes, "isa") == NULL)
        find_best(s, diag);
    return diag->errors == 0;
}

/* ---- points ---------------------------------------------------------------------------------------------------- */

/* The --set texts of a point: the command line's and the varied keys'. */
static void point_sets(struct words *sets, const struct sweep *s, size_t number)
{
    for (size_t i = 0; i < s->options->compile.set_count; i++)
        words_add(sets, s->options->compile.set[i]);
    for (size_t i = 0; i < s->axes.count; i++) {
        char *text = NULL;
        if (is_call_key(s->axes.axis[i].key))
            continue;
        if (asprintf(&text, "%s=%s", s->axes.axis[i].key, axes_value(&s->axes, number - 1, i)) < 0) {
            sets->failed = true;
            return;
        }
        words_add(sets, text);
        free(text);
    }
}

static struct layer *point_layer(const struct sweep *s, size_t number, struct diag *diag)
{
    struct words sets = {0};
    point_sets(&sets, s, number);
    if (sets.failed)
        diag_environment(diag, NULL, "out of memory");
    struct layer *layer =
        sets.failed ? NULL : layer_read(s->spec, (const char *const *)sets.word, sets.count, diag);
    words_free(&sets);
    return layer;
}

/* A varied size of the call, else the option's, else the layer's. */
static size_t call_size(const struct sweep *s, size_t number, const char *key, size_t given, int64_t otherwise,
                        struct diag *diag)
{
    for (size_t i = 0; i < s->axes.count; i++) {
        const char *text = axes_value(&s->axes, number - 1, i);
        uint64_t value = 0;
        if (strcmp(s->axes.axis[i].key, key) != 0)
            continue;
        if (!number_whole(text, strlen(text), 1, INT32_MAX, &value))
            diag_error(diag, key, "%s = %s is not a size; write a whole number, 1 or more", key, text);
        return (size_t)value;
    }
    return given != UNSET ? given : (size_t)otherwise;
}

/* How a point is called. */
static void choose_call(struct point *p, const struct sweep *s, const struct layer *layer, struct diag *diag)
{
    const struct options *o = s->options;
    const bool varies_m = axes_find(&s->axes, "m") != NULL;
    p->batch = call_size(s, p->number, "batch", o->batch, 1, diag);
    p->n = call_size(s, p->number, "n", o->n, layer->seq_len, diag);
    p->m = !layer->self ? call_size(s, p->number, "m", o->m, layer->source_len, diag) : p->n;
    p->isa = s->best;
    for (size_t i = 0; i < s->axes.count; i++)
        if (strcmp(s->axes.axis[i].key, "isa") == 0)
            p->isa = axes_value(&s->axes, p->number - 1, i);
    if (varies_m && layer->self)
        diag_error(diag, "m", "m is for attention = cross; in self-attention it is n");
    if (p->n > (size_t)layer->seq_len)
        diag_error(diag, "n", "n = %zu is past seq_len = %lld; ask for less", p->n, (long long)layer->seq_len);
    if (p->m > (size_t)layer->source_len)
        diag_error(diag, "m", "m = %zu is past source_len = %lld; ask for less", p->m, (long long)layer->source_len);
    if (p->n < 1 || p->m < 1 || p->batch < 1)
        diag_error(diag, "n", "n, m and batch must be at least 1; without them there is nothing to time");
}

/* One line: "d_model = 64; h = 4". */
static char *one_line(const char *text)
{
    char *line = NULL;
    size_t length;
    FILE *out = open_memstream(&line, &length);
    if (out == NULL)
        return NULL;
    for (; *text != '\0'; text++)
        if (*text != '\n')
            putc(*text, out);
        else if (text[1] != '\0')
            fputs("; ", out);
    return fclose(out) == 0 ? line : NULL;
}

static void hash_text(struct sha256 *hash, const char *text)
{
    sha256_add(hash, text, strlen(text) + 1);
}

static void end_id(struct sha256 *hash, char id[ID + 1])
{
    char digits[65];
    sha256_end(hash, digits);
    memcpy(id, digits, ID);
    id[ID] = '\0';
}

/* What a result of this point depends on, but the machine. */
static void hash_point(struct sha256 *hash, const struct sweep *s, const struct point *p)
{
    const struct options *o = s->options;
    char call[300];
    snprintf(call, sizeof call, "%s %zu %zu %zu %zu %s %llu %d %zu %.17g", s->version, p->number, p->n, p->m,
             p->batch, p->isa != NULL ? p->isa : "", (unsigned long long)o->seed, (int)o->init, o->rounds, o->seconds);
    hash_text(hash, call);
    hash_text(hash, p->settings != NULL ? p->settings : "");
    for (size_t i = 0; i < s->axes.count; i++) {
        hash_text(hash, s->axes.axis[i].key);
        hash_text(hash, axes_value(&s->axes, p->number - 1, i));
    }
}

/* Whether it is legal, what it is; false without memory or spec. */
static bool make_point(struct point *p, const struct sweep *s, struct diag *diag)
{
    struct diag own = {0};
    struct sha256 hash;
    struct layer *layer = point_layer(s, p->number, &own);
    if (layer != NULL)
        choose_call(p, s, layer, &own);
    bool good = !own.environment;
    if (!good)
        diag_environment(diag, s->spec, "%s", diag_first(&own));
    if (layer == NULL || own.errors > 0) {
        p->reason = strdup(diag_first(&own));
        good = good && p->reason != NULL;
    } else {
        p->parameters = layer_parameters(layer);
        p->multiply_adds = layer_multiply_adds(layer, (int64_t)p->n, (int64_t)p->m).total * (double)p->batch;
        p->settings = one_line(layer->text);
        p->weight = 3 + s->options->seconds + p->multiply_adds / 1.5e8;
        good = good && p->settings != NULL;
    }
    sha256_start(&hash);
    hash_point(&hash, s, p);
    hash_text(&hash, s->machine.cpu);
    hash_text(&hash, s->machine.compiler);
    hash_text(&hash, s->machine.flags);
    end_id(&hash, p->id);
    layer_free(layer);
    diag_free(&own);
    return good;
}

static void free_point(struct point *p)
{
    free(p->reason);
    free(p->settings);
}

/* All points are read, for the sweep's identity; those of the shard are kept. */
static bool make_points(struct sweep *s, struct diag *diag)
{
    size_t *shard = shard_deal(s->axes.points, s->shards);
    struct sha256 hash;
    s->point = calloc(s->axes.points, sizeof *s->point);
    bool good = shard != NULL && s->point != NULL;
    if (!good)
        diag_environment(diag, NULL, "out of memory");
    sha256_start(&hash);
    for (size_t i = 0; good && i < s->axes.points; i++) {
        struct point point = {.number = i + 1};
        good = make_point(&point, s, diag);
        hash_point(&hash, s, &point);
        s->legal += point.reason == NULL;
        if (good && shard[i] == s->shard)
            s->point[s->count++] = point;
        else
            free_point(&point);
    }
    end_id(&hash, s->id);
    free(shard);
    return good;
}

/* ---- results --------------------------------------------------------------------------------------------------- */

enum status { STATUS_OK, STATUS_FAILED, STATUS_ILLEGAL, STATUS_SKIPPED, STATUS_LOST };
static const char *const status_names[] = {"ok", "failed", "illegal", "skipped"}; /* what is lost is not written */

static void count_status(struct sweep *s, const char *name)
{
    s->failed += strcmp(name, status_names[STATUS_FAILED]) == 0;
    s->skipped += strcmp(name, status_names[STATUS_SKIPPED]) == 0;
}

/* ---- the journal ----------------------------------------------------------------------------------------------- */

static int by_number(const void *key, const void *point)
{
    const double l = *(const double *)key, r = (double)((const struct point *)point)->number;
    return (l > r) - (l < r);
}

/* Points stand in the order of their numbers. */
static struct point *point_of(const struct sweep *s, const struct record *record)
{
    const double number = record_get_number(record, "point");
    struct point *p = bsearch(&number, s->point, s->count, sizeof *p, by_number);
    return p != NULL && strcmp(p->id, record_get_text(record, "id")) == 0 ? p : NULL;
}

/* Marks what a result in the file stands for; false where it is not of this sweep. */
static bool take_result(struct sweep *s, const struct record *record, struct diag *diag)
{
    const char *path = s->journal.path;
    struct point *point = point_of(s, record);
    if (strcmp(record_get_text(record, "sweep"), s->id) != 0)
        diag_error(diag, path, "holds another sweep (spec, values, instruction set, options or version differ); "
                   "name another file");
    else if (point == NULL && (strcmp(record_get_text(record, "cpu"), s->machine.cpu) != 0 ||
                               strcmp(record_get_text(record, "compiler"), s->machine.compiler) != 0 ||
                               strcmp(record_get_text(record, "flags"), s->machine.flags) != 0))
        diag_error(diag, path, "was begun with another processor or compiler (%s; %s; %s); go on there, or name "
                   "another file and join both with attnrun merge", record_get_text(record, "cpu"),
                   record_get_text(record, "compiler"), record_get_text(record, "flags"));
    else if (point == NULL)
        diag_error(diag, path, "holds points of another shard; name another file");
    else if (point->done)
        diag_error(diag, path, "holds point %zu twice; keep one of the two lines", point->number);
    if (diag->errors > 0)
        return false;
    point->done = true;
    count_status(s, record_get_text(record, "status"));
    return true;
}

static bool begin_journal(struct sweep *s, struct diag *diag)
{
    const struct records *old = &s->journal.records;
    if (!journal_open(&s->journal, s->options->json_lines, diag))
        return false;
    if (s->options->resume) {
        for (size_t i = 0; i < old->count; i++)
            if (!take_result(s, &old->record[i], diag))
                return false;
        return journal_mend(&s->journal, diag);
    }
    if (old->count > 0 && (double)old->count < record_get_number(&old->record[0], "shard_points")) {
        diag_error(diag, s->journal.path, "holds %zu results of a sweep that has not ended; go on with --resume, "
                   "or remove the file", old->count);
        return false;
    }
    return journal_clear(&s->journal, diag);
}

/* What the process that examines a point answers, as bytes. */
struct examined {
    enum status status;
    char reason[REASON];
    bool refused; /* by the compiler */
    size_t packed, scratch, code, bytes;
    double compile_us;
    double error, gate, bound; /* the largest, and the largest shares of the bounds */
    struct folds folds;
};

/* What is the same for every result of this sweep and point. */
static void add_identity(struct record *r, const struct sweep *s, const struct point *p)
{
    char vary[1000] = "", shard[50];
    snprintf(shard, sizeof shard, "%zu/%zu", s->shard, s->shards);
    for (size_t i = 0, used = 0; i < s->axes.count && used < sizeof vary; i++)
        used += (size_t)snprintf(vary + used, sizeof vary - used, "%s%s", i > 0 ? "," : "", s->axes.axis[i].key);
    record_text(r, "sweep", s->id);
    record_text(r, "id", p->id);
    record_text(r, "version", s->version);
    record_text(r, "spec", s->spec);
    record_number(r, "point", "%zu", p->number);
    record_number(r, "points", "%zu", s->axes.points);
    record_text(r, "shard", shard);
    record_number(r, "shard_points", "%zu", s->count);
    record_text(r, "vary", vary);
    for (size_t i = 0; i < s->axes.count; i++)
        record_value(r, s->axes.axis[i].key, axes_value(&s->axes, p->number - 1, i));
}

/* What is known of a legal point before anything is compiled. */
static void add_call(struct record *r, const struct point *p)
{
    const struct layer_parameters *of = &p->parameters;
    record_text(r, "settings", p->settings);
    record_text(r, "isa", p->isa);
    record_number(r, "n", "%zu", p->n);
    record_number(r, "m", "%zu", p->m);
    record_number(r, "batch", "%zu", p->batch);
    record_number(r, "parameters", "%lld", (long long)of->total);
    record_number(r, "parameters_q", "%lld", (long long)of->w_q + of->b_q);
    record_number(r, "parameters_k", "%lld", (long long)of->w_k + of->b_k);
    record_number(r, "parameters_v", "%lld", (long long)of->w_v + of->b_v);
    record_number(r, "parameters_o", "%lld", (long long)of->w_o + of->b_o);
    record_number(r, "multiply_adds", "%.0f", p->multiply_adds);
}

static const char *folds_name(struct folds folds)
{
    static const char *const names[] = {"none", "scores", "values", "both"};
    return names[folds.scores + 2 * folds.values];
}

static void add_examined(struct record *r, const struct examined *e)
{
    if (e->packed == 0) /* it was never compiled */
        return;
    record_number(r, "packed_bytes", "%zu", e->packed);
    record_number(r, "scratch_bytes", "%zu", e->scratch);
    if (e->status != STATUS_SKIPPED)
        record_number(r, "code_bytes", "%zu", e->code);
    record_text(r, FIELD_FOLDED, folds_name(e->folds));
    record_number(r, "compile_s", "%.3f", 1e-6 * e->compile_us);
    if (e->status == STATUS_SKIPPED)
        return;
    record_number(r, "error", "%.4g", e->error);
    record_number(r, "error_of_gate", "%.4g", e->gate);
    record_number(r, "error_of_bound", "%.4g", e->bound);
}

static void add_timing(struct record *r, const struct timing *t)
{
    record_number(r, FIELD_US, "%.6g", t->us);
    record_number(r, FIELD_US_MIN, "%.6g", t->us_min);
    record_number(r, "us_low", "%.6g", t->us_low);
    record_number(r, "us_q1", "%.6g", t->us_q1);
    record_number(r, "us_q3", "%.6g", t->us_q3);
    record_number(r, "us_high", "%.6g", t->us_high);
    record_number(r, "us_max", "%.6g", t->us_max);
    record_number(r, "samples", "%zu", t->samples);
    record_number(r, "outliers", "%zu", t->outliers);
    if (!isnan(t->quiet.cpu_share))
        record_number(r, FIELD_CPU_SHARE, "%.4g", t->quiet.cpu_share);
    record_number(r, FIELD_SWITCHES, "%zu", t->quiet.switches);
    record_number(r, FIELD_DISTURBED, "%d", t->quiet.disturbed);
    record_number(r, "gflops", "%.5g", t->gflops);
    record_number(r, "peak_gflops", "%.5g", t->peak);
    record_number(r, "share", "%.4g", t->share);
    record_text(r, "cache", "warm");
    record_number(r, "core", "%d", t->core);
}

static void add_circumstances(struct record *r, const struct sweep *s)
{
    const time_t now = time(NULL);
    struct tm utc;
    char when[40] = "";
    record_text(r, "cpu", s->machine.cpu);
    record_text(r, "compiler", s->machine.compiler);
    record_text(r, "flags", s->machine.flags);
    record_text(r, "kernel", s->machine.kernel);
    if (gmtime_r(&now, &utc) != NULL)
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    record_text(r, "when", when);
}

/* Writes one point's result; `examined` and `timing` are NULL where there is nothing of the kind. */
static bool add_result(struct sweep *s, struct point *p, enum status status, const char *reason,
                       const struct examined *examined, const struct timing *timing, struct diag *diag)
{
    struct record record = {0};
    add_identity(&record, s, p);
    record_text(&record, "status", status_names[status]);
    if (p->settings != NULL)
        add_call(&record, p);
    if (examined != NULL)
        add_examined(&record, examined);
    if (timing != NULL)
        add_timing(&record, timing);
    add_circumstances(&record, s);
    record_text(&record, "reason", reason);
    p->done = true;
    s->lost_in_a_row = 0;
    count_status(s, status_names[status]);
    s->progress.done += timing != NULL ? (1 - CHECK_PART) * p->weight : p->weight;
    return journal_add(&s->journal, &record, diag);
}

/* ---- progress -------------------------------------------------------------------------------------------------- */

static void show_values(FILE *out, const struct sweep *s, const struct point *p)
{
    for (size_t i = 0; i < s->axes.count; i++)
        fprintf(out, " %s=%s", s->axes.axis[i].key, axes_value(&s->axes, p->number - 1, i));
}

static void show_left(FILE *out, const struct sweep *s)
{
    const double spent = 1e-6 * (now_us() - s->progress.start);
    const double weights = fmax(s->progress.all - s->progress.done, 0);
    const double left = s->progress.done > 0 ? spent / s->progress.done * weights : s->progress.all;
    if (left < 100)
        fprintf(out, "about %.0f s left", left);
    else if (left < 6000)
        fprintf(out, "about %.0f min left", left / 60);
    else
        fprintf(out, "about %.1f h left", left / 3600);
}

/* On a terminal one line that is written over; else a line now and then. */
static void show_progress(struct sweep *s)
{
    size_t done = 0;
    if (!s->progress.terminal && now_us() - s->progress.shown < 1e6 * PLAIN_PROGRESS_S)
        return;
    s->progress.shown = now_us();
    for (size_t i = 0; i < s->count; i++)
        done += s->point[i].done;
    fprintf(stderr, "%sattnrun sweep: %zu of %zu points done, ", s->progress.terminal ? "\r" : "", done, s->count);
    if (s->progress.checked > 0)
        fprintf(stderr, "%zu more checked, ", s->progress.checked);
    show_left(stderr, s);
    fputs("; ", stderr);
    if (s->progress.now != NULL) {
        fputs("checking", stderr);
        show_values(stderr, s, s->progress.now);
    } else {
        fprintf(stderr, "timing %zu points in turns", s->progress.group);
    }
    fputs(s->progress.terminal ? "\033[K" : "\n", stderr);
    fflush(stderr);
}

static void clear_progress(const struct sweep *s)
{
    if (s->progress.terminal)
        fputs("\r\033[K", stderr);
}

/* A point that the world has kept from being measured: no result. False when there were too many of them. */
static bool lose(struct sweep *s, const struct point *p, const char *reason)
{
    clear_progress(s);
    fprintf(stderr, "attnrun sweep: no result of");
    show_values(stderr, s, p);
    fprintf(stderr, ": %s\n", reason);
    s->lost++;
    s->progress.done += p->weight;
    return ++s->lost_in_a_row < MAX_LOST;
}

/* ---- examining one point --------------------------------------------------------------------------------------- */

struct job {
    struct sweep *sweep;
    const struct point *const *points;
    size_t count;
};

static bool compile_point(struct kernel *kernel, const struct sweep *s, const struct point *p, const char *name,
                          struct diag *diag)
{
    struct compile_options options = s->options->compile;
    struct words sets = {0};
    point_sets(&sets, s, p->number);
    options.set = (const char *const *)sets.word;
    options.set_count = sets.count;
    options.isa = p->isa;
    bool good = !sets.failed && compile_kernel(kernel, s->spec, name, &options, diag);
    words_free(&sets);
    return good;
}

static struct inputs_draw draw_of(const struct sweep *s, const struct point *p, bool full)
{
    return (struct inputs_draw){.seed = s->options->seed, .init = s->options->init, .batch = p->batch, .n = p->n,
                                .m = p->m, .full_lengths = full};
}

/* In words, why a kernel was not found good. */
static void say_why(char *reason, const struct findings *f, const char *isa)
{
    FILE *out = fmemopen(reason, REASON, "w");
    if (out == NULL)
        return;
    if (f->verdict == VERDICT_LACKING)
        fprintf(out, "this machine lacks %s", isa);
    else if (f->why[0] != '\0')
        fputs(f->why, out);
    else if (f->verdict == VERDICT_FAILED)
        comparison_print_miss(f->y.misses > 0 ? &f->y : &f->attn, out);
    fclose(out);
}

/* Compares with the reference. */
static void verify_point(struct examined *e, const struct sweep *s, const struct point *p, const struct layer *layer,
                         const struct kernel *kernel, struct diag *diag)
{
    const struct inputs_draw draw = draw_of(s, p, false);
    struct subject subject;
    const int isa = kernel_isa(kernel->call, p->isa);
    struct findings f = {.verdict = isa != 0 ? VERDICT_NONE : VERDICT_LACKING}; /* 0: of another architecture */
    if (subject_make(&subject, layer, kernel, &draw, diag) && isa != 0) {
        process_limit(apart_verify_limit(&subject));
        f = subject_verify(&subject, isa, diag);
        process_limit(0);
    }
    e->bytes = timed_bytes(layer, kernel->call, &subject.inputs);
    e->error = fmax(compare_shown_error(&f.y), compare_shown_error(&f.attn));
    e->gate = fmax(f.y.drawn_ratio, f.attn.drawn_ratio);
    e->bound = fmax(f.y.worst_ratio, f.attn.worst_ratio);
    e->status = f.verdict == VERDICT_GOOD ? STATUS_OK : f.verdict == VERDICT_LACKING ? STATUS_SKIPPED : STATUS_FAILED;
    say_why(e->reason, &f, p->isa);
    subject_free(&subject);
}

/* In a process of its own. */
static void examine(void *context, FILE *answer)
{
    const struct job *job = context;
    const struct sweep *s = job->sweep;
    const struct point *p = job->points[0];
    struct diag diag = {0};
    struct kernel kernel = {0};
    struct examined e = {.status = STATUS_FAILED};
    struct layer *layer = point_layer(s, p->number, &diag);
    if (layer != NULL && compile_point(&kernel, s, p, layer->name, &diag)) {
        e.packed = kernel.call->packed_bytes;
        e.scratch = kernel.call->scratch_bytes;
        e.code = code_bytes(&kernel, p->isa);
        e.compile_us = kernel.compile_us;
        e.folds = kernel_folds(&kernel);
        verify_point(&e, s, p, layer, &kernel, &diag);
    }
    if (diag.errors > 0) { /* attngen knows more rules than the spec's: those of plan.* */
        e.status = kernel.crashed ? STATUS_FAILED : diag.environment ? STATUS_LOST : STATUS_ILLEGAL;
        e.refused = kernel.refused;
        snprintf(e.reason, REASON, "%s", diag_first(&diag));
    }
    fwrite(&e, sizeof e, 1, answer);
}

static void tick(void *context)
{
    show_progress(((struct job *)context)->sweep);
}

/* False when interrupted or when no process can be started. */
static bool call_examine(struct examined *e, struct sweep *s, const struct point *p, struct diag *diag)
{
    struct job job = {s, &p, 1};
    struct process_result result;
    char text[80];
    s->progress.now = p;
    show_progress(s);
    if (!process_call(&result, examine, &job, tick, diag))
        return false;
    const char *why = process_unanswered(&result, sizeof *e, text);
    *e = (struct examined){.status = process_stopped(&result) ? STATUS_LOST : STATUS_FAILED};
    if (why == NULL)
        memcpy(e, result.output, sizeof *e);
    else
        snprintf(e->reason, REASON, "%s while it was checked", why);
    free(result.output);
    return true;
}

/* Whether the compiler makes another layer's kernel now, with a cache of its own. */
static bool compiler_works(const struct sweep *s, const struct point *p)
{
    struct compile_options options = s->options->compile;
    struct kernel kernel = {0};
    struct diag diag = {0};
    char *folder, *spec = make_probe(&folder, &diag), *cache = spec != NULL ? folder_make(&diag) : NULL;
    options.set_count = 0;
    options.isa = p->isa;
    options.cache = cache;
    const bool works = cache != NULL && compile_kernel(&kernel, spec, "probe", &options, &diag);
    kernel_unload(&kernel);
    remove_probe(cache, NULL);
    remove_probe(folder, spec);
    diag_free(&diag);
    return works;
}

/* A layer that the compiler refuses is at fault only if it does so again, and not another one. */
static bool examine_point(struct examined *e, struct sweep *s, const struct point *p, struct diag *diag)
{
    if (!call_examine(e, s, p, diag))
        return false;
    if (e->status == STATUS_LOST && e->refused && !call_examine(e, s, p, diag))
        return false;
    if (e->status == STATUS_LOST && e->refused && compiler_works(s, p))
        e->status = STATUS_FAILED;
    return true;
}

/* ---- timing a group -------------------------------------------------------------------------------------------- */

struct group {
    struct point *point[GROUP_POINTS];
    struct examined examined[GROUP_POINTS];
    size_t count, bytes;
};

/* What the process that times a group answers for each point, as bytes. */
struct timed_point {
    enum status status;
    char reason[REASON];
    struct timing timing;
};

/* Half of the process that times a group: everything packed and ready. */
static bool prepare_point(struct timed *timed, bool *crashed, const struct sweep *s, const struct point *p,
                          struct diag *diag)
{
    const struct inputs_draw draw = draw_of(s, p, true);
    struct layer *layer = point_layer(s, p->number, diag);
    struct kernel kernel = {0};
    bool good = layer != NULL && compile_point(&kernel, s, p, layer->name, diag) &&
                timed_make(timed, layer, kernel.call, &draw, diag);
    *crashed = kernel.crashed;
    if (good) {
        process_limit(apart_limit(layer, &timed->inputs, 1));
        good = timed_pack(timed, kernel_isa(kernel.call, p->isa), diag);
        process_limit(0);
    }
    if (good)
        timed_drop_weights(timed);
    else
        timed_free(timed);
    return good;
}

/* In a process of its own: what it holds goes when it ends. */
static void time_points(void *context, FILE *answer)
{
    const struct job *job = context;
    const struct options *o = job->sweep->options;
    struct timed_point answers[GROUP_POINTS] = {{0}};
    struct timed timed[GROUP_POINTS] = {{0}};
    struct timing timings[GROUP_POINTS];
    size_t of[GROUP_POINTS], ready = 0; /* the points of `timed` */
    struct diag diag = {0};
    for (size_t i = 0; i < job->count; i++) {
        struct diag own = {0};
        bool crashed = false;
        if (prepare_point(&timed[ready], &crashed, job->sweep, job->points[i], &own)) {
            of[ready++] = i;
            continue;
        }
        answers[i].status = !crashed && (own.errors == 0 || own.environment) ? STATUS_LOST : STATUS_FAILED;
        snprintf(answers[i].reason, REASON, "%s", diag_first(&own));
        diag_free(&own);
    }
    const bool good = rounds_measure(timings, timed, ready, o->seconds,
                                     o->rounds != UNSET ? o->rounds : DEFAULT_ROUNDS, &diag);
    for (size_t i = 0; i < ready; i++) {
        answers[of[i]].status = good ? STATUS_OK : STATUS_LOST;
        answers[of[i]].timing = timings[i];
        snprintf(answers[of[i]].reason, REASON, "%s", diag_first(&diag));
    }
    fwrite(answers, sizeof *answers, job->count, answer);
}

/* Times some points together. False when interrupted or when no process can be started. */
static bool call_time(struct timed_point *answers, struct sweep *s, struct point *const *points, size_t count,
                      struct diag *diag)
{
    struct job job = {s, (const struct point *const *)points, count};
    struct process_result result;
    char text[80];
    if (!process_call(&result, time_points, &job, tick, diag))
        return false;
    const char *why = process_unanswered(&result, count * sizeof *answers, text);
    for (size_t i = 0; why != NULL && i < count; i++) {
        answers[i].status = process_stopped(&result) ? STATUS_LOST : STATUS_FAILED;
        snprintf(answers[i].reason, REASON, "%s while it was timed", why);
    }
    if (why == NULL)
        memcpy(answers, result.output, count * sizeof *answers);
    free(result.output);
    return true;
}

/* Writes what came of a point of a group; one that failed among others is timed again alone, as another one may have
 * taken it along. */
static bool end_point(struct sweep *s, const struct group *g, size_t i, struct timed_point *t, struct diag *diag)
{
    struct point *p = g->point[i];
    if (t->status != STATUS_OK && g->count > 1 && !call_time(t, s, &p, 1, diag))
        return false;
    if (t->status == STATUS_LOST)
        return lose(s, p, t->reason);
    return add_result(s, p, t->status, t->reason, &g->examined[i], t->status == STATUS_OK ? &t->timing : NULL, diag);
}

/* Times a group and writes its results. False when interrupted, when the results cannot be written, or when the world
 * does not let go on. */
static bool end_group(struct sweep *s, struct group *g, struct diag *diag)
{
    struct timed_point answers[GROUP_POINTS];
    s->progress.now = NULL;
    s->progress.group = g->count;
    if (g->count == 0)
        return true;
    show_progress(s);
    bool good = call_time(answers, s, g->point, g->count, diag);
    for (size_t i = 0; good && i < g->count; i++)
        good = end_point(s, g, i, &answers[i], diag);
    *g = (struct group){0};
    s->progress.checked = 0;
    return good;
}

static size_t group_bytes(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const double quarter = pages > 0 && page > 0 ? (double)pages * (double)page / 4 : GROUP_BYTES;
    return quarter < GROUP_BYTES ? (size_t)quarter : GROUP_BYTES;
}

/* Examines one point; it joins the group if it is good. */
static bool take_point(struct sweep *s, struct group *g, struct point *p, struct diag *diag)
{
    struct examined e;
    if (!examine_point(&e, s, p, diag))
        return false;
    if (e.status == STATUS_LOST)
        return lose(s, p, e.reason);
    if (e.status != STATUS_OK)
        return add_result(s, p, e.status, e.reason, &e, NULL, diag);
    if ((g->count == GROUP_POINTS || (g->count > 0 && g->bytes + e.bytes > group_bytes())) && !end_group(s, g, diag))
        return false;
    s->lost_in_a_row = 0;
    s->progress.done += CHECK_PART * p->weight;
    s->progress.checked++;
    g->examined[g->count] = e;
    g->point[g->count++] = p;
    g->bytes += e.bytes;
    return true;
}

static void begin_progress(struct sweep *s)
{
    s->progress.terminal = isatty(STDERR_FILENO);
    s->progress.start = s->progress.shown = now_us();
    for (size_t i = 0; i < s->count; i++)
        s->progress.all += s->point[i].done ? 0 : s->point[i].weight;
    if (s->progress.all > LONG_S)
        s->progress.shown -= 1e6 * PLAIN_PROGRESS_S;
}

/* Everything that is not done yet. */
static bool measure(struct sweep *s, struct diag *diag)
{
    struct group *group = calloc(1, sizeof *group);
    bool good = group != NULL;
    if (!good)
        diag_environment(diag, NULL, "out of memory");
    begin_progress(s);
    for (size_t i = 0; good && i < s->count; i++)
        if (!s->point[i].done && s->point[i].reason != NULL)
            good = add_result(s, &s->point[i], STATUS_ILLEGAL, s->point[i].reason, NULL, NULL, diag);
    for (size_t i = 0; good && i < s->count; i++)
        if (!s->point[i].done)
            good = take_point(s, group, &s->point[i], diag);
    good = good && end_group(s, group, diag);
    clear_progress(s);
    free(group);
    return good;
}

/* ---- the command ----------------------------------------------------------------------------------------------- */

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

/* What is lost is the environment's fault, and can be had yet. */
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
    for (size_t i = 0; i < s->count; i++)
        free_point(&s->point[i]);
    free(s->point);
    axes_free(&s->axes);
    machine_free(&s->machine);
    free(s->version);
    journal_close(&s->journal);
}

static void phases(struct sweep *s, struct diag *diag)
{
    const struct options *o = s->options;
    const bool begun = read_request(s, diag) && report_possible(o, diag) && ask_machine(s, diag) &&
                       make_points(s, diag) && begin_journal(s, diag);
    const bool ended = begun && measure(s, diag);
    s->interrupted = signals_waiting();
    if (s->interrupted) {
        diag_free(diag); /* its message says less than ours */
        say_interrupted(s, begun);
    }
    if (!begun)
        return;
    report_lost(s, diag);
    report_all(&s->journal.records, o, ended ? REPORT_PAGE : 0, diag);
    if (ended && s->legal == 0)
        diag_error(diag, s->spec, "no point is legal");
    else if (ended && s->skipped == s->legal)
        call_report_no_isa(s->spec, diag);
}

int command_sweep(const struct options *options)
{
    struct sweep s = {.options = options, .spec = options->specs[0], .shard = 1, .shards = 1, .journal = {.file = -1}};
    struct diag diag = {0};
    sigset_t before;
    signals_hold(&before);
    phases(&s, &diag);
    int code = diag_report(&diag, stderr);
    if (code == EXIT_GOOD && s.failed > 0)
        code = EXIT_CHECK_FAILED;
    if (s.interrupted) /* and the signal is ignored: else we die of it below */
        code = EXIT_ENVIRONMENT;
    sweep_free(&s);
    diag_free(&diag);
    signals_release(&before);
    return code;
}
