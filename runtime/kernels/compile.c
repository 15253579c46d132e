/* SPDX-License-Identifier: MIT */
/* From a spec to a loaded kernel. The sources are in a temporary folder that is always removed afterwards. The compiled
 * library is kept in the cache under a hash of everything that it was made from; one that cannot be loaded is compiled
 * again.
 */
#include "compile.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/replace.h"
#include "cache.h"
#include "plan/isa.h"
#include "plan/plan.h"
#include "spec/layer.h"
#include "base/memory.h"
#include "system/process.h"
#include "system/sha256.h"

static const char fixed_flags[] = "-O2 -fPIC -shared"; /* in the compiler's default dialect, like users */

/* Reports how a child ended, unless it succeeded. */
static bool ended_well(const struct process_result *result, const char *program, const char *what, struct diag *diag)
{
    const char *output = result->output != NULL ? result->output : "";
    if (result->exit_code == 0)
        return true;
    if (result->signal != 0)
        diag_environment(diag, program, "was killed by signal %d (%s) while it %s\n%s", result->signal,
                         strsignal(result->signal), what, output);
    else
        diag_environment(diag, program, "failed (exit code %d) while it %s\n%s", result->exit_code, what, output);
    return false;
}

/* Reports a compiler that does not print its version: it is no compiler, or not installed. */
static void blame_compiler(struct diag *diag)
{
    const char *compiler = compile_command();
    if (compiler == getenv("CC"))
        diag_environment(diag, "CC", "is set to '%s', which compiles no kernel; set it to a C compiler, gcc or clang",
                         compiler);
    else
        diag_environment(diag, "CC", "is not set, and %s compiles no kernel; install gcc or clang, or set CC to a "
                         "C compiler", compiler);
}

/* ---- generating ------------------------------------------------------------------------------------------------ */

/* --attngen, $ATTNGEN, or "attngen" in the folder of this program. */
static bool add_attngen(struct words *words, const struct compile_options *options, struct diag *diag)
{
    const char *given = options->attngen != NULL ? options->attngen : getenv("ATTNGEN");
    char self[PATH_MAX];
    if (given != NULL && *given != '\0') {
        words_add(words, given);
        return true;
    }
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = NULL;
    if (length > 0) {
        self[length] = '\0';
        slash = strrchr(self, '/');
    }
    if (slash != NULL)
        *slash = '\0';
    HEAP char *path = slash != NULL ? path_join(self, "attngen") : NULL;
    if (path == NULL)
        return diag_environment(diag, NULL, "attngen is not found beside this program; name it with --attngen");
    words_add(words, path);
    return true;
}

char *compile_generator(const struct compile_options *options, struct diag *diag)
{
    static const char name[] = "attngen ";
    OWNED(words_free) struct words words = {0};
    OWNED(process_forget) struct process_result result = {0};
    char *version = NULL;
    bool good = add_attngen(&words, options, diag);
    words_add(&words, "--version");
    good = good && process_run(&result, words.word, NULL, diag) &&
           ended_well(&result, words.word[0], "told its version", diag);
    if (good && strncmp(result.output, name, strlen(name)) == 0)
        version = text_part(result.output + strlen(name), strcspn(result.output + strlen(name), "\n"));
    if (version == NULL && diag->errors == 0)
        diag_environment(diag, words.count > 0 ? words.word[0] : NULL, "does not print its version; it is not attngen");
    return version;
}

/* Writes to `text` those of the requested sets that the layer can have, since attngen refuses the others. A spec that
 * cannot be read is left for attngen to refuse. */
static const char *isas_of(const char *spec, const struct compile_options *options, char text[200])
{
    OWNED(diag_free) struct diag quiet = {0};
    struct layer *layer = layer_read(spec, options->set, options->set_count, &quiet);
    const unsigned asked = isa_parse_list(options->isa, &quiet);
    const bool some = layer != NULL && plan_isas(layer, asked) != asked;
    if (some)
        isa_list_names(text, 200, plan_isas(layer, asked), ",");
    layer_free(layer);
    return some ? text : options->isa;
}

