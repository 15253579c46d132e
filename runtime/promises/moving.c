/* SPDX-License-Identifier: MIT */
/* NAME_cache_reset and NAME_cache_move: what becomes of sequences that are kept, reordered, copied and dropped.
 *
 * Left out on purpose: calls on what they leave; rows are compared bit by bit.
 */
#include "trials.h"

#include <string.h>

#include "base/arith.h"
#include "misuse.h"

#define BATCH 6
#define TURNS 24
#define MOST 60 /* tokens of a sequence, about */

struct moving {
    const struct kernel_table *call;
    const struct layer *layer;
    struct inputs before;              /* of BATCH sequences */
    union { /* what a function is given */
        struct guarded given[CACHE_PARTS + 4];
        struct {
            struct guarded cache[CACHE_PARTS], past, table, from, free_pages;
        };
    };
    int32_t wanted[BATCH];             /* from, as it was */
    size_t free_count;
    struct random random;
    char *why;
};

#define GIVEN (sizeof ((struct moving *)0)->given / sizeof(struct guarded))

static bool is_paged(const struct moving *m) { return m->layer->cache == CACHE_PAGED; }

static int32_t past_of(const struct inputs *in, size_t b) { return ((const int32_t *)in->tensor[TENSOR_PAST])[b]; }

static size_t used_pages(const struct moving *m, size_t b)
{
    return ((size_t)past_of(&m->before, b) + (size_t)m->layer->page_len - 1) / (size_t)m->layer->page_len;
}

static size_t cache_bytes(const struct moving *m, int part) { return inputs_cache_bytes(m->layer, &m->before, part); }

/* ---- making ------------------------------------------------------------------------------------------------------ */

/* More pages than are used, one for each sequence at least. */
static void add_pages(struct moving *m)
{
    struct inputs *in = &m->before;
    for (int part = 0; is_paged(m) && part < inputs_cache_parts(m->layer); part++) {
        void **tensor = &in->tensor[inputs_cache_of(m->layer, part)];
        const size_t had = cache_bytes(m, part), page = had / in->pages;
        *tensor = memory_grow(*tensor, had + BATCH * page, 1);
        memset((char *)*tensor + had, 0x7f, BATCH * page);
    }
    in->pages += is_paged(m) ? BATCH : 0;
}

/* Pages that no sequence uses, in no order. */
static void list_free(struct moving *m)
{
    const int32_t *table = m->before.tensor[TENSOR_PAGE_TABLE];
    int32_t *list = m->free_pages.data;
    m->free_count = 0;
    for (size_t page = 0; is_paged(m) && page < m->before.pages; page++) {
        bool used = false;
        for (size_t b = 0; b < BATCH; b++)
            for (size_t i = 0; i < used_pages(m, b); i++)
                used = used || table[b * (size_t)m->layer->page_count + i] == (int32_t)page;
        if (used)
            continue;
        const size_t at = random_bits(&m->random) % (m->free_count + 1);
        list[m->free_count++] = list[at];
        list[at] = (int32_t)page;
    }
}

static void release(struct moving *m)
{
    for (size_t i = 0; i < GIVEN; i++)
        guarded_free(&m->given[i]);
}

/* The function's input, before the call */
static void prepare(struct moving *m)
{
    const size_t offset = 4 * (random_bits(&m->random) % 8);
    const size_t table = inputs_count(m->layer, &m->before, TENSOR_PAGE_TABLE);
    const size_t numbers[] = {BATCH, table, BATCH, m->before.pages};
    release(m);
    for (int i = 0; i < 4; i++)
        guarded_make(&m->given[CACHE_PARTS + i], numbers[i] * sizeof(int32_t), offset);
    for (int part = 0; part < inputs_cache_parts(m->layer); part++) {
        guarded_make(&m->cache[part], cache_bytes(m, part), offset);
        memcpy(m->cache[part].data, m->before.tensor[inputs_cache_of(m->layer, part)], m->cache[part].bytes);
    }
    memcpy(m->past.data, m->before.tensor[TENSOR_PAST], m->past.bytes);
    if (is_paged(m))
        memcpy(m->table.data, m->before.tensor[TENSOR_PAGE_TABLE], m->table.bytes);
    list_free(m);
}

static struct kernel_cache cache_of(const struct moving *m)
{
    const bool paged = is_paged(m);
    const int k_scale = inputs_scales_of(m->layer, 0);
    const bool shares = m->layer->shares;
    return (struct kernel_cache){.k = m->cache[0].data, .v = shares ? NULL : m->cache[1].data, .past = m->past.data,
                                 .page_table = paged ? m->table.data : NULL, .batch = BATCH, .pages = m->before.pages,
                                 .free_pages = paged ? m->free_pages.data : NULL, .free_count = m->free_count,
                                 .k_scale = m->cache[k_scale].data,
                                 .v_scale = shares ? NULL : m->cache[k_scale + 1].data};
}

