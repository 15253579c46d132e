/* SPDX-License-Identifier: MIT */
/* Specs that are mostly legal, made of a fuzzer's bytes key by key, and all that follows from a layer: its counts beside
 * plain loops, the plan, what is explained of it, a plan file, the emitted text.
 *
 * Left out on purpose: compiling the text (test_sweep.sh, test_emitted.sh).
 */
#include "fuzz.h"

#include <math.h>

#include "emit/emit.h"
#include "emit/explain.h"
#include "plan/expect.h"
#include "plan/isa.h"
#include "plan/plan.h"
#include "plan/planfile.h"
#include "spec/keys.h"
#include "spec/visible.h"

#define MAX_COUNTED 40   /* positions that are counted one by one */
#define MAX_EMITTED 200  /* widths whose text is made, */
#define EMITTED_EVERY 128 /* of so many inputs, for one instruction set besides scalar */
#define MAX_COLUMNS 100  /* of --explain */
#define ALIGNED 64        /* bytes: arrays of the packed block and the scratch begin there */

/* ---- a spec ---------------------------------------------------------------------------------------------------- */

static int64_t draw_size(struct bytes *in)
{
    static const int32_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 24, 31, 32, 40, 48, 64, 72, 96, 100, 128, 192,
                                    256, 384, 512, 768, 1000, 1024, 2048, 4096, 65536, 1 << 20, INT32_MAX - 1};
    const unsigned way = take(in);
    const int64_t size = sizes[take_below(in, sizeof sizes / sizeof *sizes)];
    return way < 128 ? size : way < 160 ? size + 1 : way < 192 && size > 1 ? size - 1 : way < 250 ? 1 + take(in)
                                                                                     : 1 + take_word(in) % INT32_MAX;
}

/* Now and then, `of` 256. */
static bool maybe(struct bytes *in, unsigned of)
{
    return take(in) < of;
}

/* A word of the key, from the one at `first` on; no word at `end`, where that is not 0, or after it */
static const char *word_of(struct bytes *in, enum key key, size_t first, size_t end)
{
    size_t count = first;
    while (key_words(key)[count].word != NULL && (end == 0 || count < end))
        count++;
    return key_words(key)[first + take_below(in, count - first)].word;
}

static void draw_window(struct bytes *in, FILE *out, unsigned mask)
{
    for (int side = 0; side < 2 && (mask >> 3 & 1) != 0; side++)
        if (maybe(in, 180))
            fprintf(out, "window_%s = %lld\n", side == 0 ? "left" : "right", (long long)draw_size(in) - 1);
}

static void draw_word(struct bytes *in, FILE *out, enum key key, size_t end)
{
    if (maybe(in, 128))
        fprintf(out, "%s = %s\n", key_rows[key].name, word_of(in, key, 0, end));
}

/* A value that a key of the plan may have, or may not. */
static void draw_value(struct bytes *in, char text[24])
{
    static const char *const words[] = {"auto", "full", "on", "off", "rows", "blocks", "one_pass", "two_pass", "fast",
                                        "small"};
    if (maybe(in, 128))
        snprintf(text, 24, "%s", words[take_below(in, sizeof words / sizeof *words)]);
    else
        snprintf(text, 24, "%lld", (long long)draw_size(in));
}

/* One that it may have, or auto: every word belongs to some keys alone, so what is refused is drawn again. */
static bool draw_legal(struct bytes *in, struct plan_request *request, enum plan_key key)
{
    for (int attempt = 0; attempt < 4; attempt++) {
        char text[24];
        struct diag ignored = {0};
        draw_value(in, text);
        const bool good = plan_value_read(request, key, text, "drawn", &ignored);
        diag_free(&ignored);
        if (good)
            return true;
    }
    return false;
}

static void draw_plan(struct bytes *in, FILE *out)
{
    const size_t count = take(in) % 4;
    for (size_t i = 0; i < count; i++) {
        struct plan_request request = plan_request_none();
        char text[24];
        const enum plan_key key = (enum plan_key)take_below(in, PLAN_KEYS);
        if (draw_legal(in, &request, key) && request.value[key] != PLAN_AUTO)
            fprintf(out, "%s = %s\n", plan_key_name(key), plan_value_text(key, request.value[key], text));
    }
}

/* ---- more kinds; nothing where no bytes are left, so that each input keeps what it said before there were any ------ */

