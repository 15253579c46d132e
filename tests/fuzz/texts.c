/* SPDX-License-Identifier: MIT */
/* What else comes as text: plan files and the words of command lines. The first byte says what the rest is:
 *
 *   p  a plan file for the layer below       P  the same, of any layer
 *   i  --isa        v  --vary, one a line    s  --shard     l  --lengths
 *   o  attnrun's command line, a word a line, the command's letter first
 *
 * What is accepted is in its limits and, printed, is read as the same.
 */
#include "fuzz.h"

#include "../../runtime/inputs/inputs.h"
#include "../../runtime/options/options.h"
#include "../../runtime/sweep/vary.h"
#include "plan/isa.h"
#include "plan/plan.h"
#include "plan/planfile.h"

#define MAX_WORDS 16

static const char spec[] = "name = given\nd_model = 64\nh = 4\nattention = cross\nd_source = 48\nseq_len = 20\n"
                           "source_len = 30\nmask = padding+window\nwindow_left = 9\nbias = true\n";

/* ---- plan files ------------------------------------------------------------------------------------------------ */

static bool read_plan(struct plan_file *file, const char *text, size_t length, const struct layer *layer)
{
    struct diag diag = {0};
    const bool good = plan_file_read(file, fuzz_file("fuzz.plan", text, length), layer, &diag);
    fuzz_diag(&diag, good);
    return good;
}

static void try_plan_file(const char *text, size_t length, const struct layer *layer)
{
    struct plan_file file;
    if (!read_plan(&file, text, length, layer) || layer == NULL)
        return;
    struct diag diag = {0};
    struct plan *plan = plan_make_from(layer, isa_all(), &file, &diag);
    REQUIRE(plan != NULL && plan->packed_bytes > 0);
    fuzz_diag(&diag, true);
    plan_free(plan);
    fuzz_reread(&file, layer);
}

/* ---- lists ----------------------------------------------------------------------------------------------------- */

static void try_isas(const char *text)
{
    struct diag diag = {0};
    char names[200];
    const unsigned isas = isa_parse_list(text, &diag);
    REQUIRE((isas & 1) != 0 && (isas & ~isa_all()) == 0);
    fuzz_diag(&diag, diag.errors == 0);
    isa_list_names(names, sizeof names, isas, ",");
    REQUIRE(isa_parse_list(names, &diag) == isas, "%s", names);
    fuzz_diag(&diag, true);
}

/* The lines as words of their own; their number. */
static size_t cut_lines(char *text, const char *line[MAX_WORDS])
{
    size_t count = 0;
    for (char *next; text != NULL && count < MAX_WORDS; text = next) {
        if ((next = strchr(text, '\n')) != NULL)
            *next++ = '\0';
        line[count++] = text;
    }
    return count;
}

static void try_axes(char *text)
{
    const char *line[MAX_WORDS];
    const size_t count = cut_lines(text, line);
    struct axes axes;
    struct diag diag = {0};
    const bool good = axes_parse(&axes, line, count, &diag);
    fuzz_diag(&diag, good);
    size_t points = 1;
    for (size_t i = 0; good && i < axes.count; i++) {
        REQUIRE(axes_find(&axes, axes.axis[i].key) == &axes.axis[i] && axes.axis[i].count > 0);
        points *= axes.axis[i].count;
    }
    REQUIRE(!good || (axes.count == count && axes.points == points && points <= MAX_POINTS));
    for (size_t i = 0; good && i < axes.count; i++) { /* the first, the last, and what lies between at the same place */
        REQUIRE(strcmp(axes_value(&axes, 0, i), axes.axis[i].value[0]) == 0);
        REQUIRE(strcmp(axes_value(&axes, points - 1, i), axes.axis[i].value[axes.axis[i].count - 1]) == 0);
        for (size_t v = 1; v < axes.axis[i].count && v < 50; v++)
            REQUIRE(strcmp(axes.axis[i].value[v], axes.axis[i].value[v - 1]) != 0);
    }
    axes_free(&axes);
}

static void try_shard(const char *text)
{
    size_t shard = 0, shards = 0;
    struct diag diag = {0};
    const bool good = shard_parse(text, &shard, &shards, &diag);
    fuzz_diag(&diag, good);
    REQUIRE(!good || (shard >= 1 && shard <= shards && shards <= MAX_POINTS));
}

static void try_lengths(const char *text, const struct layer *layer)
{
    static const size_t batch = 5;
    int32_t lengths[5] = {-1, -1, -1, -1, -1};
    struct inputs inputs = {.batch = batch, .n = 7, .m = 30, .tensor = {[TENSOR_LENGTHS] = lengths}};
    struct diag diag = {0};
    const bool good = inputs_set_lengths(&inputs, layer, text, &diag);
    fuzz_diag(&diag, good);
    for (size_t b = 0; good && b < batch; b++)
        REQUIRE(lengths[b] >= 0 && lengths[b] <= 30, "%s", text);
}

/* ---- the command line ------------------------------------------------------------------------------------------ */

static void try_options(char *text)
{
    static const struct { char letter; const char *name; } commands[] = {
        {'c', "check"}, {'r', "run"}, {'b', "bench"}, {'s', "sweep"}, {'m', "merge"},
        {'t', "tune"}, {'p', "pack"}, {'f', "selftest"}, {'h', "heatmap"}};
    const char *line[MAX_WORDS];
    char *words[MAX_WORDS + 1] = {0};
    struct options options;
    struct diag diag = {0};
    const size_t count = cut_lines(text, line);
    const struct option_command *command = NULL;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (line[0][0] == commands[i].letter)
            command = options_find(&attnrun_program, commands[i].name);
    if (command == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        words[i] = (char *)line[i];
    const bool good = options_parse(&options, (int)count, words, command, &diag);
    fuzz_diag(&diag, good);
    if (good && !options.help) {
        REQUIRE(options.spec_count > 0 && options.spec_count < count);
        REQUIRE(options.batch <= INT32_MAX || options.batch == UNSET);
        REQUIRE(options.n <= INT32_MAX || options.n == UNSET);
        REQUIRE(options.seconds >= 0 && options.seconds <= 3600 && options.budget >= 0 && options.budget <= 3600);
        REQUIRE((options.vary.count > 0) == (command->bit == COMMAND_SWEEP));
        REQUIRE(options.isa == NULL || options_want_isa(&options, "scalar") == options_name_isa(&options, "scalar"));
    }
    options_free(&options);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct layer *layer;
    if (layer == NULL)
        layer = fuzz_layer(spec);
    if (size == 0)
        return 0;
    char *text = fuzz_text(data + 1, size - 1);
    switch (data[0]) {
    case 'p': try_plan_file(text, size - 1, layer); break;
    case 'P': try_plan_file(text, size - 1, NULL); break;
    case 'i': try_isas(text); break;
    case 'v': try_axes(text); break;
    case 's': try_shard(text); break;
    case 'l': try_lengths(text, layer); break;
    case 'o': try_options(text); break;
    default: break;
    }
    free(text);
    return 0;
}
