/* SPDX-License-Identifier: MIT */
/* `attnrun run` with one pair linked in, for WebAssembly's system interface, which has no compiler to start and no
 * library to load. The calls below are those of attnrun that WASI lacks; the shim's table is what dlsym finds.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "../../../runtime/commands/commands.h"
#include "../../../runtime/system/process.h"
#include "base/diag.h"
#include "base/replace.h"

extern const char TABLE[]; /* NAME_table */

int main(int argc, char **argv)
{
    struct diag diag = {0};
    struct options options;
    const int code = options_parse(&options, argc, argv, options_find(&attnrun_program, "run"), &diag) ? command_run(&options)
                                                                             : diag_report(&diag, stderr);
    options_free(&options);
    diag_free(&diag);
    return code;
}

/* In place of compile.c */
bool compile_kernel(struct kernel *kernel, const char *spec, const char *name, const struct compile_options *options,
                    struct diag *diag)
{
    (void)options;
    return kernel_load(kernel, spec, name, diag);
}

void *dlopen(const char *path, int mode)
{
    (void)path;
    (void)mode;
    return (void *)TABLE;
}

void *dlsym(void *library, const char *name)
{
    (void)name;
    return library;
}

int dlclose(void *library)
{
    (void)library;
    return 0;
}

char *dlerror(void)
{
    return "";
}

/* In place of process.c: there are no other processes, so what would run in one runs here. --out is not used. */
bool process_call(struct process_result *result, void (*work)(void *context, FILE *answer), void *context,
                  void (*tick)(void *context), struct diag *diag)
{
    (void)tick;
    *result = (struct process_result){.exit_code = 0};
    FILE *answer = open_memstream(&result->output, &result->size);
    if (answer != NULL)
        work(context, answer);
    if (answer == NULL || fclose(answer) != 0)
        diag_environment(diag, NULL, "out of memory");
    return answer != NULL && diag->errors == 0;
}

void process_forget(struct process_result *result)
{
    free(result->output);
    result->output = NULL;
}

const char *process_unanswered(const struct process_result *result, size_t wanted, char text[80])
{
    (void)text;
    return result->size == wanted ? NULL : "it gave no answer";
}

bool process_stopped(const struct process_result *result)
{
    (void)result;
    return false;
}

void process_limit(double seconds)
{
    (void)seconds;
}

bool file_replace(const char *path, const struct piece *pieces, size_t count, struct diag *diag)
{
    (void)pieces;
    (void)count;
    diag_environment(diag, path, "cannot be written");
    return false;
}