static bool zones_intact(struct moving *m, const char *what)
{
    bool intact = true;
    for (size_t i = 0; i < GIVEN; i++)
        intact = intact && (m->given[i].block == NULL || guarded_zones_intact(&m->given[i]));
    return intact || violated(m, "%s: wrote outside the cache, its numbers and from", what);
}

/* ---- moving ------------------------------------------------------------------------------------------------------ */

/* Kept, reversed, rotated, all copies of one, all dropped, two cycles, and random */
static void draw_from(struct moving *m, size_t turn)
{
    for (size_t b = 0; b < BATCH; b++) {
        const size_t any = random_bits(&m->random) % (BATCH + 1);
        const size_t of[] = {b, BATCH - 1 - b, (b + 1) % BATCH, turn % BATCH, BATCH, (b + 2) % BATCH};
        const size_t chosen = turn < sizeof of / sizeof *of ? of[turn] : any;
        m->wanted[b] = chosen == BATCH ? -1 - (int32_t)(b % 2) : (int32_t)chosen;
    }
    memcpy(m->from.data, m->wanted, sizeof m->wanted);
}

/* The rows of sequence b are those that sequence from[b] had. */
static bool rows_are_right(struct moving *m, const struct inputs *after, size_t b, size_t from)
{
    const struct layer *layer = m->layer;
    const int64_t end = past_of(&m->before, from), rows = layer->cache_len;
    const int64_t first = layer->cache == CACHE_RING && end > rows ? end - rows : 0;
    for (int part = 0; part < inputs_cache_parts(layer); part++) {
        const enum layer_tensor tensor = inputs_cache_of(layer, part);
        const size_t size = layer_tensor_size(layer, tensor), bytes = inputs_cache_width(layer, part) * size;
        for (int64_t p = first; p < end; p++)
            for (size_t i = 0; i < (size_t)layer->h_kv; i++) {
                const char *was = m->before.tensor[tensor], *is = after->tensor[tensor];
                was += inputs_cache_row(layer, &m->before, part, from, i, p) * size;
                is += inputs_cache_row(layer, after, part, b, i, p) * size;
                if (memcmp(was, is, bytes) != 0)
                    return violated(m, "cache_move: position %lld of sequence %zu is not that of sequence %zu before",
                                    (long long)p, b, from);
            }
    }
    return true;
}

/* Whether no other sequence has the page of sequence b's next token, if that page is partly filled */
static bool page_is_own(struct moving *m, const struct inputs *after, size_t b)
{
    const size_t len = (size_t)m->layer->page_len, count = (size_t)m->layer->page_count;
    const size_t end = is_paged(m) ? (size_t)past_of(after, b) : 0;
    const int32_t *table = after->tensor[TENSOR_PAGE_TABLE];
    for (size_t other = 0; end > 0 && end % len != 0 && other < BATCH; other++)
        for (size_t page = 0; other != b && page < ((size_t)past_of(after, other) + len - 1) / len; page++)
            if (table[other * count + page] == table[b * count + end / len])
                return violated(m, "cache_move: sequences %zu and %zu share a page that the former will write to", b,
                                other);
    return true;
}

/* Number of pages that a move copies: for all but one of the sequences whose next token goes to the same page, or for
 * all of them if another sequence has filled it. */
static size_t copies_of(const struct moving *m)
{
    const size_t len = (size_t)m->layer->page_len, count = (size_t)m->layer->page_count;
    const int32_t *table = m->before.tensor[TENSOR_PAGE_TABLE];
    size_t copies = 0;
    for (size_t page = 0; is_paged(m) && page < m->before.pages; page++) {
        size_t writers = 0, readers = 0;
        for (size_t b = 0; b < BATCH; b++) {
            const size_t from = (size_t)m->wanted[b], end = m->wanted[b] < 0 ? 0 : (size_t)past_of(&m->before, from);
            for (size_t i = 0; i * len < end; i++)
                if (table[from * count + i] == (int32_t)page)
                    *((i + 1) * len > end ? &writers : &readers) += 1;
        }
        copies += readers > 0 ? writers : writers > 0 ? writers - 1 : 0;
    }
    return copies;
}