static bool rather(struct bytes *in, unsigned of)
{
    return take(in) >= 256 - of;
}

/* Numbers that are good for nearly all of these keys. */
static void draw_real(struct bytes *in, FILE *out, const char *key, unsigned of)
{
    static const char *const numbers[] = {"1", "2", "8", "0.5", "1e-6", "1.18e-38", "10000", "5e5", "64", "8192", "3.4e38",
                                          "0x1p-3", "0", "-1"};
    if (rather(in, of))
        fprintf(out, "%s = %s\n", key, numbers[take_below(in, sizeof numbers / sizeof *numbers)]);
}

static void draw_size_of(struct bytes *in, FILE *out, const char *key, unsigned of, int64_t factor)
{
    if (rather(in, of))
        fprintf(out, "%s = %lld\n", key, (long long)(draw_size(in) * factor));
}

static void draw_rope(struct bytes *in, FILE *out)
{
    static const char *const numbers[] = {"rope_low", "rope_high", "rope_beta_fast", "rope_beta_slow", "rope_attention_factor"};
    fprintf(out, "rope = %s\n", word_of(in, KEY_ROPE, 1, 0));
    if (rather(in, 100))
        fputs("rope_positions = given\n", out);
    draw_size_of(in, out, "rope_dims", 100, 2);
    draw_real(in, out, "rope_theta", 100);
    const size_t which = take_below(in, 4);
    if (which == 3)
        return;
    fprintf(out, "rope_scaling = %s\n", key_words(KEY_ROPE_SCALING)[which + 1].word);
    draw_real(in, out, "rope_factor", 250);
    draw_real(in, out, "rope_original_len", which == 0 ? 5 : 250);
    if (rather(in, which == 2 ? 100 : 2))
        fputs("rope_truncate = false\n", out);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        draw_real(in, out, numbers[i], (which == 1) == (i < 2) && which != 0 ? 100 : 2);
}

/* The bits of masks that it adds; perhaps another word for scores. */
static unsigned draw_more_kinds(struct bytes *in, FILE *out, bool other_source, const char **shown)
{
    if (rather(in, other_source ? 100 : 5))
        fprintf(out, "offset = %s\n", word_of(in, KEY_OFFSET, 0, 0));
    if (rather(in, 60))
        fprintf(out, "qk_norm = %s\n", word_of(in, KEY_QK_NORM, 1, 0));
    draw_real(in, out, "norm_eps", 30);
    if (rather(in, 90))
        draw_rope(in, out);
    draw_real(in, out, "softcap", 50);
    fputs(rather(in, 40) ? "alibi = true\n" : "", out);
    fputs(rather(in, 40) ? "sink = true\n" : "", out);
    fputs(rather(in, 40) ? "lse = true\n" : "", out);
    fputs(rather(in, 30) ? "pad_rows = skipped\n" : "", out);
    if (rather(in, 60)) {
        fputs("relative = t5\n", out);
        draw_size_of(in, out, "rel_buckets", 100, 4);
        draw_size_of(in, out, "rel_distance", 100, 1);
    } else if (rather(in, 60)) {
        fputs("relative = table\n", out);
        draw_size_of(in, out, "rel_left", 200, 1);
        draw_size_of(in, out, "rel_right", 200, 1);
    }
    if (rather(in, 60))
        *shown = word_of(in, KEY_SCORES, 2, 0);
    return rather(in, 40) ? 1u << 6 | 1u : rather(in, 40) ? 1u << 7 : 0;
}