static void add_option(struct words *words, const char *name, const char *value)
{
    if (value == NULL)
        return;
    words_add(words, name);
    words_add(words, value);
}

/* `command`: a command of attngen; NULL: generate a layer's pair */
static bool generate(const char *command, const char *folder, const char *spec, const struct compile_options *options,
                     struct diag *diag)
{
    OWNED(words_free) struct words words = {0};
    OWNED(process_forget) struct process_result result = {0};
    HEAP char *dashed = spec[0] == '-' ? path_join(".", spec) : NULL; /* not an option */
    char isas[200];
    bool good = add_attngen(&words, options, diag);
    if (command != NULL)
        words_add(&words, command);
    add_option(&words, "-o", folder);
    if (command == NULL)
        words_add(&words, "--shim");
    add_option(&words, "--isa", options->isa != NULL && command == NULL ? isas_of(spec, options, isas) : options->isa);
    add_option(&words, "--templates", options->templates);
    add_option(&words, "--plan", options->plan);
    for (size_t i = 0; i < options->set_count; i++)
        add_option(&words, "--set", options->set[i]);
    words_add(&words, dashed != NULL ? dashed : spec);
    good = good && process_run(&result, words.word, NULL, diag);
    if (good && result.exit_code == EXIT_USAGE)
        good = diag_error(diag, spec, "attngen refuses it\n%s", result.output);
    good = good && ended_well(&result, "attngen", "made the kernel", diag);
    if (good && !options->ahead)
        fputs(result.output, stderr); /* warnings */
    return good;
}

/* ---- the cache's key ------------------------------------------------------------------------------------------- */

/* The place of `program` in PATH, for the key only; the name itself if it is not found */
static void hash_program(struct sha256 *hash, const char *program)
{
    const char *path = getenv("PATH");
    char found[PATH_MAX];
    while (path != NULL && strchr(program, '/') == NULL && *path != '\0') {
        size_t length = strcspn(path, ":");
        snprintf(found, sizeof found, "%.*s/%s", (int)length, path, program);
        if (access(found, X_OK) == 0) {
            sha256_add(hash, found, strlen(found) + 1);
            return;
        }
        path += length + (path[length] == ':');
    }
    sha256_add(hash, program, strlen(program) + 1);
}

static bool hash_file(struct sha256 *hash, const char *path, struct diag *diag)
{
    size_t size;
    HEAP char *text = file_read(path, WHOLE_OURS, &size, diag);
    if (text != NULL)
        sha256_add(hash, text, size + 1);
    return text != NULL;
}

char *compile_version(struct diag *diag)
{
    OWNED(words_free) struct words words = {0};
    struct process_result result = {0};
    words_add_split(&words, compile_command());
    words_add(&words, "--version");
    const bool started = process_run(&result, words.word, NULL, diag);
    const bool good = started && ended_well(&result, words.word[0], "told its version", diag);
    if (!good && !result.interrupted)
        blame_compiler(diag);
    if (good)
        return result.output;
    free(result.output);
    return NULL;
}

/* The compiler's version text and its place; for "ccache gcc" that of the first word */
static bool hash_compiler(struct sha256 *hash, const char *compiler, struct diag *diag)
{
    OWNED(words_free) struct words words = {0};
    HEAP char *version = compile_version(diag);
    words_add_split(&words, compiler);
    if (version != NULL && words.count > 0) {
        hash_program(hash, words.word[0]);
        sha256_add(hash, version, strlen(version) + 1);
    }
    return version != NULL;
}

/* The files of one compilation. */
struct files {
    char *folder, *shim, *source, *header, *library;
    char key[CACHE_KEY + 1];
    struct cache cache;
};

static void files_free(struct files *files)
{
    char *paths[] = {files->shim, files->source, files->header, files->library};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        free(paths[i]);
    folder_end(&files->folder);
    cache_close(&files->cache);
}

