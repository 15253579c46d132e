/* SPDX-License-Identifier: MIT */
/* The keys as a table, with the words that some take besides numbers. */
#include "plan/request.h"

#include <inttypes.h>
#include <string.h>

#include "base/arith.h"
#include "base/diag.h"
#include "base/nearest.h"
#include "base/number.h"

static const struct {
    const char *name;
    uint64_t low, high; /* range of legal numbers; empty when high < low */
    const char *legal;
    const char *words[2]; /* that stand for 0 and 1 */
} keys[PLAN_KEYS] = {
    [PLAN_UNROLL] = {"plan.unroll", 1, 4096, "auto, full or 1 ... 4096 steps", {"full"}},
    [PLAN_QUERY_VECS] = {"plan.query_vecs", 1, 4, "auto or 1 ... 4 vectors", {NULL}},
    [PLAN_KEY_BLOCK] = {"plan.key_block", 1, 65536, "auto or 1 ... 65536 keys", {NULL}},
    [PLAN_DEPTH_SLAB] = {"plan.depth_slab", 1, 1 << 20, "auto or 1 ... 1048576 features", {NULL}},
    [PLAN_FOLD] = {"plan.fold", 1, 0, "auto, on or off", {"off", "on"}},
    [PLAN_PREFETCH] = {"plan.prefetch", 1, 0, "auto, on or off", {"off", "on"}},
    [PLAN_VALUE_LAYOUT] = {"plan.value_layout", 1, 0, "auto, rows or blocks", {"rows", "blocks"}},
    [PLAN_Z_LAYOUT] = {"plan.z_layout", 1, 0, "auto, rows or blocks", {"rows", "blocks"}},
    [PLAN_GROUP_ROWS] = {"plan.group_rows", 1, 1 << 20, "auto or 1 ... 1048576 rows", {NULL}},
    [PLAN_PANEL_VECS] = {"plan.panel_vecs", 1, 4, "auto or 1 ... 4 vectors", {NULL}},
    [PLAN_PANEL_ROWS] = {"plan.panel_rows", 1, 16, "auto or 1 ... 16 rows", {NULL}},
    [PLAN_PANEL_DEPTH] = {"plan.panel_depth", 8, 1 << 20, "auto or 8 ... 1048576 steps", {NULL}},
    [PLAN_LANE_ROWS] = {"plan.lane_rows", 1, 16, "auto or 1 ... 16 rows", {NULL}},
    [PLAN_SCORE_ROWS] = {"plan.score_rows", 1, 16, "auto or 1 ... 16 rows", {NULL}},
    [PLAN_VALUE_ROWS] = {"plan.value_rows", 1, 16, "auto or 1 ... 16 rows", {NULL}},
    [PLAN_BATCH_ROWS] = {"plan.batch_rows", 1, 256, "auto or 1 ... 256 tokens", {NULL}},
    [PLAN_SOFTMAX] = {"plan.softmax", 1, 0, "auto, one_pass or two_pass", {"one_pass", "two_pass"}},
    [PLAN_SIZE] = {"plan.size", 1, 0, "auto, fast or small", {"fast", "small"}},
    [PLAN_TYPICAL_N] = {"plan.typical_n", 1, INT32_MAX, "auto or 1 ... 2147483647 queries", {NULL}},
    [PLAN_TYPICAL_M] = {"plan.typical_m", 1, INT32_MAX, "auto or 1 ... 2147483647 keys", {NULL}},
    [PLAN_SAVED] = {"plan.saved", 1, 0, "auto, projections or z", {"z", "projections"}},
    [PLAN_EXACT_CHUNKS] = {"plan.exact_chunks", 1, 0, "auto, true or false", {"false", "true"}},
    [PLAN_PRODUCT_KIND] = {"plan.products", 1, 0, "auto, classical or fast", {"classical", "fast"}},
    [PLAN_LATENT] = {"plan.latent", 1, 0, "auto, absorbed or expanded", {"absorbed", "expanded"}},
};

struct plan_request plan_request_none(void)
{
    struct plan_request none;
    for (int key = 0; key < PLAN_KEYS; key++)
        none.value[key] = PLAN_AUTO;
    return none;
}