static char *draw_spec(struct bytes *in, size_t *length)
{
    static const char *const scale[] = {"0", "1", "-0.5", "1e30", "-2.3e38", "1e-30", "0x1p-3", "3.402823e38"};
    char *text = NULL, masks[LAYER_MASK_TEXT];
    FILE *out = open_memstream(&text, length);
    REQUIRE(out != NULL);
    const int64_t h = 1 + (int64_t)take_below(in, 16), d = draw_size(in);
    const int64_t d_model = maybe(in, 240) ? h * d : draw_size(in);
    fprintf(out, "name = drawn\nh = %lld\nseq_len = %lld\n", (long long)h, (long long)draw_size(in));
    const unsigned drawn = take(in), mask = drawn & 63;
    const bool projected = drawn >> 6 == 3;
    bool cross = false;
    draw_window(in, out, mask);
    if (maybe(in, 60))
        fprintf(out, "h_kv = %lld\n", (long long)(h / (1 + take(in) % 4)));
    if (projected)
        draw_word(in, out, KEY_HEADS, 0);
    else
        draw_word(in, out, KEY_WIDTH, 0);
    if (projected || maybe(in, 40))
        fprintf(out, "d_k = %lld\n", (long long)draw_size(in));
    if (maybe(in, 40))
        fprintf(out, "d_v = %lld\n", (long long)draw_size(in));
    if (projected)
        fputs("input = projected\n", out);
    else
        draw_word(in, out, KEY_INPUT, 2);
    if (projected || maybe(in, 100)) {
        cross = !projected;
        fputs(cross ? "attention = cross\n" : "", out);
        if (cross && maybe(in, 128))
            fprintf(out, "d_source = %lld\n", (long long)(h * draw_size(in)));
        if (maybe(in, 128))
            fprintf(out, "source_len = %lld\n", (long long)draw_size(in));
    }
    if (!projected) {
        draw_word(in, out, KEY_W_K, 0);
        draw_word(in, out, KEY_W_V, 0);
    }
    const size_t output = take_below(in, 3);
    if (!projected || output != 1)
        fprintf(out, "d_model = %lld\n", (long long)d_model);
    fprintf(out, "w_o = %s\n", key_word(KEY_W_O, (int64_t)output));
    if (output == 2 && maybe(in, 128))
        fprintf(out, "conv_width = %lld\n", (long long)draw_size(in));
    draw_word(in, out, KEY_BIAS, 0);
    if (maybe(in, 128))
        fprintf(out, "scale = %s\n", scale[take_below(in, sizeof scale / sizeof *scale)]);
    const char *shown = maybe(in, 128) ? word_of(in, KEY_SCORES, 0, 2) : NULL;
    draw_word(in, out, KEY_WEIGHT_LAYOUT, 0);
    draw_word(in, out, KEY_WEIGHT_TYPE, 0);
    draw_word(in, out, KEY_PRECISION, 0);
    draw_plan(in, out);
    layer_mask_text(mask | (rather(in, 128) ? draw_more_kinds(in, out, cross || projected, &shown) : 0), masks);
    fprintf(out, "mask = %s\n", masks);
    if (shown != NULL)
        fprintf(out, "scores = %s\n", shown);
    draw_word(in, out, KEY_TENSOR_TYPE, 0);
    REQUIRE(fclose(out) == 0);
    return text;
}

/* With lengths of `more`, where it is not 0, in place of the spec's. */
static struct layer *read_spec(const char *text, size_t length, int64_t more, bool has_m)
{
    char sets[2][40];
    const char *set[2] = {sets[0], sets[1]};
    struct diag diag = {0};
    snprintf(sets[0], sizeof sets[0], "seq_len=%lld", (long long)more);
    snprintf(sets[1], sizeof sets[1], "source_len=%lld", (long long)more);
    struct layer *layer = layer_read(fuzz_file("fuzz.layer", text, length), set, more == 0 ? 0 : has_m ? 2 : 1, &diag);
    fuzz_diag(&diag, layer != NULL);
    return layer;
}

/* ---- counts ---------------------------------------------------------------------------------------------------- */

static bool sees(const struct layer *layer, int64_t t, int64_t j)
{
    const bool window = (layer->mask & MASK_WINDOW) != 0;
    return !((layer->mask & MASK_CAUSAL) != 0 && j > t) && !((layer->mask & MASK_NO_SELF) != 0 && j == t) &&
           !(window && layer->window_left != LAYER_UNBOUNDED && j < t - layer->window_left) &&
           !(window && layer->window_right != LAYER_UNBOUNDED && j > t + layer->window_right);
}