static bool moved_right(struct moving *m, const struct kernel_cache *cache)
{
    struct inputs after = m->before;
    for (int part = 0; part < inputs_cache_parts(m->layer); part++)
        after.tensor[inputs_cache_of(m->layer, part)] = m->cache[part].data;
    after.tensor[TENSOR_PAST] = m->past.data;
    after.tensor[TENSOR_PAGE_TABLE] = is_paged(m) ? m->table.data : NULL;
    const size_t taken = m->free_count - cache->free_count, copies = copies_of(m);
    bool good = taken == copies || violated(m, "cache_move: takes %zu free pages, not %zu", taken, copies);
    for (size_t b = 0; good && b < BATCH; b++) {
        const int32_t length = m->wanted[b] < 0 ? 0 : past_of(&m->before, (size_t)m->wanted[b]);
        if (past_of(&after, b) != length)
            return violated(m, "cache_move: sequence %zu has %d tokens, not %d", b, (int)past_of(&after, b),
                            (int)length);
        good = m->wanted[b] < 0 || rows_are_right(m, &after, b, (size_t)m->wanted[b]);
    }
    for (size_t b = 0; good && b < BATCH; b++)
        good = page_is_own(m, &after, b);
    return good;
}

static bool moves(struct moving *m)
{
    for (size_t turn = 0; turn < TURNS; turn++) {
        prepare(m);
        draw_from(m, turn);
        if (turn % 2 == 1) /* just enough */
            m->free_count = min_size(m->free_count, copies_of(m));
        struct kernel_cache cache = cache_of(m);
        if (!returned(m, m->call->cache_move(&cache, m->from.data), KERNEL_OK, "cache_move") ||
            !zones_intact(m, "cache_move") || !moved_right(m, &cache))
            return false;
    }
    return true;
}

/* ---- emptying ---------------------------------------------------------------------------------------------------- */

static bool resets(struct moving *m)
{
    prepare(m);
    memset(m->past.data, 0x80, BATCH * sizeof(int32_t)); /* like uninitialised memory */
    const struct kernel_cache cache = cache_of(m);
    if (!returned(m, m->call->cache_reset(&cache), KERNEL_OK, "cache_reset"))
        return false;
    bool zero = true;
    for (int part = 0; part < inputs_cache_parts(m->layer); part++)
        for (size_t i = 0; i < m->cache[part].bytes; i++)
            zero = zero && ((const unsigned char *)m->cache[part].data)[i] == 0;
    for (size_t b = 0; b < BATCH; b++)
        zero = zero && ((const int32_t *)m->past.data)[b] == 0;
    return zones_intact(m, "cache_reset") && (zero || violated(m, "cache_reset: something is not zero"));
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

/* A call of both functions, or of the move alone */
struct moving_call {
    struct moving *m;
    struct kernel_cache cache;
    const void *of; /* &cache */
    void *from;
    bool of_reset;
};

static uint64_t hash_of(const struct moving *m)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < GIVEN; i++)
        for (size_t at = 0; at < m->given[i].bytes; at++)
            hash = (hash ^ ((const unsigned char *)m->given[i].data)[at]) * 0x100000001b3u;
    return hash;
}

static bool move_refused(void *context, int expected, const char *what)
{
    struct moving_call *c = context;
    struct moving *m = c->m;
    const char *const names[] = {"cache_move", "cache_reset"};
    const uint64_t hash = hash_of(m);
    for (int reset = 0; reset <= c->of_reset; reset++) {
        const int error = reset ? m->call->cache_reset(c->of) : m->call->cache_move((void *)(uintptr_t)c->of, c->from);
        if (!returned(m, error, expected, "%s, %s:", names[reset], what))
            return false;
    }
    return hash_of(m) == hash || violated(m, "cache_move or cache_reset, %s: refused, but something was written", what);
}

static bool refused(struct moving *m, struct kernel_cache cache, int expected, bool of_reset, const char *what)
{
    struct moving_call call = {m, cache, &call.cache, m->from.data, of_reset};
    return move_refused(&call, expected, what);
}

/* Each pointer NULL, or off its boundary */
static bool refuses_pointers(struct moving *m)
{
    const size_t number = sizeof(int32_t);
    struct moving_call call = {m, cache_of(m), &call.cache, m->from.data, true};
    struct kernel_cache *c = &call.cache;
    const struct misuse from = {"from", &call.from, number, MISUSE_NEEDED};
    struct misuse rows[7] = {
        {"k", &c->k, layer_tensor_size(m->layer, inputs_cache_of(m->layer, 0)), MISUSE_NEEDED},
        {"past", &c->past, number, MISUSE_NEEDED}};
    size_t count = 2;
    if (!m->layer->shares)
        rows[count++] = (struct misuse){"v", &c->v, layer_tensor_size(m->layer, inputs_cache_of(m->layer, 1)),
                                        MISUSE_NEEDED};
    if (is_paged(m)) {
        rows[count++] = (struct misuse){"page_table", &c->page_table, number, MISUSE_NEEDED};
        rows[count++] = (struct misuse){"free_pages", &c->free_pages, number,
                                        c->free_count == 0 ? MISUSE_OPTIONAL : MISUSE_NEEDED};
    }
    if (layer_scales_cache(m->layer)) {
        rows[count++] = (struct misuse){"k_scale", &c->k_scale, sizeof(float), MISUSE_NEEDED};
        if (!m->layer->shares)
            rows[count++] = (struct misuse){"v_scale", &c->v_scale, sizeof(float), MISUSE_NEEDED};
    }
    if (!misuse_refused(rows, count, move_refused, &call))
        return false;
    call.of = NULL;
    if (!move_refused(&call, KERNEL_NULL, "cache = NULL"))
        return false;
    call.of = c;
    c->batch = SIZE_MAX;
    if (!move_refused(&call, KERNEL_SIZE, "a huge batch"))
        return false;
    *c = cache_of(m);
    c->pages = SIZE_MAX;
    if (is_paged(m) && !move_refused(&call, KERNEL_SIZE, "pages = SIZE_MAX"))
        return false;
    *c = cache_of(m);
    call.of_reset = false;
    return misuse_refused(&from, 1, move_refused, &call);
}

