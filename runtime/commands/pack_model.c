/* SPDX-License-Identifier: MIT */
/* attnrun pack --all: a whole model's packed file from its checkpoint. The emitted NAME_model.c packs, compiled with
 * its pairs to do nothing else, in a program of its own: this file finds the checkpoint's files and puts the result in
 * place.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../../gen/file.h"
#include "../../gen/isa.h"
#include "../../gen/replace.h"
#include "commands.h"
#include "system/process.h"

/* OUT ISA,... FILE... */
static const char packer[] =
    "#include HEADER\n"
    "#include <errno.h>\n#include <fcntl.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
    "#include <sys/mman.h>\n#include <sys/stat.h>\n#include <unistd.h>\n\n"
    "static int failed(const char *what)\n{\n"
    "    fprintf(stderr, \"%s: %s\\n\", what, strerror(errno));\n    return 3;\n}\n\n"
    "int main(int argc, char **argv)\n{\n"
    "    int isas[16], count = 0;\n"
    "    for (char *at = strtok(argv[2], \",\"); at != NULL && count < 16; at = strtok(NULL, \",\"))\n"
    "        isas[count++] = atoi(at);\n"
    "    SHARD *shards = calloc((size_t)argc, sizeof *shards);\n"
    "    const size_t bytes = BYTES((size_t)count);\n"
    "    void *work = malloc(WORK), *file = aligned_alloc(64, (bytes + 63) / 64 * 64);\n"
    "    if (shards == NULL || work == NULL || file == NULL)\n        return failed(\"memory\");\n"
    "    for (int i = 3; i < argc; i++) {\n"
    "        struct stat of;\n        const int shard = open(argv[i], O_RDONLY | O_NONBLOCK);\n"
    "        if (shard < 0 || fstat(shard, &of) != 0)\n            return failed(argv[i]);\n"
    "        if (!S_ISREG(of.st_mode)) {\n            fprintf(stderr, \"%s is no file on disk\\n\", argv[i]);\n"
    "            return 2;\n        }\n"
    "        shards[i - 3].size = (size_t)of.st_size;\n"
    "        shards[i - 3].bytes = of.st_size == 0 ? \"\" :\n"
    "            mmap(NULL, shards[i - 3].size, PROT_READ, MAP_PRIVATE, shard, 0);\n"
    "        if (shards[i - 3].bytes == MAP_FAILED)\n            return failed(argv[i]);\n    }\n"
    "    const int error = PACK(file, shards, (size_t)argc - 3, isas, (size_t)count, work);\n"
    "    if (error) {\n        fprintf(stderr, \"%s\\n\", STRERROR(error));\n        return 2;\n    }\n"
    "    FILE *out = fopen(argv[1], \"wb\");\n"
    "    if (out == NULL || fwrite(file, 1, bytes, out) != bytes || fflush(out) != 0 ||\n"
    "        (fsync(fileno(out)) != 0 && errno != EINVAL)) /* EINVAL: a device */\n"
    "        return failed(\"the packed file cannot be written\");\n"
    "    printf(\"%zu\", bytes);\n"
    "    return fclose(out) == 0 ? 0 : failed(\"the packed file cannot be written\");\n}\n";

/* DIR/file, of DIR or of the folder that FILE is in */
static char *beside(const char *folder, const char *file, size_t length)
{
    char *path = NULL;
    return asprintf(&path, "%s/%.*s", folder, (int)length, file) >= 0 ? path : NULL;
}

/* What stands in quotes in a line file = "NAME", as attngen reads it; NULL: it is none. */
static const char *file_of_line(const char *line)
{
    line += strspn(line, " \t");
    if (strncmp(line, "file", 4) != 0)
        return NULL;
    line += 4 + strspn(line + 4, " \t");
    if (*line != '=')
        return NULL;
    line += 1 + strspn(line + 1, " \t");
    return *line == '"' ? line + 1 : NULL;
}

/* The files that [weights] of NAME.layers names, in the folder `path`; or, where that is a file, it. attngen has read
 * NAME.layers by now, so that its lines are known to be good. */
