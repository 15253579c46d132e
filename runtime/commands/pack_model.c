/* SPDX-License-Identifier: MIT */
/* attnrun pack --all: a whole model's packed file from its checkpoint. The emitted NAME_model.c packs: compiled with
 * its pairs only for packing, in a separate program, which reads the checkpoint's files. This file puts the result in
 * place.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/embedded.h"
#include "base/replace.h"
#include "base/tensors.h"
#include "commands.h"
#include "plan/isa.h"
#include "base/memory.h"
#include "system/process.h"

/* "scalar,avx2" of --isa, and the numbers that the emitted header gives them */
static bool numbers_of(const struct options *options, char names[200], char numbers[200], struct diag *diag)
{
    const unsigned blocks = options_blocks(options, isa_all() & ~isa_of_dots_only(), diag); /* which all layers have */
    size_t used = 0;
    for (size_t row = 0; row < isa_count; row++)
        if ((blocks >> row & 1u) != 0)
            used += (size_t)snprintf(numbers + used, 200 - used, "%s%d", used > 0 ? "," : "", isa_table[row].id);
    isa_list_names(names, 200, blocks, ",");
    return diag->errors == 0;
}

static bool no_tensor(const char *name, const void *context) { return (void)name, (void)context, false; }

/* Whether the model is there: a file of tensors, or a folder with one, or with an index of files for the program */
static bool is_there(const char *path, struct diag *diag)
{
    struct stat of, whole;
    struct tensors none = {0};
    if (stat(path, &of) != 0)
        return diag_environment(diag, path, "cannot be read: %s; give the folder of config.json", strerror(errno));
    HEAP char *file = S_ISDIR(of.st_mode) ? text_join("%s/model.safetensors", path) : text_copy(path);
    const bool good = stat(file, &whole) != 0 || tensors_read_some(&none, file, no_tensor, NULL, diag);
    tensors_free(&none);
    return good;
}

static bool pack(const struct options *options, const char *program, const char *name, const char *out,
                 struct diag *diag)
{
    OWNED(words_free) struct words words = {0};
    OWNED(process_forget) struct process_result result = {0};
    struct replacement file = {0};
    char names[200], numbers[200];
    bool good = numbers_of(options, names, numbers, diag) && replacement_begin(&file, out, diag);
    words_add(&words, program);
    words_add(&words, good ? file.path : "");
    words_add(&words, numbers);
    words_add(&words, options->weights.path);
    good = good && is_there(options->weights.path, diag);
    good = good && process_run(&result, words.word, NULL, diag);
    for (size_t end = result.size; good && end > 0 && result.output[end - 1] == '\n'; )
        result.output[--end] = '\0';
    if (good && result.exit_code == 2)
        diag_error(diag, options->weights.path, "the weights are refused: %s", result.output);
    else if (good && result.exit_code != 0)
        diag_environment(diag, out, "is not written: %s", result.exit_code > 0 ? result.output : "packing was ended");
    good = replacement_end(&file, good && result.exit_code == 0, diag);
    if (good)
        printf("packed %s for %s: %s, %s bytes\n", name, names, out, result.output);
    return good;
}

int command_pack_model(const struct options *options)
{
    struct diag diag = {0};
    HEAP char *name = NULL, *program = NULL, *out = NULL;
    struct compile_options compile = options->compile;
    compile.isa = strcmp(options->isa, "auto") == 0 ? NULL : options->isa;
    OWNED(signals_release) sigset_t before;
    signals_hold(&before);
    OWNED(folder_end) char *folder = folder_make(&diag);
    const struct embedded_file *packer = embedded_find(runtime_files, runtime_files_count, "commands/packer.in");
    if (options->weights.path == NULL)
        diag_error(&diag, "--weights", "is missing; give the folder of the model, or its model.safetensors");
    else if (options->format != NULL || options->symbol != NULL)
        diag_error(&diag, "--all", "writes one file to be mapped; --format and --symbol are for a single layer");
    else if (options->weights.prefix != NULL || options->weights.zero_bias || options->weights.norm_plus_one ||
             options->compile.plan != NULL)
        diag_error(&diag, "--all", "NAME.layers says what each weight is; --plan, --prefix, --zero-bias and "
                   "--norm-plus-one are for a single layer");
    else if (folder != NULL && (options->out == NULL || file_possible(options->out, &diag)) &&
             compile_model(options->specs[0], folder, (const char *)packer->data, &compile, &name, &program, &diag)) {
        out = options->out != NULL ? text_copy(options->out) : text_join("%s.packed", name);
        pack(options, program, name, out, &diag);
    }
    return command_end(&diag, false);
}
