/* SPDX-License-Identifier: MIT */
/* See fuzz.h. */
#include "fuzz.h"

#include <math.h>
#include <stdarg.h>
#include <unistd.h>

#include "expression/expression.h"
#include "plan/isa.h"

void fuzz_fail(const char *file, int line, const char *condition, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s:%d: %s does not hold", file, line, condition);
    fputs(format[0] != '\0' ? ": " : "", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

unsigned take(struct bytes *bytes)
{
    return bytes->at < bytes->end ? *bytes->at++ : 0;
}

uint32_t take_word(struct bytes *bytes)
{
    uint32_t word = 0;
    for (int i = 0; i < 4; i++)
        word |= (uint32_t)take(bytes) << (8 * i);
    return word;
}

size_t take_below(struct bytes *bytes, size_t limit)
{
    return (limit > 256 ? take_word(bytes) : take(bytes)) % limit;
}

uint32_t fuzz_hash(const uint8_t *data, size_t size)
{
    uint32_t hash = 2166136261u; /* FNV-1a, and a last mixing */
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ data[i]) * 16777619u;
    return (hash ^ hash >> 15) * 2246822519u >> 7;
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

#define MAX_FILES 8
static char folder[200];
static char paths[MAX_FILES][300];
static int path_count;

static void remove_files(void)
{
    for (int i = 0; i < path_count; i++)
        unlink(paths[i]);
    rmdir(folder);
}

static const char *path_of(const char *name)
{
    if (folder[0] == '\0') {
        const char *parent = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%s/fuzz.XXXXXX", parent != NULL ? parent : "/tmp");
        REQUIRE(mkdtemp(folder) != NULL, "%s cannot be made", folder);
        atexit(remove_files);
    }
    for (int i = 0; i < path_count; i++)
        if (strcmp(paths[i] + strlen(folder) + 1, name) == 0)
            return paths[i];
    REQUIRE(path_count < MAX_FILES);
    snprintf(paths[path_count], sizeof paths[0], "%s/%s", folder, name);
    return paths[path_count++];
}

const char *fuzz_file(const char *name, const void *bytes, size_t size)
{
    const char *path = path_of(name);
    unlink(path); /* a new file; one that is cut would be written to disk as soon as it is closed */
    FILE *out = fopen(path, "wb");
    REQUIRE(out != NULL, "%s cannot be written", path);
    const bool whole = fwrite(bytes, 1, size, out) == size;
    REQUIRE(fclose(out) == 0 && whole);
    return path;
}

char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    REQUIRE(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

/* ---- messages -------------------------------------------------------------------------------------------------- */

static void check_message(const char *message)
{
    REQUIRE(message != NULL);
    const bool has_place = strncmp(message, "error: ", strlen("error: ")) != 0;
    const char *error = has_place ? strstr(message, ": error: ") : message;
    REQUIRE(error != NULL && error[strlen(has_place ? ": error: " : "error: ")] != '\0', "%s", message);
    for (const char *c = message; *c != '\0'; c++)
        REQUIRE((unsigned char)*c >= ' ' || *c == '\n' || *c == '\t', "byte %d of %s", (int)(c - message), message);
}

void fuzz_diag(struct diag *diag, bool good)
{
    REQUIRE(good == (diag->errors == 0), "%s", diag->errors > 0 ? diag->messages[0] : "no message");
    for (size_t i = 0; i < diag->errors && i < DIAG_LIMIT; i++)
        check_message(diag->messages[i]);
    REQUIRE(!diag->environment, "%s", diag->messages[0]); /* nothing here is the machine's fault */
    diag_free(diag);
}

/* ---- layers ---------------------------------------------------------------------------------------------------- */

static bool same_sections(const struct plan_file *a, const struct plan_file *b)
{
    bool same = memcmp(&a->common, &b->common, sizeof a->common) == 0;
    for (size_t i = 0; i < isa_count; i++)
        same = same && (a->isa[i].line != 0) == (b->isa[i].line != 0) && strcmp(a->isa[i].cpu, b->isa[i].cpu) == 0 &&
               strcmp(a->isa[i].compiler, b->isa[i].compiler) == 0 &&
               memcmp(&a->isa[i].request, &b->isa[i].request, sizeof a->isa[i].request) == 0;
    return same;
}

struct plan_file fuzz_reread(const struct plan_file *file, const struct layer *layer)
{
    struct plan_file again;
    struct diag diag = {0};
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    REQUIRE(out != NULL);
    plan_file_print(file, layer, out);
    REQUIRE(fclose(out) == 0);
    const bool good = plan_file_read(&again, fuzz_file("fuzz.plan", text, length), layer, &diag);
    REQUIRE(good, "%s%s", text, diag.messages[0]);
    fuzz_diag(&diag, good);
    REQUIRE(same_sections(file, &again), "%s", text);
    free(text);
    return again;
}

struct layer *fuzz_layer(const char *spec)
{
    struct diag diag = {0};
    struct layer *layer = layer_read(fuzz_file("given.layer", spec, strlen(spec)), NULL, 0, &diag);
    fuzz_diag(&diag, layer != NULL);
    REQUIRE(layer != NULL);
    return layer;
}

static bool same_expression(const struct expression *a, const struct expression *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    if (a->count != b->count || a->root != b->root)
        return false;
    for (int k = 0; k < a->count; k++) { /* all but the column */
        const struct expression_node *x = &a->nodes[k], *y = &b->nodes[k];
        if (x->op != y->op || x->type != y->type || x->a != y->a || x->b != y->b || x->c != y->c || x->table != y->table ||
            x->integer != y->integer || memcmp(&x->number, &y->number, sizeof x->number) != 0)
            return false;
    }
    return true;
}

bool fuzz_same_layer(const struct layer *a, const struct layer *b)
{
    const struct expression *const of[][2] = {
        {a->score, b->score}, {a->visible, b->visible},
        {a->score_kernel, b->score_kernel}, {a->visible_kernel, b->visible_kernel}};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        if (!same_expression(of[i][0], of[i][1]))
            return false;
    const size_t factors = a->rope.factors != NULL ? (size_t)a->rope.dims / 2 * sizeof *a->rope.factors : 0;
    if ((a->rope.factors == NULL) != (b->rope.factors == NULL) || a->rope.dims != b->rope.dims ||
        (factors > 0 && memcmp(a->rope.factors, b->rope.factors, factors) != 0))
        return false;
    struct layer plain[2]; /* without what differs from one reading to the next; calloc made gaps 0 */
    memcpy(&plain[0], a, sizeof *a);
    memcpy(&plain[1], b, sizeof *b);
    for (int i = 0; i < 2; i++) {
        plain[i].name = plain[i].text = plain[i].steering = NULL;
        plain[i].options = NULL;
        plain[i].memory.last = NULL;
        plain[i].rope.factors = NULL;
        plain[i].score = plain[i].visible = plain[i].score_kernel = plain[i].visible_kernel = NULL;
        for (int t = 0; t < LAYER_TABLES; t++)
            plain[i].tables[t].name = NULL;
    }
    return strcmp(a->name, b->name) == 0 && strcmp(a->text, b->text) == 0 &&
           strcmp(a->steering, b->steering) == 0 && memcmp(&plain[0], &plain[1], sizeof *plain) == 0;
}