static bool find_shards(struct words *shards, const char *layers, const char *path, struct diag *diag)
{
    struct stat of;
    size_t length;
    if (stat(path, &of) != 0) {
        diag_environment(diag, path, "cannot be read: %s; give the folder of config.json", strerror(errno));
        return false;
    }
    if (!S_ISDIR(of.st_mode)) {
        words_add(shards, path);
        return true;
    }
    char *text = file_read(layers, &length, diag);
    const size_t before = shards->count;
    bool within = false;
    for (const char *line = text; line != NULL; line = strchr(line, '\n') != NULL ? strchr(line, '\n') + 1 : NULL) {
        const char *title = line + strspn(line, " \t"), *name = within ? file_of_line(line) : NULL;
        if (*title == '[')
            within = strncmp(title, "[weights]", strlen("[weights]")) == 0;
        if (name == NULL)
            continue;
        char *shard = beside(path, name, strcspn(name, "\"\n"));
        words_add(shards, shard != NULL ? shard : "");
        free(shard);
    }
    free(text);
    if (text != NULL && shards->count == before)
        diag_error(diag, layers, "names no files of weights; attngen import writes [weights]");
    return shards->count > before;
}

/* "scalar,avx2" of --isa, and the numbers that the emitted header gives them */
static bool numbers_of(const struct options *options, char names[200], char numbers[200], struct diag *diag)
{
    const unsigned blocks = options_blocks(options, diag);
    size_t used = 0;
    for (size_t row = 0; row < isa_count; row++)
        if ((blocks >> row & 1u) != 0)
            used += (size_t)snprintf(numbers + used, 200 - used, "%s%d", used > 0 ? "," : "", isa_table[row].id);
    isa_list_names(names, 200, blocks, ",");
    return diag->errors == 0;
}

static bool pack(const struct options *options, const char *program, const char *name, const char *out,
                 struct diag *diag)
{
    struct words words = {0};
    struct process_result result = {0};
    struct replacement file = {0};
    char names[200], numbers[200];
    bool good = numbers_of(options, names, numbers, diag) && replacement_begin(&file, out, diag);
    words_add(&words, program);
    words_add(&words, good ? file.path : "");
    words_add(&words, numbers);
    good = good && find_shards(&words, options->specs[0], options->weights.path, diag);
    if (good && words.failed) {
        diag_environment(diag, NULL, "out of memory");
        good = false;
    }
    good = good && process_run(&result, words.word, NULL, diag);
    if (good && result.exit_code == 2)
        diag_error(diag, options->weights.path, "the weights are refused: %s", result.output);
    else if (good && result.exit_code != 0)
        diag_environment(diag, out, "is not written: %s", result.exit_code > 0 ? result.output : "packing was ended");
    good = replacement_end(&file, good && result.exit_code == 0, diag);
    if (good)
        printf("packed %s for %s: %s, %s bytes\n", name, names, out, result.output);
    free(result.output);
    words_free(&words);
    return good;
}

int command_pack_model(const struct options *options)
{
    struct diag diag = {0};
    char *name = NULL, *program = NULL, *out = NULL;
    struct compile_options compile = options->compile;
    sigset_t before;
    compile.isa = strcmp(options->isa, "auto") == 0 ? NULL : options->isa;
    signals_hold(&before);
    char *folder = folder_make(&diag);
    if (options->weights.path == NULL)
        diag_error(&diag, "--weights", "is missing; give the folder of the model, or its model.safetensors");
    else if (options->format != NULL || options->symbol != NULL)
        diag_error(&diag, "--all", "writes one file to be mapped; --format and --symbol are for a single layer");
    else if (folder != NULL && (options->out == NULL || file_possible(options->out, &diag)) &&
             compile_model(options->specs[0], folder, packer, &compile, &name, &program, &diag)) {
        if (options->out != NULL ? (out = strdup(options->out)) == NULL : asprintf(&out, "%s.packed", name) < 0)
            diag_environment(&diag, NULL, "out of memory");
        else
            pack(options, program, name, out, &diag);
    }
    if (folder != NULL)
        folder_remove(folder);
    signals_release(&before);
    fflush(stdout);
    const int code = diag_report(&diag, stderr);
    diag_free(&diag);
    free(folder);
    free(name);
    free(program);
    free(out);
    return code;
}
