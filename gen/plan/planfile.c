/* SPDX-License-Identifier: MIT */
/* Reading is strict: what is unknown, twice, missing or of another layer is an error at its line. */
#include "plan/planfile.h"

#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/memory.h"
#include "spec/layer.h"
#include "spec/spec.h"

#define FORMAT "1"
#define MAX_LINE 2048
#define BLANKS " \t\r"

_Static_assert(PLAN_SPEC < MAX_LINE && PLAN_TEXT < MAX_LINE, "what is written can be read");

/* ---- the layer as a line ---- */

/* The value of `key` in such a line, and its length; NULL if it is not there. */
static const char *find_word(const char *line, const char *key, size_t key_length, size_t *length)
{
    for (line += strspn(line, " "); *line != '\0'; line += strcspn(line, " "), line += strspn(line, " "))
        if (strncmp(line, key, key_length) == 0 && line[key_length] == '=') {
            line += key_length + 1;
            *length = strcspn(line, " ");
            return line;
        }
    return NULL;
}

/* "h=12, here h=8; d_k=64, here d_k=96" */
static void list_differences(const char *theirs, const char *ours, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (const char *word = ours; *word != '\0' && used < size; word += strcspn(word, " "), word += strspn(word, " ")) {
        const size_t key = strcspn(word, "="), whole = strcspn(word, " ");
        size_t length;
        const char *value = find_word(theirs, word, key, &length);
        if (value != NULL && length == whole - key - 1 && strncmp(value, word + key + 1, length) == 0)
            continue;
        used += value != NULL
              ? (size_t)snprintf(text + used, size - used, "%s%.*s=%.*s, here %.*s", used > 0 ? "; " : "", (int)key,
                                 word, (int)length, value, (int)whole, word)
              : (size_t)snprintf(text + used, size - used, "%sno %.*s, here %.*s", used > 0 ? "; " : "", (int)key, word,
                                 (int)whole, word);
    }
    for (const char *word = theirs; *word != '\0' && used < size;
         word += strcspn(word, " "), word += strspn(word, " ")) {
        size_t length;
        if (find_word(ours, word, strcspn(word, "="), &length) == NULL)
            used += (size_t)snprintf(text + used, size - used, "%s%.*s, here no %.*s", used > 0 ? "; " : "",
                                     (int)strcspn(word, " "), word, (int)strcspn(word, "= "), word);
    }
}

/* ---- reading ---- */

enum head_key { HEAD_FORMAT, HEAD_SPEC, HEAD_FINGERPRINT, HEAD_KEYS };
static const char *const head_names[HEAD_KEYS] = {"format", "spec", "fingerprint"};

struct reader {
    struct plan_file *file;
    struct diag *diag;
    size_t line;
    char place[4096];
    char head[HEAD_KEYS][PLAN_SPEC];
    size_t head_line[HEAD_KEYS];        /* 0: not there yet */
    struct plan_section *section;       /* NULL: before the first */
    struct plan_section nowhere;        /* of an unknown name, or a second one of its name: forgotten */
    const char *section_name;
    size_t cpu_line, compiler_line, plan_line[PLAN_KEYS]; /* of the section, or of the head */
};

static const char *place_at(struct reader *r, size_t line)
{
    snprintf(r->place, sizeof r->place, "%s:%zu", r->file->path, line);
    return r->place;
}

static void duplicate(struct reader *r, const char *what, size_t first)
{
    diag_error(r->diag, place_at(r, r->line), "%s occurs twice, first in line %zu; keep one of them", what, first);
}

/* Keeps a text that may stand once. */
static void keep_text(struct reader *r, const char *key, const char *value, char *text, size_t size, size_t *line)
{
    if (*line != 0) {
        duplicate(r, key, *line);
        return;
    }
    *line = r->line;
    if (*value == '\0' || strlen(value) >= size)
        diag_error(r->diag, place_at(r, r->line), "%s needs a value of 1 to %zu bytes", key, size - 1);
    else
        strcpy(text, value);
}

static void read_plan_key(struct reader *r, const char *name, const char *value)
{
    const char *place = place_at(r, r->line);
    const enum plan_key key = plan_key_find(name, place, r->diag);
    if (key == PLAN_KEYS)
        return;
    if (r->plan_line[key] != 0)
        duplicate(r, name, r->plan_line[key]);
    else if (key == PLAN_EXACT_CHUNKS) /* layer_exact_chunks() */
        diag_error(r->diag, place, "%s says which bits a layer has, not how fast it is; write it into the spec", name);
    else if (r->section != NULL && plan_key_common(key))
        diag_error(r->diag, place, "%s holds for all instruction sets; write it before the first section", name);
    else if (r->section == NULL && !plan_key_common(key))
        diag_error(r->diag, place, "%s is decided for each instruction set; write it into a section, such as [avx2]",
                   name);
    else
        plan_value_read(r->section != NULL ? &r->section->request : &r->file->common, key, value, place, r->diag);
    r->plan_line[key] = r->line;
}

