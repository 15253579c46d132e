/* SPDX-License-Identifier: MIT */
/* Expressions as anyone may write them. A text is refused with one message that says what would be right, or what was read
 * has values inside its ranges at drawn points, and in the form for kernels the same ones.
 *
 * The first byte says whether it is a score, and where it is computed.
 */
#include "fuzz.h"

#include <math.h>

#include "expression/expression.h"

#define LOG2_E 1.4426950408889634
#define LARGE 1e6 /* up to here values and their terms stay near each other */

static const struct expression_table tables[] = {{"flat", 1, {5}}, {"square", 2, {3, 4}}};
static const float flat[5] = {0, 1, -1, 0.5f, 3}, square[12] = {2, -2, 1, 0.25f, 0, 1, -1, -0.5f, 4, 8, -8, 0};
static const float *const numbers[] = {flat, square};

/* Every node inside its range; false where some value is not finite, or so large that forms may differ. */
static bool check_ranges(const struct expression *e, const union expression_value *values,
                         const struct expression_range *ranges)
{
    bool tame = true;
    for (int i = 0; i < e->count; i++) {
        const struct expression_node *n = &e->nodes[i];
        REQUIRE(n->a <= i && n->b <= i && n->c <= i);
        if (n->type != EXPRESSION_FLOAT) {
            REQUIRE(values[i].integer >= ranges[i].low && values[i].integer <= ranges[i].high, "node %d", i);
        } else {
            const double value = values[i].number;
            REQUIRE(isnan(value) || (value >= ranges[i].least && value <= ranges[i].most), "node %d", i);
            tame = tame && fabs(value) < LARGE;
        }
        const bool decides = n->op >= NODE_EQ && n->op <= NODE_LE && e->nodes[n->a].type == EXPRESSION_FLOAT;
        tame = tame && !decides && n->op != NODE_DIV && n->op != NODE_EXP && n->op != NODE_SQRT;
    }
    return tame;
}

static void check_values(const struct expression *e, const struct expression_point *at)
{
    const struct expression_box box = {.i = {.low = 0, .high = at->i + 1}, .p = {.low = at->p - 3, .high = at->p},
                                       .j = {.low = at->j, .high = at->j + 2}};
    union expression_value *values = malloc((size_t)e->count * sizeof *values);
    struct expression_range *ranges = malloc((size_t)e->count * sizeof *ranges);
    int node;
    REQUIRE(values != NULL && ranges != NULL);
    if (expression_ranges(e, &box, ranges, &node)) {
        expression_evaluate(e, at, values);
        const bool tame = check_ranges(e, values, ranges), score = e->nodes[e->root].type == EXPRESSION_FLOAT;
        struct expression *kernel = expression_for_kernel(e, &box);
        REQUIRE(kernel != NULL);
        const struct expression_point scaled = {at->s * LOG2_E, at->i, at->p, at->j, numbers};
        union expression_value *in_kernel = malloc((size_t)kernel->count * sizeof *in_kernel);
        REQUIRE(in_kernel != NULL);
        expression_evaluate(kernel, &scaled, in_kernel);
        if (tame && score) {
            const double given = values[e->root].number, other = in_kernel[kernel->root].number / LOG2_E;
            REQUIRE(fabs(given - other) < 1e-3, "%g, %g", given, other);
        } else if (tame) {
            REQUIRE(values[e->root].integer == in_kernel[kernel->root].integer);
        }
        free(in_kernel);
        expression_free(kernel);
    } else {
        REQUIRE(node >= 0 && node < e->count && e->nodes[node].type == EXPRESSION_INTEGER);
    }
    free(values);
    free(ranges);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct diag diag = {0};
    char *text = fuzz_text(data + 1, size - 1);
    const struct expression_scope scope = {.score = (data[0] & 1) != 0, .tables = tables, .table_count = 2,
                                           .place = "fuzz.layer:1", .column = 1};
    struct expression *e = expression_read(text, &scope, &diag);
    for (size_t i = 0; i < diag.errors && i < DIAG_LIMIT; i++)
        REQUIRE(strchr(diag.messages[i], ';') != NULL, "no advice: %s", diag.messages[i]);
    REQUIRE(diag.errors <= 1);
    fuzz_diag(&diag, e != NULL);
    if (e != NULL) {
        const struct expression_point at = {(data[0] >> 5) - 3.5, data[0] >> 1 & 3, data[0] >> 3, data[0] >> 2 & 31, numbers};
        check_values(e, &at);
    }
    expression_free(e);
    free(text);
    return 0;
}
