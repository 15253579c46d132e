/* SPDX-License-Identifier: MIT */
/* See output.h. */
#include "output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "diag.h"
#include "replace.h"
#include "system.h"

const char output_number[] = "0x@attngen's.pair@";

/* FNV-1a */
void output_number_pair(struct output *output)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    char number[sizeof output_number];
    for (int i = 0; i < 2; i++)
        for (size_t at = 0; at < output->length[i]; at++)
            hash = (hash ^ (unsigned char)output->text[i][at]) * UINT64_C(0x100000001b3);
    snprintf(number, sizeof number, "0x%016" PRIx64, hash);
    for (int i = 0; i < 2; i++)
        for (char *at = output->text[i]; (at = strstr(at, output_number)) != NULL;)
            memcpy(at, number, sizeof number - 1);
}

bool output_set_paths(struct output *output, const char *folder, const char *name)
{
    static const char *const suffixes[] = {".c", ".h"};
    const char *slash = folder != NULL && folder[strlen(folder) - 1] != '/' ? "/" : "";
    for (int i = 0; i < 2; i++)
        if (asprintf(&output->path[i], "%s%s%s%s", folder != NULL ? folder : "", slash, name, suffixes[i]) < 0) {
            output->path[i] = NULL;
            return false;
        }
    return true;
}

/* ---- rules ---- */

/* Writes a path as Make, Ninja and CMake read it: backslashes count double, but only before what one of them quotes. */
static void print_path(FILE *out, const char *path)
{
    for (const char *c = path; *c != '\0'; c++) {
        const size_t backslashes = strspn(c, "\\");
        const char *quoted = strchr(" \t#:", c[backslashes]);
        if (*c == '\\' ? quoted != NULL : quoted != NULL && *quoted != '\0')
            putc('\\', out);
        else if (*c == '$')
            putc('$', out);
        putc(*c, out);
    }
}

void output_print_rule(const struct output *output, const char *spec, const char *plan, const char *const *templates,
                       size_t template_count, FILE *out)
{
    print_path(out, output->path[0]);
    putc(' ', out);
    print_path(out, output->path[1]);
    fputs(": ", out);
    print_path(out, spec);
    if (plan != NULL) {
        putc(' ', out);
        print_path(out, plan);
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
        diag_environment(diag, folder, "cannot be made a folder: %s", strerror(error == EEXIST ? ENOTDIR : error));
    return error == 0;
}

void output_write(const struct output *outputs, size_t count, const char *folder, const char *deps, const char *rules,
                  struct diag *diag)
{
    struct file_text *files = calloc(2 * count + 1, sizeof *files);
    size_t used = 0;
    for (size_t p = 0; files != NULL && p < count; p++)
        for (int i = 0; i < 2; i++)
            files[used++] = (struct file_text){outputs[p].path[i], outputs[p].text[i], outputs[p].length[i]};
    if (files != NULL && deps != NULL)
        files[used++] = (struct file_text){deps, rules, strlen(rules)};
    if (files == NULL)
        diag_environment(diag, NULL, "no memory for the list of files");
    else if (folder == NULL || make_folder(folder, diag))
        files_replace(files, used, diag);
    free(files);
}

void output_free(struct output *output)
{
    for (int i = 0; i < 2; i++) {
        free(output->path[i]);
        free(output->text[i]);
    }
}