static void check_counts(const struct layer *layer)
{
    const int64_t n = layer->seq_len < MAX_COUNTED ? layer->seq_len : MAX_COUNTED;
    const int64_t m = layer->source_len < MAX_COUNTED ? layer->source_len : MAX_COUNTED;
    int64_t pairs = 0, taps = 0;
    for (int64_t t = 0; t < n; t++)
        for (int64_t j = 0; j < m; j++)
            pairs += sees(layer, t, j);
    REQUIRE(layer->offset != OFFSET_NONE || (layer->mask & MASK_PREFIX) != 0 || visible_pairs(layer, n, m) == pairs);
    for (int64_t t = 0; t < n && layer->w_o == W_O_CONV; t++)
        for (int64_t row = 0; row < n; row++) {
            const int64_t tap = row - t + layer_conv_pad(layer);
            taps += tap >= 0 && tap < layer->conv_width;
        }
    REQUIRE(layer->w_o != W_O_CONV || layer_conv_taps(layer, n) == taps);

    const struct layer_cost c = layer_multiply_adds(layer, layer->seq_len, layer->source_len);
    const double whole = (double)layer->seq_len * (double)layer->source_len;
    const double all = (double)visible_pairs(layer, layer->seq_len, layer->source_len);
    REQUIRE(all >= 0 && all <= whole * (1 + 1e-15));
    REQUIRE((c.q > 0) != layer->projected && c.q >= 0 && c.k >= 0 && c.v >= 0 && c.scores >= 0 && c.values >= 0);
    REQUIRE(c.output >= 0 && isfinite(c.total));
    REQUIRE(fabs(c.total - (c.q + c.k + c.v + c.scores + c.values + c.output)) <= 1e-12 * c.total);
    const struct layer_parameters p = layer_parameters(layer);
    REQUIRE((p.of[TENSOR_W_Q] > 0) != layer->projected);
    int64_t numbers = 0;
    for (enum layer_tensor tensor = 0; tensor < TENSOR_COUNT; numbers += p.of[tensor], tensor++)
        REQUIRE(p.of[tensor] >= 0);
    REQUIRE(p.total == numbers && p.matrices <= numbers);
}

/* ---- the plan -------------------------------------------------------------------------------------------------- */

static void check_place(int64_t at, int64_t size, int64_t whole)
{
    REQUIRE(at >= 0 && at % ALIGNED == 0 && size >= 0 && at <= whole - size, "%lld + %lld of %lld", (long long)at,
            (long long)size, (long long)whole);
}

static void check_panels(const struct plan_isa *p, const struct plan_panels *c)
{
    REQUIRE(c->depth > 0 && c->k_block > 0 && c->taps > 0 && c->groups > 0 && c->columns > 0 && c->panels > 0);
    REQUIRE(c->vecs >= 1 && c->vecs <= 4 && c->rows >= 1 && c->rows <= 16 && c->unroll >= 0 && c->group_rows >= 1);
    REQUIRE(c->panels * c->vecs * p->lanes >= c->columns && (c->panels - 1) * c->vecs * p->lanes < c->columns);
    REQUIRE(c->tail_lanes >= 0 && c->tail_lanes < p->lanes && c->part_panels >= 1);
    REQUIRE(c->panel_size > 0 && 2 * c->packed_depth >= c->depth);
    REQUIRE(c->group_size >= c->packed_depth * c->taps * c->columns);
}

static void check_layout(const struct plan_isa *p, enum layout_name id)
{
    const struct layout *l = &p->layouts[id];
    if (l->name != NULL && l->owner != OWNER_CALLER)
        check_place(l->at, layout_elements(l) * layout_element(p, id), p->bytes[l->owner]);
}

static void check_isa(const struct plan_isa *p, const struct layer *layer)
{
    REQUIRE(p->lanes == p->isa->lanes && p->vecs >= 1 && p->vecs <= 4 && p->block == p->vecs * p->lanes);
    REQUIRE(p->rows >= 1 && p->rows <= 16 && p->rows_single >= 1 && p->value_rows >= 1 && p->value_rows_single >= 1);
    REQUIRE(p->key_block >= 1 && p->depth_slab >= 1 && p->part_blocks >= 1 && p->part_blocks <= p->query_blocks);
    REQUIRE(p->query_blocks * p->block >= layer->seq_len && p->source_blocks * p->block >= layer->source_len);
    REQUIRE((p->bytes[OWNER_PACKED] > 0 || layer->projected) && p->bytes[OWNER_SCRATCH] >= 0 &&
            p->bytes[OWNER_WORKER] > 0 && p->stack > 0 && p->stack_plain > 0);
    for (int i = 0; i < p->step_count; i++)
        if (p->steps[i].kind == KIND_PANELS)
            check_panels(p, &p->steps[i].panels);
    for (int i = 0; i < LAYOUTS; i++)
        check_layout(p, (enum layout_name)i);
    REQUIRE(p->reason_count > 0 && p->reason_count <= PLAN_REASONS);
    for (int i = 0; i < p->reason_count; i++)
        REQUIRE(p->reasons[i] != NULL && p->reasons[i][0] != '\0');
}