const char *plan_key_name(enum plan_key key)
{
    return keys[key].name;
}

bool plan_key_common(enum plan_key key)
{
    return key == PLAN_FOLD || key == PLAN_LATENT;
}

enum plan_key plan_key_find(const char *name, const char *place, struct diag *diag)
{
    char known[600] = "the plan knows ", meant[NEAREST_TEXT];
    const size_t prefix = strncmp(name, "plan.", 5) == 0 ? 5 : 0; /* common to all, so not compared */
    struct nearest nearest = nearest_to(name + prefix, strlen(name + prefix));
    nearest.before = "plan.";
    for (int key = 0; key < PLAN_KEYS; key++)
        if (strcmp(name, keys[key].name) == 0)
            return (enum plan_key)key;
    for (int key = 0; key < PLAN_KEYS; key++) {
        strcat(known, key > 0 ? ", " : "");
        strcat(known, keys[key].name);
        nearest_offer(&nearest, keys[key].name + 5);
    }
    diag_error(diag, place, "unknown key '%s'; %s", name, nearest_ask(&nearest, meant, known));
    return PLAN_KEYS;
}

bool plan_value_read(struct plan_request *request, enum plan_key key, const char *text, const char *place,
                     struct diag *diag)
{
    struct nearest nearest = nearest_to(text, strlen(text));
    uint64_t number;
    request->value[key] = PLAN_AUTO;
    if (strcmp(text, "auto") == 0)
        return true;
    for (int word = 0; word < 2 && keys[key].words[word] != NULL; word++) {
        nearest_offer(&nearest, keys[key].words[word]);
        if (strcmp(text, keys[key].words[word]) == 0) {
            request->value[key] = word;
            return true;
        }
    }
    if (!number_whole(text, strlen(text), keys[key].low, keys[key].high, &number)) {
        char meant[NEAREST_TEXT];
        return diag_error(diag, place, "%s = %s is not a legal value; write %s%s", keys[key].name, text,
                          keys[key].legal, nearest_add(&nearest, meant));
    }
    request->value[key] = (int64_t)number;
    return true;
}

const char *plan_value_text(enum plan_key key, int64_t value, char text[24])
{
    snprintf(text, 24, "%" PRId64, value);
    if (value == PLAN_AUTO)
        strcpy(text, "auto");
    else if (value < 2 && keys[key].words[value] != NULL)
        strcpy(text, keys[key].words[value]);
    return text;
}

void plan_request_add(struct plan_request *request, const struct plan_request *more)
{
    for (int key = 0; key < PLAN_KEYS; key++)
        if (request->value[key] == PLAN_AUTO)
            request->value[key] = more->value[key];
}

void plan_request_part(struct plan_request *request, struct plan_request *common)
{
    for (int key = 0; key < PLAN_KEYS; key++)
        if (plan_key_common((enum plan_key)key)) {
            common->value[key] = request->value[key];
            request->value[key] = PLAN_AUTO;
        }
}

int plan_request_keys(const struct plan_request *request)
{
    int count = 0;
    for (int key = 0; key < PLAN_KEYS; key++)
        count += request->value[key] != PLAN_AUTO;
    return count;
}

void plan_request_print(const struct plan_request *request, FILE *out)
{
    const char *joint = "";
    for (int key = 0; key < PLAN_KEYS; key++) {
        char text[24];
        if (request->value[key] == PLAN_AUTO)
            continue;
        fprintf(out, "%s%s = %s", joint, keys[key].name,
                plan_value_text((enum plan_key)key, request->value[key], text));
        joint = ", ";
    }
}

bool request_asks(const struct plan_request *request, enum plan_key key)
{
    return request->value[key] != PLAN_AUTO;
}

/* What is asked for, or else what the model says. */
int64_t request_or(const struct plan_request *request, enum plan_key key, int64_t otherwise)
{
    return request_asks(request, key) ? request->value[key] : otherwise;
}

/* The same for something of which no more than `fit` is possible. */
int64_t request_within(const struct plan_request *request, enum plan_key key, int64_t fit)
{
    return min(request_or(request, key, fit), fit);
}

bool request_is_small(const struct plan_request *request)
{
    return request->value[PLAN_SIZE] == PLAN_SMALL;
}