static bool make_key(struct files *files, const char *compiler, const char *flags, struct diag *diag)
{
    struct sha256 hash;
    sha256_start(&hash);
    sha256_add(&hash, flags, strlen(flags) + 1);
    sha256_add(&hash, compiler, strlen(compiler) + 1);
    if (!hash_compiler(&hash, compiler, diag) || !hash_file(&hash, files->shim, diag) ||
        !hash_file(&hash, files->source, diag) || !hash_file(&hash, files->header, diag))
        return false;
    sha256_end(&hash, files->key);
    return true;
}

/* ---- compiling ------------------------------------------------------------------------------------------------- */

/* Whether a compiler's output blames the environment and not the source: no memory, no space, no processes, a signal
 * from outside. The cause may be gone at the next try. */
static bool blames_environment(const char *words)
{
    static const int errors[] = {ENOSPC, ENOMEM, EAGAIN, EDQUOT, EFBIG, EIO, EROFS, EMFILE, ENFILE};
    static const char *const others[] = {
        "out of memory", "memory exhausted", "signal terminated program", "terminated with signal", "Killed",
    };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (strstr(words, strerror(errors[i])) != NULL)
            return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strstr(words, others[i]) != NULL)
            return true;
    return false;
}

static bool compile(const struct files *files, const char *compiler, const char *flags, double *us, bool *refused,
                    struct diag *diag)
{
    OWNED(words_free) struct words words = {0};
    OWNED(process_forget) struct process_result result = {0};
    words_add_split(&words, compiler);
    words_add_split(&words, flags);
    words_add(&words, "-o");
    words_add(&words, files->library);
    words_add(&words, files->shim);
    words_add(&words, files->source);
    bool good = process_run(&result, words.word, files->folder, diag);
    *refused = good && result.exit_code > 0 && !blames_environment(result.output);
    good = good && ended_well(&result, words.word[0], "compiled the emitted file", diag);
    *us = result.cpu_us;
    return good;
}

static bool name_files(struct files *files, const char *name, struct diag *diag)
{
    files->folder = folder_make(diag);
    if (files->folder == NULL)
        return false;
    files->library = path_join(files->folder, "attnrun-kernel.so");
    files->shim = text_join("%s/%s_shim.c", files->folder, name);
    files->source = text_join("%s/%s.c", files->folder, name);
    files->header = text_join("%s/%s.h", files->folder, name);
    return true;
}

/* Loads the library from the cache, if it is there and can be loaded. */
static bool load_kept(struct kernel *kernel, const struct files *files, const char *layer, double *us)
{
    OWNED(diag_free) struct diag ignored = {0};
    const int file = cache_find(&files->cache, files->key, us);
    HEAP char *name = file >= 0 ? cache_name(&files->cache, files->key) : NULL;
    const bool good = name != NULL && kernel_load(kernel, name, layer, &ignored);
    kernel->crashed = false; /* the crash of a cached library is no verdict: it is compiled again */
    if (file >= 0)
        close(file);
    return good;
}

/* Advice if a compiled library cannot be loaded */
static void advise(const char *flags, struct diag *diag)
{
    if (strstr(flags, "-fsanitize=") != NULL)
        diag_environment(diag, NULL, "a sanitizer's library must be loaded before all others: compile the program that "
                         "attnrun selftest writes with these flags; or, for gcc's AddressSanitizer, set "
                         "LD_PRELOAD=$(gcc -print-file-name=libasan.so) and ASAN_OPTIONS=detect_leaks=0 for attnrun");
    else
        diag_environment(diag, NULL, "$CC must compile for this machine; for others there is attnrun selftest");
}

/* Adds the library to the cache; failure is no error, as the kernel is loaded. */
static void keep(const struct files *files, double us)
{
    OWNED(diag_free) struct diag diag = {0};
    if (!cache_add(&files->cache, files->key, files->library, us, &diag) && diag.errors > 0)
        fprintf(stderr, "attnrun: warning: the compiled kernel is not kept: %s\n", diag_first(&diag));
}