static void check_plan(const struct plan *plan, const struct layer *layer)
{
    int64_t packed = 0, shared = 0, worker = 0;
    for (int64_t i = 0; i < plan->count; i++) {
        const struct plan_isa *p = &plan->isas[i];
        check_isa(p, layer);
        packed = p->bytes[OWNER_PACKED] > packed ? p->bytes[OWNER_PACKED] : packed;
        shared = p->bytes[OWNER_SCRATCH] > shared ? p->bytes[OWNER_SCRATCH] : shared;
        worker = p->bytes[OWNER_WORKER] > worker ? p->bytes[OWNER_WORKER] : worker;
    }
    REQUIRE(plan->packed_bytes == packed && plan->shared_bytes == shared && plan->worker_bytes == worker);
    REQUIRE((layer->projected || (double)plan->packed_bytes >= 4 * (double)layer->d_model) && plan->packed_bytes % 64 == 0);
}

static struct plan *make_plan(const struct layer *layer, unsigned isas, const struct plan_file *file)
{
    struct diag diag = {0};
    struct plan *plan = layer != NULL ? plan_make_from(layer, isas, file, &diag) : NULL;
    fuzz_diag(&diag, plan != NULL || layer == NULL);
    if (plan != NULL)
        check_plan(plan, layer);
    return plan;
}

/* Scratch of a call: n and m 16 times as long ask for no more than 16 times, or 96 where another plan serves the longer
 * ones better, as folded values of 6 heads do (54); a product of n and m would ask for 256. */
static void check_linear(const char *text, size_t length, bool has_m, unsigned isas)
{
    struct layer *layer[2];
    struct plan *plan[2];
    for (int i = 0; i < 2; i++) {
        layer[i] = read_spec(text, length, i == 0 ? 8192 : 131072, has_m);
        plan[i] = make_plan(layer[i], isas, NULL);
    }
    if (plan[0] != NULL && plan[1] != NULL)
        REQUIRE((double)(plan[1]->shared_bytes + plan[1]->worker_bytes) <=
                96 * (double)(plan[0]->shared_bytes + plan[0]->worker_bytes));
    for (int i = 0; i < 2; i++) {
        plan_free(plan[i]);
        layer_free(layer[i]);
    }
}

/* ---- texts ----------------------------------------------------------------------------------------------------- */

static void check_text(const char *text, size_t length, size_t max_columns)
{
    size_t columns = 0;
    REQUIRE(length > 0 && strlen(text) == length && text[length - 1] == '\n');
    for (size_t i = 0; i < length; i++) {
        columns = text[i] == '\n' ? 0 : columns + ((text[i] & 0xc0) != 0x80);
        REQUIRE(columns <= max_columns, "%s", text);
    }
    REQUIRE(strstr(text, "nan") == NULL && strstr(text, " inf") == NULL, "%s", text);
}

static char *explained(const struct plan *plan, const struct layer *layer, int64_t batch, size_t max_columns)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    REQUIRE(out != NULL);
    if (plan == NULL) {
        explain_layer(layer, out);
    } else {
        plan_explain(plan, layer, out);
        expect_explain(plan, layer, batch, out);
    }
    REQUIRE(fclose(out) == 0);
    check_text(text, length, max_columns);
    return text;
}

/* The layer and its plan in words, twice the same. */
static void check_explained(const struct plan *plan, const struct layer *layer, int64_t batch, unsigned isas)
{
    struct plan *again = make_plan(layer, isas, NULL);
    free(explained(NULL, layer, 1, MAX_COLUMNS));
    char *text = explained(plan, layer, batch, SIZE_MAX), *other = explained(again, layer, batch, SIZE_MAX);
    REQUIRE(strcmp(text, other) == 0);
    plan_free(again);
    free(other);
    free(text);
}

