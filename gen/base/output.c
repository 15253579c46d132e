/* SPDX-License-Identifier: MIT */
#include "base/output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/diag.h"
#include "base/memory.h"
#include "base/replace.h"
#include "base/system.h"

const char output_number[] = "0x@attngen's.pair@";

/* FNV-1a */
void output_number_pair(struct output *output)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    char number[sizeof output_number];
    for (size_t i = 0; i < output->count; i++)
        for (size_t at = 0; at < output->files[i].length; at++)
            hash = (hash ^ (unsigned char)output->files[i].text[at]) * UINT64_C(0x100000001b3);
    snprintf(number, sizeof number, "0x%016" PRIx64, hash);
    for (size_t i = 0; i < output->count; i++)
        for (char *at = output->files[i].text; (at = strstr(at, output_number)) != NULL;)
            memcpy(at, number, sizeof number - 1);
}

void output_add(struct output *output, const char *folder, const char *name, const char *ending,
                char *text, size_t length)
{
    const char *slash = folder != NULL && folder[strlen(folder) - 1] != '/' ? "/" : "";
    output->files = memory_grow(output->files, output->count + 1, sizeof *output->files);
    output->files[output->count++] = (struct output_file){
        text_join("%s%s%s%s", folder != NULL ? folder : "", slash, name, ending), text, length};
}

const char *output_shared_path(const struct output *one, const struct output *other)
{
    for (size_t i = 0; i < one->count; i++)
        for (size_t j = 0; j < other->count; j++)
            if (strcasecmp(one->files[i].path, other->files[j].path) == 0)
                return one->files[i].path;
    return NULL;
}

/* ---- rules ---- */

/* The first character of a path that Make, Ninja or CMake reads otherwise, however it is written; NULL: none. Make
 * expands ~ where a name begins, and at its end takes a ) for an archive's member, and no blank; Ninja takes
 * a : there for its own, and keeps what escapes a backslash before # : $. */
static const char *unspelled(const char *path)
{
    for (const char *c = path; *c != '\0'; c++)
        if (*c == 127 || (unsigned char)*c < ' ' || strchr(";|=%*?[<>^\"'&`", *c) != NULL ||
            (*c == '\\' && strchr("#:$", c[1]) != NULL) || /* or at the end */
            (c[1] == '\0' && strchr(") :", *c) != NULL) || (*c == '~' && (c == path || c[-1] == '/')))
            return c;
    return NULL;
}

bool output_paths_spelled(const char *const *paths, size_t count, struct diag *diag)
{
    for (size_t i = 0; i < count; i++) {
        const char *const odd = unspelled(paths[i]);
        if (odd != NULL)
            return diag_error(diag, paths[i], "Make, Ninja or CMake would misread the %s of this path in the rules of "
                              "--deps; rename what has it, or leave --deps out",
                              *odd < ' ' || *odd == 127 ? "control character" : (const char[]){*odd, '\0'});
    }
    return true;
}

/* Writes a path as Make, Ninja and CMake read it: backslashes count double, but only before a space. */
static void print_path(FILE *out, const char *path)
{
    for (const char *c = path; *c != '\0'; c++) {
        if (*c == '\\' ? c[strspn(c, "\\")] == ' ' : strchr(" #:", *c) != NULL)
            putc('\\', out);
        else if (*c == '$')
            putc('$', out);
        putc(*c, out);
    }
}

void output_print_rule(const struct output *output, const char *const *sources, size_t count,
                       const char *const *templates, size_t template_count, FILE *out)
{
    for (size_t i = 0; i < output->count; i++) {
        print_path(out, output->files[i].path);
        fputs(i + 1 < output->count ? " " : ":", out);
    }
    for (size_t i = 0; i < count; i++) {
        putc(' ', out);
        print_path(out, sources[i]);
    }
    for (size_t i = 0; i < template_count; i++) {
        fputs(" \\\n ", out);
        print_path(out, templates[i]);
    }
    putc('\n', out);
    for (size_t i = 0; i < template_count; i++) {
        print_path(out, templates[i]);
        fputs(":\n", out);
    }
}

/* ---- files ---- */

static bool make_folder(const char *folder, struct diag *diag)
{
    const int error = system_make_folders(folder, 0777);
    if (error != 0)
        diag_environment(diag, folder, error == EEXIST ? "is a file; name a folder" : "cannot be made a folder: %s",
                         strerror(error));
    return error == 0;
}

void output_write(const struct output *outputs, size_t count, const char *folder, const char *deps, const char *rules,
                  struct diag *diag)
{
    size_t used = 0, all = 1;
    for (size_t p = 0; p < count; p++)
        all += outputs[p].count;
    struct file_text *files = memory_get(all, sizeof *files);
    for (size_t p = 0; p < count; p++)
        for (size_t i = 0; i < outputs[p].count; i++) {
            const struct output_file *f = &outputs[p].files[i];
            files[used++] = (struct file_text){f->path, f->text, f->length};
        }
    if (deps != NULL)
        files[used++] = (struct file_text){deps, rules, strlen(rules)};
    if (folder == NULL || make_folder(folder, diag))
        files_replace(files, used, false, diag);
    free(files);
}

void output_free(struct output *output)
{
    for (size_t i = 0; i < output->count; i++) {
        free(output->files[i].path);
        free(output->files[i].text);
    }
    free(output->files);
}