/* Compiles what the cache lacks, and keeps it without looking. */
static bool compile_ahead(const struct files *files, const char *compiler, const char *flags, struct diag *diag)
{
    double us = 0;
    bool refused;
    const int file = cache_find(&files->cache, files->key, &us);
    if (file >= 0)
        return close(file) == 0;
    return files->cache.folder >= 0 && compile(files, compiler, flags, &us, &refused, diag) &&
           cache_add(&files->cache, files->key, files->library, us, diag);
}

static bool load_or_compile(struct kernel *kernel, const struct files *files, const char *layer, const char *compiler,
                            const char *flags, struct diag *diag)
{
    double us = 0;
    bool refused = false;
    bool good = load_kept(kernel, files, layer, &us);
    if (!good && compile(files, compiler, flags, &us, &refused, diag)) {
        good = kernel_load(kernel, files->library, layer, diag);
        if (!good)
            advise(flags, diag);
        if (good)
            keep(files, us);
    }
    kernel->compile_us = us;
    kernel->refused = refused;
    return good;
}

const char *compile_command(void)
{
    const char *compiler = getenv("CC");
    return compiler != NULL && compiler[strspn(compiler, " \t\n")] != '\0' ? compiler : "cc";
}

char *compile_flags(void)
{
    const char *flags = getenv("CFLAGS");
    const bool more = flags != NULL && *flags != '\0';
    return text_join("%s%s%s", fixed_flags, more ? " " : "", more ? flags : "");
}

bool compiler_text(char text[PLAN_TEXT], struct diag *diag)
{
    const char *flags = getenv("CFLAGS");
    HEAP char *version = compile_version(diag);
    char both[2 * PLAN_TEXT];
    if (version == NULL)
        return false;
    snprintf(both, sizeof both, "%.*s%s%s", (int)strcspn(version, "\n"), version,
             flags != NULL && *flags != '\0' ? ", " : "", flags != NULL ? flags : "");
    plan_text(text, both);
    return true;
}

/* attngen warns if a plan was measured on another CPU; only attnrun knows if it was with another compiler. */
static bool warn_of_compiler(const struct compile_options *options, struct diag *diag)
{
    struct plan_file file;
    char compiler[PLAN_TEXT];
    const unsigned isas = options->isa != NULL ? isa_parse_list(options->isa, diag) : isa_all();
    if (options->plan == NULL)
        return true;
    if (!plan_file_read(&file, options->plan, NULL, diag) || !compiler_text(compiler, diag))
        return false;
    plan_file_warn(&file, isas, "", compiler, stderr);
    return true;
}

/* The number after "PREFIX_WORD = " in an emitted header, PREFIX being the name in capitals; false if it is missing */
static bool constant_of(int64_t *value, const char *header, const char *name, const char *word)
{
    HEAP char *capitals = text_capitals(name, strlen(name)), *text = text_join("%s_%s = ", capitals, word);
    const char *at = strstr(header, text);
    *value = at != NULL ? strtoll(at + strlen(text), NULL, 10) : 0;
    return at != NULL;
}

bool compile_folds(struct folds *folds, const char *spec, const char *name, const struct compile_options *options,
                   struct diag *diag)
{
    size_t size;
    int64_t scores, values;
    OWNED(signals_release) sigset_t before;
    signals_hold(&before);
    OWNED(folder_end) char *folder = folder_make(diag);
    HEAP char *path = folder != NULL ? text_join("%s/%s.h", folder, name) : NULL, *header = NULL;
    if (path != NULL && generate(NULL, folder, spec, options, diag))
        header = file_read(path, WHOLE_OURS, &size, diag);
    const bool good = header != NULL && constant_of(&scores, header, name, "FOLDS_SCORES") &&
                      constant_of(&values, header, name, "FOLDS_VALUES");
    if (good)
        *folds = (struct folds){.scores = scores, .values = values};
    if (good && constant_of(&folds->expands.least, header, name, "EXPANDS_LEAST")) {
        constant_of(&folds->expands.gain, header, name, "EXPANDS_GAIN");
        constant_of(&folds->expands.price, header, name, "EXPANDS_PRICE");
    }
    if (header != NULL && !good)
        diag_environment(diag, spec, "the emitted header does not say what is folded");
    return good;
}