static void read_pair(struct reader *r, const char *key, const char *value)
{
    if (strncmp(key, "plan.", 5) == 0) {
        read_plan_key(r, key, value);
        return;
    }
    for (int i = 0; r->section == NULL && i < HEAD_KEYS; i++)
        if (strcmp(key, head_names[i]) == 0) {
            keep_text(r, key, value, r->head[i], sizeof r->head[i], &r->head_line[i]);
            return;
        }
    if (r->section != NULL && strcmp(key, "cpu") == 0)
        keep_text(r, key, value, r->section->cpu, sizeof r->section->cpu, &r->cpu_line);
    else if (r->section != NULL && strcmp(key, "compiler") == 0)
        keep_text(r, key, value, r->section->compiler, sizeof r->section->compiler, &r->compiler_line);
    else
        diag_error(r->diag, place_at(r, r->line), "unknown key '%s'; %s", key, r->section != NULL
                   ? "a section has cpu, compiler and keys of the plan, such as plan.unroll"
                   : "only format, spec, fingerprint and plan.fold may come before the first section");
}

/* Reports what the section that ends here lacks. */
static void end_section(struct reader *r)
{
    if (r->section == NULL || r->section == &r->nowhere)
        return;
    if (r->cpu_line == 0)
        diag_error(r->diag, place_at(r, r->section->line), "[%s] has no cpu; write the one that it was measured on",
                   r->section_name);
    if (r->compiler_line == 0)
        diag_error(r->diag, place_at(r, r->section->line), "[%s] has no compiler; write the one that it was measured "
                   "with", r->section_name);
}

static void begin_section(struct reader *r, const char *name)
{
    const struct isa *isa = isa_find(name);
    end_section(r);
    r->cpu_line = r->compiler_line = 0;
    memset(r->plan_line, 0, sizeof r->plan_line);
    r->section = &r->nowhere;
    if (isa == NULL) {
        const struct nearest nearest = isa_nearest(name, strlen(name));
        char meant[NEAREST_TEXT];
        diag_error(r->diag, place_at(r, r->line), "unknown instruction set '%s'; %s", name,
                   nearest_ask(&nearest, meant, "attngen --help lists those it knows"));
        return;
    }
    struct plan_section *section = &r->file->isa[isa - isa_table];
    if (section->line != 0)
        duplicate(r, name, section->line);
    else
        *(r->section = section) = (struct plan_section){.line = r->line, .request = plan_request_none()};
    r->section_name = isa->name;
}

/* Cuts blanks off both ends. */
static char *trim(char *text)
{
    text += strspn(text, BLANKS);
    size_t length = strlen(text);
    while (length > 0 && strchr(BLANKS, text[length - 1]) != NULL)
        text[--length] = '\0';
    return text;
}

static void read_line(struct reader *r, char *line)
{
    line[strcspn(line, "#\n")] = '\0';
    line = trim(line);
    const size_t length = strlen(line);
    char *equals = strchr(line, '=');
    if (length == 0)
        return;
    if (line[0] == '[' && line[length - 1] == ']') {
        line[length - 1] = '\0';
        begin_section(r, trim(line + 1));
    } else if (equals == NULL) {
        diag_error(r->diag, place_at(r, r->line), "neither 'key = value' nor '[instruction set]'");
    } else {
        *equals = '\0';
        read_pair(r, trim(line), trim(equals + 1));
    }
}

static void read_lines(struct reader *r, char *text, size_t length)
{
    const char *end = text + length;
    for (r->line = 1; text < end; r->line++) {
        char *newline = memchr(text, '\n', (size_t)(end - text));
        const size_t count = (size_t)((newline != NULL ? newline : end) - text);
        if (count >= MAX_LINE - 1 || memchr(text, '\0', count) != NULL) {
            diag_error(r->diag, place_at(r, r->line), "a zero byte, or a line of %d bytes and more; this is no plan "
                       "file", MAX_LINE - 1);
            return;
        }
        text[count] = '\0';
        read_line(r, text);
        text += count + 1;
    }
    end_section(r);
}