/* Two sequences that share a partly filled page before the call. */
static bool refuses_shared(struct moving *m)
{
    const size_t count = (size_t)m->layer->page_count;
    int32_t *past = m->past.data, *table = m->table.data;
    size_t a = 0;
    while (a < BATCH && past[a] % m->layer->page_len == 0)
        a++;
    if (a == BATCH)
        return true;
    const size_t b = (a + 1) % BATCH;
    past[b] = past[a];
    memcpy(table + b * count, table + a * count, count * sizeof *table);
    draw_from(m, 0);
    struct kernel_cache cache = cache_of(m);
    cache.free_count = 0;
    return refused(m, cache, KERNEL_SIZE, false, "a partly filled page that two sequences have already");
}

/* An invalid page number, the last one of a sequence */
static bool refuses_pages(struct moving *m, struct kernel_cache cache)
{
    const int32_t *past = m->past.data;
    size_t b = 0;
    while (b < BATCH && past[b] == 0)
        b++;
    if (b == BATCH)
        return true;
    int32_t *const page = (int32_t *)m->table.data + b * (size_t)m->layer->page_count +
                          ((size_t)past[b] - 1) / (size_t)m->layer->page_len;
    const int32_t kept = *page;
    bool good = true;
    for (int below = 0; good && below < 2; below++) {
        *page = below ? -1 : (int32_t)cache.pages;
        good = refused(m, cache, KERNEL_LENGTH, false, "a page number that is none");
    }
    *page = kept;
    return good;
}

static bool refuses(struct moving *m)
{
    prepare(m);
    draw_from(m, 3); /* copies of one sequence */
    struct kernel_cache cache = cache_of(m);
    const struct kernel_cache good = cache;
    int32_t *from = m->from.data, *past = m->past.data, kept;
    if (!refuses_pointers(m))
        return false;
    m->wanted[BATCH - 1] = from[BATCH - 1] = BATCH;
    if (!refused(m, good, KERNEL_LENGTH, false, "from[b] = batch"))
        return false;
    draw_from(m, 3);
    kept = past[BATCH - 1];
    past[BATCH - 1] = -1;
    if (!refused(m, good, KERNEL_LENGTH, false, "a past of -1"))
        return false;
    past[BATCH - 1] = (int32_t)(m->layer->cache_len + 1);
    if (m->layer->cache != CACHE_RING && !refused(m, good, KERNEL_LENGTH, false, "a past beyond the cache's end"))
        return false;
    past[BATCH - 1] = kept;
    if (!is_paged(m))
        return true;
    if (!refuses_pages(m, good))
        return false;
    cache.free_count = 0;
    const bool partly = past[m->wanted[0]] % m->layer->page_len != 0;
    if (partly && !refused(m, cache, KERNEL_SIZE, false, "no free page for a copy"))
        return false;
    if (!refuses_shared(m))
        return false;
    ((int32_t *)m->free_pages.data)[0] = (int32_t)good.pages;
    return m->free_count == 0 || refused(m, good, KERNEL_LENGTH, false, "a free page that is none");
}

bool moving_holds(struct trial *t)
{
    struct moving m = {.call = t->call, .layer = t->layer, .random = {t->seed ^ 0x6D6F7665}, .why = t->why};
    const struct inputs_draw draw = {.seed = t->seed, .batch = BATCH, .n = 1, .m = 1, .past_most = MOST};
    if (!layer_has_cache(t->layer) || m.call->cache_move == NULL || m.call->cache_reset == NULL)
        return true;
    inputs_draw(&m.before, t->layer, &draw, t->in);
    add_pages(&m);
    const bool good = moves(&m) && resets(&m) && refuses(&m);
    release(&m);
    inputs_free(&m.before);
    return good;
}