/* ---- a program around a whole model ------------------------------------------------------------------------------ */

/* The emitted .c files of a folder as words, each pair's with -DPAIR_PACK_ONLY; and the model's name, malloc'd. */
static bool add_sources(struct words *words, const char *folder, char **model)
{
    static const char ending[] = "_model.c";
    struct dirent **entries;
    const int count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        const size_t length = strlen(name), end = strlen(ending);
        if (length > 2 && strcmp(name + length - 2, ".c") == 0) {
            HEAP char *path = path_join(folder, name), *pair = text_capitals(name, length - 2);
            HEAP char *flag = text_join("-D%s_PACK_ONLY", pair);
            words_add(words, path);
            words_add(words, flag);
        }
        if (length > end && strcmp(name + length - end, ending) == 0 && *model == NULL)
            *model = text_part(name, length - end);
    }
    for (int i = 0; i < count; i++)
        free(entries[i]);
    if (count >= 0)
        free(entries);
    return *model != NULL;
}

/* The beginning of a program's text: includes the header, and defines its names; malloc'd */
static char *names_of_model(const char *name)
{
    HEAP char *capitals = text_capitals(name, strlen(name));
    return text_join("#include \"%s_model.h\"\n#define SHARD %s_model_shard\n#define PACK %s_model_pack\n"
                     "#define STRERROR %s_model_strerror\n#define FAULT %s_model_fault\n"
                     "#define BYTES %s_MODEL_BYTES\n#define WORK %s_MODEL_WORK_BYTES\n"
                     "#ifdef %s_MODEL_FILES\n#define FILES %s_MODEL_FILES,\n#else\n#define FILES\n#endif\n",
                     name, name, name, name, name, capitals, capitals, capitals, capitals);
}

bool compile_model(const char *layers, const char *folder, const char *text, const struct compile_options *options,
                   char **name, char **program, struct diag *diag)
{
    OWNED(words_free) struct words words = {0};
    OWNED(process_forget) struct process_result result = {0};
    HEAP char *source = path_join(folder, "attnrun-program.c"), *names = NULL;
    *name = NULL;
    *program = path_join(folder, "attnrun-program");
    bool good = generate("model", folder, layers, options, diag);
    words_add_split(&words, compile_command());
    words_add_split(&words, "-O2 -o");
    words_add(&words, *program);
    if (good && !add_sources(&words, folder, name))
        good = diag_environment(diag, folder, "has no emitted model");
    if (good)
        names = names_of_model(*name);
    words_add(&words, source);
    words_add(&words, "-lm");
    const struct piece pieces[] = {{names, good ? strlen(names) : 0}, {text, strlen(text)}};
    return good && file_replace(source, pieces, 2, diag) && process_run(&result, words.word, folder, diag) &&
           ended_well(&result, words.word[0], "compiled the model", diag);
}

/* $CFLAGS and the flags of this kind of compilation, malloc'd */
static char *flags_of(const char *name, const struct compile_options *options)
{
    HEAP char *all = compile_flags(), *capitals = text_capitals(name, strlen(name));
    return options->pack_only ? text_join("%s -D%s_PACK_ONLY", all, capitals) : text_copy(all);
}

bool compile_kernel(struct kernel *kernel, const char *spec, const char *name, const struct compile_options *options,
                    struct diag *diag)
{
    const char *compiler = compile_command();
    HEAP char *flags = flags_of(name, options);
    *kernel = (struct kernel){0};
    OWNED(signals_release) sigset_t before;
    signals_hold(&before);
    OWNED(files_free) struct files files = {.cache = {.folder = -1}};
    return name_files(&files, name, diag) && cache_open(&files.cache, options->cache, diag) &&
           generate(NULL, files.folder, spec, options, diag) && warn_of_compiler(options, diag) &&
           make_key(&files, compiler, flags, diag) &&
           (options->ahead ? compile_ahead(&files, compiler, flags, diag)
                           : load_or_compile(kernel, &files, name, compiler, flags, diag));
}