/* One file: `template_name` as of the plan's instruction set `set`, from 1; 0: of all */
static void check_file_emitted(struct emit *emit, const char *template_name, size_t set, const struct layer *layer)
{
    struct diag diag = {0};
    size_t length = 0;
    int depth = 0;
    char *text = emit_expand(emit, template_name, set, &length, &diag);
    REQUIRE(text != NULL, "%s\n%s", layer->text, diag.errors > 0 ? diag.messages[0] : "");
    REQUIRE(strlen(text) == length && length > 1000 && text[length - 1] == '\n' && strstr(text, "${") == NULL);
    for (const char *c = text; *c != '\0'; c++)
        depth += *c == '{' ? 1 : *c == '}' ? -1 : 0;
    REQUIRE(depth == 0, "%s\n%s", layer->text, template_name);
    free(text);
    fuzz_diag(&diag, true);
}

static void check_emitted(const struct layer *layer, size_t isa_row, bool split)
{
    struct diag diag = {0};
    struct plan *plan = make_plan(layer, 1u | 1u << isa_row, NULL);
    struct emit *emit = emit_open(NULL, &diag);
    REQUIRE(emit != NULL && plan != NULL);
    emit_set_string(emit, "COMMAND", "attngen drawn.layer");
    emit_set_string(emit, "VERSION", "0");
    emit_set_string(emit, "PAIR", "0x0123456789abcdef");
    emit_set_boolean(emit, "SPLIT_FILES", split);
    plan_context(plan, layer, emit);
    check_file_emitted(emit, "interface/kernel.c.in", 0, layer);
    check_file_emitted(emit, "interface/kernel.h.in", 0, layer);
    if (split) {
        check_file_emitted(emit, "interface/kernel_internal.h.in", 0, layer);
        check_file_emitted(emit, "interface/kernel_isa.c.in", (size_t)plan->count, layer);
    }
    emit_close(emit);
    plan_free(plan);
    fuzz_diag(&diag, true);
}

/* ---- a plan file ----------------------------------------------------------------------------------------------- */

static struct plan_file draw_file(struct bytes *in)
{
    struct plan_file file = plan_file_empty();
    draw_legal(in, &file.common, PLAN_FOLD);
    for (size_t i = 0; i < isa_count; i++) {
        struct plan_section *s = &file.isa[i];
        if (i > 0 && maybe(in, 128))
            continue;
        s->line = 1;
        snprintf(s->cpu, sizeof s->cpu, "a CPU (%u)", take(in));
        snprintf(s->compiler, sizeof s->compiler, "cc %u", take(in));
        for (size_t count = take(in) % 5; count > 0; count--) {
            const enum plan_key key = (enum plan_key)take_below(in, PLAN_KEYS);
            if (key != PLAN_FOLD)
                draw_legal(in, &s->request, key);
        }
    }
    return file;
}

/* What is printed is read as it was meant, and a plan is made of it. */
static void check_file(struct bytes *in, const struct layer *layer, unsigned isas)
{
    const struct plan_file file = draw_file(in);
    const struct plan_file read = fuzz_reread(&file, layer);
    plan_free(make_plan(layer, isas, &read));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes in = {data, data + size};
    const unsigned isas = (take(&in) & isa_all()) | 1u;
    const int64_t batch = 1 + take(&in);
    size_t length;
    char *text = draw_spec(&in, &length);
    struct layer *layer = read_spec(text, length, 0, false);
    struct plan *plan = NULL;
    if (layer != NULL) {
        struct layer *again = read_spec(layer->text, strlen(layer->text), 0, false);
        REQUIRE(again != NULL && fuzz_same_layer(layer, again), "%s", text);
        layer_free(again);
        check_counts(layer);
        plan = make_plan(layer, isas, NULL);
    }
    if (plan != NULL) {
        check_explained(plan, layer, batch, isas);
        check_linear(text, length, layer->cross || layer->projected, isas);
        check_file(&in, layer, isas);
        const uint32_t chance = fuzz_hash(data, size);
        if (chance % EMITTED_EVERY == 0 && layer->d_model <= MAX_EMITTED &&
            layer->d_source <= MAX_EMITTED && layer->d_k <= MAX_EMITTED && layer->d_v <= MAX_EMITTED)
            check_emitted(layer, chance / EMITTED_EVERY % isa_count, chance / EMITTED_EVERY / isa_count % 2 > 0);
    }
    plan_free(plan);
    layer_free(layer);
    free(text);
    return 0;
}