/* Reports a head that is incomplete or of another layer. */
static void check_head(struct reader *r, const struct layer *layer)
{
    const char *path = r->file->path, *theirs = r->head[HEAD_SPEC];
    char fingerprint[17], differences[2 * PLAN_SPEC];
    for (int i = 0; i < HEAD_KEYS; i++)
        if (r->head_line[i] == 0) {
            diag_error(r->diag, path, "has no %s; attnrun tune writes one", head_names[i]);
            return;
        }
    if (strcmp(r->head[HEAD_FORMAT], FORMAT) != 0) {
        diag_error(r->diag, place_at(r, r->head_line[HEAD_FORMAT]), "format = %s is not known; this attngen reads %s",
                   r->head[HEAD_FORMAT], FORMAT);
        return;
    }
    spec_fingerprint(theirs, fingerprint);
    if (strcmp(r->head[HEAD_FINGERPRINT], fingerprint) != 0) {
        diag_error(r->diag, place_at(r, r->head_line[HEAD_FINGERPRINT]),
                   "fingerprint = %s, but that of the line 'spec' is %s: one was changed; attnrun tune writes both",
                   r->head[HEAD_FINGERPRINT], fingerprint);
        return;
    }
    if (layer != NULL)
        list_differences(theirs, layer->steering, differences, sizeof differences);
    if (layer != NULL && differences[0] != '\0') {
        diag_error(r->diag, place_at(r, r->head_line[HEAD_SPEC]),
                   "the plan is for another layer: %s; tune this one, attnrun tune SPEC -o FILE", differences);
    }
    bool any = false;
    for (size_t i = 0; i < isa_count; i++)
        any = any || r->file->isa[i].line != 0;
    if (!any)
        diag_error(r->diag, path, "has no section; write one for each instruction set, for example [avx2]");
}

struct plan_file plan_file_empty(void)
{
    struct plan_file file = {.common = plan_request_none()};
    for (size_t i = 0; i < ISAS; i++)
        file.isa[i].request = plan_request_none();
    return file;
}

bool plan_file_read(struct plan_file *file, const char *path, const struct layer *layer, struct diag *diag)
{
    const size_t before = diag->errors;
    HEAP struct reader *r = memory_get(1, sizeof *r);
    size_t length;
    HEAP char *text = file_read(path, WHOLE_PLAN, &length, diag);
    *file = plan_file_empty();
    file->path = path;
    if (text != NULL) {
        r->file = file;
        r->diag = diag;
        read_lines(r, text, length);
        if (diag->errors == before)
            check_head(r, layer);
    }
    return diag->errors == before;
}

/* ---- warning and writing ---- */

void plan_file_warn(const struct plan_file *file, unsigned isas, const char *cpu, const char *compiler, FILE *out)
{
    for (size_t i = 0; i < isa_count; i++) {
        const struct plan_section *s = &file->isa[i];
        if ((isas >> i & 1u) == 0 || s->line == 0)
            continue;
        if (cpu[0] != '\0' && strcmp(s->cpu, cpu) != 0)
            fprintf(out, "%s:%zu: warning: the %s plan was measured on '%s', this is '%s': as right here, maybe not as "
                    "fast\n", file->path, s->line, isa_table[i].name, s->cpu, cpu);
        if (compiler != NULL && strcmp(s->compiler, compiler) != 0)
            fprintf(out, "%s:%zu: warning: the %s plan was measured with '%s', this is '%s': as right here, maybe not "
                    "as fast\n", file->path, s->line, isa_table[i].name, s->compiler, compiler);
    }
}

static void print_request(const struct plan_request *request, FILE *out)
{
    char text[24];
    for (int key = 0; key < PLAN_KEYS; key++)
        if (request->value[key] != PLAN_AUTO)
            fprintf(out, "%s = %s\n", plan_key_name((enum plan_key)key),
                    plan_value_text((enum plan_key)key, request->value[key], text));
}

void plan_file_print(const struct plan_file *file, const struct layer *layer, FILE *out)
{
    char fingerprint[17];
    spec_fingerprint(layer->steering, fingerprint);
    fprintf(out, "format = %s\nspec = %s\nfingerprint = %s\n", FORMAT, layer->steering, fingerprint);
    print_request(&file->common, out);
    for (size_t i = 0; i < isa_count; i++)
        if (file->isa[i].line != 0) {
            fprintf(out, "\n[%s]\ncpu = %s\ncompiler = %s\n", isa_table[i].name, file->isa[i].cpu,
                    file->isa[i].compiler);
            print_request(&file->isa[i].request, out);
        }
}

void plan_text(char text[PLAN_TEXT], const char *name)
{
    size_t used = 0;
    name += strspn(name, BLANKS);
    for (; *name != '\0' && *name != '\n' && used < PLAN_TEXT - 1; name++) {
        const unsigned char c = (unsigned char)*name;
        text[used++] = c == '#' || c < ' ' || c == 127 ? ' ' : *name;
    }
    text[used] = '\0';
    while (used > 0 && text[used - 1] == ' ')
        text[--used] = '\0';
}

void plan_this_cpu(char text[PLAN_TEXT])
{
    static const char key[] = "model name";
    char line[MAX_LINE];
    FILE *in = fopen("/proc/cpuinfo", "re");
    text[0] = '\0';
    while (in != NULL && text[0] == '\0' && fgets(line, sizeof line, in) != NULL) {
        const char *colon = strchr(line, ':');
        if (colon != NULL && strncmp(line, key, sizeof key - 1) == 0)
            plan_text(text, colon + 1);
    }
    if (in != NULL)
        fclose(in);
}
