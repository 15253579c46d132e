/* SPDX-License-Identifier: MIT */
/* From a spec to a loaded kernel. The sources live in a temporary folder that is gone afterwards, whatever happens;
 * the compiled library lives in the cache under a hash of everything that it was made of. Entries are written under
 * another name and renamed, so that several programs may share a cache; one that cannot be loaded is made again.
 */
#include "compile.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../gen/isa.h"
#include "process.h"
#include "sha256.h"
#include "timing.h"

static const char fixed_flags[] = "-std=c11 -O2 -fPIC -shared";

/* Says how a child ended, unless it ended well. */
static bool ended_well(const struct process_result *result, const char *program, const char *what, struct diag *diag)
{
    const char *output = result->output != NULL ? result->output : "";
    if (result->exit_code == 0)
        return true;
    if (result->signal != 0)
        diag_environment(diag, program, "was killed by signal %d while it %s\n%s", result->signal, what, output);
    else
        diag_environment(diag, program, "failed (exit code %d) while it %s\n%s", result->exit_code, what, output);
    return false;
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
    char *path = slash != NULL ? path_join(self, "attngen") : NULL;
    if (path == NULL) {
        diag_environment(diag, NULL, "attngen is not found beside this program; name it with --attngen");
        return false;
    }
    words_add(words, path);
    free(path);
    return true;
}

char *compile_generator(const struct compile_options *options, struct diag *diag)
{
    static const char name[] = "attngen ";
    struct words words = {0};
    struct process_result result = {0};
    char *version = NULL;
    bool good = add_attngen(&words, options, diag);
    words_add(&words, "--version");
    good = good && !words.failed && process_run(&result, words.word, NULL, diag) &&
           ended_well(&result, words.word[0], "told its version", diag);
    if (good && strncmp(result.output, name, strlen(name)) == 0)
        version = strndup(result.output + strlen(name), strcspn(result.output + strlen(name), "\n"));
    if (version == NULL && diag->errors == 0)
        diag_environment(diag, words.count > 0 ? words.word[0] : NULL, "does not tell its version; it is not attngen");
    free(result.output);
    words_free(&words);
    return version;
}

static bool generate(const char *folder, const char *spec, const struct compile_options *options, struct diag *diag)
{
    struct words words = {0};
    struct process_result result = {0};
    char *dashed = spec[0] == '-' ? path_join(".", spec) : NULL; /* not an option */
    bool good = add_attngen(&words, options, diag);
    words_add(&words, "-o");
    words_add(&words, folder);
    if (options->isa != NULL) {
        words_add(&words, "--isa");
        words_add(&words, options->isa);
    }
    if (options->templates != NULL) {
        words_add(&words, "--templates");
        words_add(&words, options->templates);
    }
    if (options->plan != NULL) {
        words_add(&words, "--plan");
        words_add(&words, options->plan);
    }
    for (size_t i = 0; i < options->set_count; i++) {
        words_add(&words, "--set");
        words_add(&words, options->set[i]);
    }
    words_add(&words, dashed != NULL ? dashed : spec);
    if (words.failed) {
        diag_environment(diag, NULL, "out of memory");
        good = false;
    }
    good = good && process_run(&result, words.word, NULL, diag);
    if (good && result.exit_code == EXIT_USAGE) {
        diag_error(diag, spec, "attngen refuses it\n%s", result.output);
        good = false;
    }
    good = good && ended_well(&result, "attngen", "made the kernel", diag);
    if (good)
        fputs(result.output, stderr); /* warnings */
    free(result.output);
    words_free(&words);
    free(dashed);
    return good;
}

/* ---- the cache's key ------------------------------------------------------------------------------------------- */

/* Where `program` lies in PATH, for the key only; the name itself if it is nowhere. */
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
    char *text = file_read(path, &size, diag);
    if (text != NULL)
        sha256_add(hash, text, size + 1);
    free(text);
    return text != NULL;
}

char *compile_version(struct diag *diag)
{
    struct words words = {0};
    struct process_result result = {0};
    words_add_split(&words, compile_command());
    words_add(&words, "--version");
    if (words.failed)
        diag_environment(diag, NULL, "out of memory");
    const bool started = !words.failed && process_run(&result, words.word, NULL, diag);
    if (!words.failed && !started)
        diag_environment(diag, NULL, "kernels are compiled with it: install gcc or clang, or name a C compiler in CC");
    const bool good = started && ended_well(&result, words.word[0], "told its version", diag);
    words_free(&words);
    if (good)
        return result.output;
    free(result.output);
    return NULL;
}

/* What the compiler calls itself, and where it lies; of "ccache gcc", say, the first word. */
static bool hash_compiler(struct sha256 *hash, const char *compiler, struct diag *diag)
{
    struct words words = {0};
    char *version = compile_version(diag);
    words_add_split(&words, compiler);
    if (version != NULL && words.count > 0) {
        hash_program(hash, words.word[0]);
        sha256_add(hash, version, strlen(version) + 1);
    }
    free(version);
    words_free(&words);
    return version != NULL;
}

/* The files of one compilation. */
struct files {
    char *folder, *shim, *source, *header, *cache;
    char *library, *temporary; /* CACHE/KEY.so, and where it is written first */
};

static void files_free(struct files *files)
{
    char *paths[] = {files->shim, files->source, files->header, files->cache, files->library, files->temporary};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        free(paths[i]);
    if (files->folder != NULL)
        folder_remove(files->folder);
    free(files->folder);
}

static char *cache_folder(const struct compile_options *options)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char resolved[PATH_MAX];
    if (options->cache != NULL) /* dlopen wants a slash in the name; an absolute path is always right */
        return options->cache[0] == '/' ? strdup(options->cache)
               : getcwd(resolved, sizeof resolved) != NULL ? path_join(resolved, options->cache) : NULL;
    if (xdg != NULL && xdg[0] == '/')
        return path_join(xdg, "attngen");
    return home != NULL && home[0] == '/' ? path_join(home, ".cache/attngen") : strdup("/tmp/attngen-cache");
}

static bool name_library(struct files *files, const char *compiler, const char *flags, struct diag *diag)
{
    struct sha256 hash;
    char key[65], name[100];
    sha256_start(&hash);
    sha256_add(&hash, flags, strlen(flags) + 1);
    sha256_add(&hash, compiler, strlen(compiler) + 1);
    if (!hash_compiler(&hash, compiler, diag) || !hash_file(&hash, files->shim, diag) ||
        !hash_file(&hash, files->source, diag) || !hash_file(&hash, files->header, diag))
        return false;
    sha256_end(&hash, key);
    snprintf(name, sizeof name, "%s.so", key);
    files->library = path_join(files->cache, name);
    snprintf(name, sizeof name, "%s.%ld", key, (long)getpid());
    files->temporary = path_join(files->cache, name);
    return files->library != NULL && files->temporary != NULL;
}

/* ---- compiling ------------------------------------------------------------------------------------------------- */

/* Behind a library in the cache stand the µs that its compilation took, in digits, and the hash of everything before:
 * loading a damaged library could crash, not fail. */
#define TIME 16
#define SEAL 64

static void hash_bytes(const char *bytes, size_t size, char seal[SEAL + 1])
{
    struct sha256 hash;
    sha256_start(&hash);
    sha256_add(&hash, bytes, size);
    sha256_end(&hash, seal);
}

/* The µs behind a sealed library; -1 if it is damaged or not there. */
static double sealed_time(const char *path)
{
    struct diag ignored = {0};
    char seal[SEAL + 1], digits[TIME + 1] = "";
    size_t size = 0;
    char *bytes = file_read(path, &size, &ignored);
    bool intact = bytes != NULL && size > TIME + SEAL;
    if (intact) {
        size -= SEAL;
        hash_bytes(bytes, size, seal);
        memcpy(digits, bytes + size - TIME, TIME);
        intact = memcmp(seal, bytes + size, SEAL) == 0 && strspn(digits, "0123456789") == TIME;
    }
    free(bytes);
    diag_free(&ignored);
    return intact ? strtod(digits, NULL) : -1;
}

static bool append(const char *path, const char *text, struct diag *diag)
{
    FILE *file = fopen(path, "abe");
    bool good = file != NULL && fputs(text, file) >= 0;
    if (file != NULL && fclose(file) != 0)
        good = false;
    if (!good)
        diag_environment(diag, path, "cannot be written: %s", strerror(errno));
    return good;
}

static bool add_seal(const char *path, double us, struct diag *diag)
{
    char seal[SEAL + 1], digits[TIME + 1];
    size_t size;
    snprintf(digits, sizeof digits, "%0*.0f", TIME, us);
    char *bytes = append(path, digits, diag) ? file_read(path, &size, diag) : NULL;
    if (bytes == NULL)
        return false;
    hash_bytes(bytes, size, seal);
    free(bytes);
    return append(path, seal, diag);
}

static bool compile(const struct files *files, const char *compiler, const char *flags, double *us, struct diag *diag)
{
    const double start = now_us();
    struct words words = {0};
    struct process_result result = {0};
    words_add_split(&words, compiler);
    words_add_split(&words, flags);
    words_add(&words, "-o");
    words_add(&words, files->temporary);
    words_add(&words, files->shim);
    words_add(&words, files->source);
    bool good = !words.failed && process_run(&result, words.word, files->folder, diag) &&
                ended_well(&result, words.word[0], "compiled the emitted file", diag);
    *us = now_us() - start;
    good = good && add_seal(files->temporary, *us, diag);
    if (good && rename(files->temporary, files->library) != 0) {
        diag_environment(diag, files->library, "cannot be written: %s", strerror(errno));
        good = false;
    }
    if (!good)
        unlink(files->temporary);
    free(result.output);
    words_free(&words);
    return good;
}

static bool write_shim(const struct files *files, const char *name, struct diag *diag)
{
    char *text = kernel_shim(name);
    bool good = text != NULL && file_write(files->shim, text, diag);
    if (text == NULL)
        diag_environment(diag, NULL, "out of memory");
    free(text);
    return good;
}

static bool name_files(struct files *files, const char *name, const struct compile_options *options, struct diag *diag)
{
    size_t size = strlen(name) + 3;
    char *file = malloc(size);
    files->folder = folder_make(diag);
    if (files->folder == NULL || file == NULL) {
        free(file);
        return false;
    }
    files->shim = path_join(files->folder, "attnrun-shim.c"); /* the dash keeps it apart from any layer's name */
    snprintf(file, size, "%s.c", name);
    files->source = path_join(files->folder, file);
    snprintf(file, size, "%s.h", name);
    files->header = path_join(files->folder, file);
    files->cache = cache_folder(options);
    free(file);
    if (files->shim == NULL || files->source == NULL || files->header == NULL || files->cache == NULL) {
        diag_environment(diag, NULL, "out of memory");
        return false;
    }
    if (folder_make_all(files->cache, diag))
        return true;
    diag_environment(diag, NULL, "compiled kernels are kept there; name another folder with --cache DIR");
    return false;
}

/* From the cache if it can be loaded, else compiled. */
static bool load_or_compile(struct kernel *kernel, const struct files *files, const char *compiler, const char *flags,
                            struct diag *diag)
{
    struct diag ignored = {0};
    double us = access(files->library, R_OK) == 0 ? sealed_time(files->library) : -1;
    bool good = us >= 0 && kernel_load(kernel, files->library, &ignored);
    diag_free(&ignored);
    good = good || (compile(files, compiler, flags, &us, diag) && kernel_load(kernel, files->library, diag));
    kernel->compile_us = us;
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
    char *all = NULL;
    return asprintf(&all, "%s%s%s", fixed_flags, more ? " " : "", more ? flags : "") >= 0 ? all : NULL;
}

bool compiler_text(char text[PLAN_TEXT], struct diag *diag)
{
    const char *flags = getenv("CFLAGS");
    char *version = compile_version(diag), both[2 * PLAN_TEXT];
    if (version == NULL)
        return false;
    snprintf(both, sizeof both, "%.*s%s%s", (int)strcspn(version, "\n"), version,
             flags != NULL && *flags != '\0' ? ", " : "", flags != NULL ? flags : "");
    plan_text(text, both);
    free(version);
    return true;
}

/* attngen says where a plan was measured on another CPU; that it was with another compiler is known only here. */
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

/* The number behind "PREFIX_WORD = " in a header of ours, PREFIX the name in capitals; false if it is not there. */
static bool constant_of(bool *value, const char *header, const char *name, const char *word)
{
    char *text;
    int length = asprintf(&text, "%s_%s = ", name, word);
    if (length < 0)
        return false;
    for (char *c = text; *c != '\0' && *c != '='; c++)
        *c = (char)toupper((unsigned char)*c);
    const char *at = strstr(header, text);
    *value = at != NULL && at[length] == '1';
    free(text);
    return at != NULL;
}

bool compile_folds(struct folds *folds, const char *spec, const char *name, const struct compile_options *options,
                   struct diag *diag)
{
    char *file = NULL, *path = NULL, *header = NULL;
    size_t size;
    sigset_t before;
    signals_hold(&before);
    char *folder = folder_make(diag);
    if (folder != NULL && asprintf(&file, "%s.h", name) < 0)
        file = NULL;
    path = file != NULL ? path_join(folder, file) : NULL;
    if (folder != NULL && path == NULL)
        diag_environment(diag, NULL, "out of memory");
    if (path != NULL && generate(folder, spec, options, diag))
        header = file_read(path, &size, diag);
    bool good = header != NULL && constant_of(&folds->scores, header, name, "FOLDS_SCORES") &&
                constant_of(&folds->values, header, name, "FOLDS_VALUES");
    if (header != NULL && !good)
        diag_environment(diag, spec, "the emitted header does not say what is folded");
    if (folder != NULL)
        folder_remove(folder);
    free(folder);
    free(file);
    free(path);
    free(header);
    signals_release(&before);
    return good;
}

/* $CFLAGS and what the pair is to be compiled as, malloc'd. */
static char *flags_of(const char *name, const struct compile_options *options)
{
    char *all = compile_flags(), *text = NULL;
    size_t size;
    FILE *out = all != NULL ? open_memstream(&text, &size) : NULL;
    if (out == NULL) {
        free(all);
        return NULL;
    }
    fputs(all, out);
    free(all);
    if (options->pack_only) {
        fputs(" -D", out);
        for (const char *c = name; *c != '\0'; c++)
            putc(toupper((unsigned char)*c), out);
        fputs("_PACK_ONLY", out);
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

bool compile_kernel(struct kernel *kernel, const char *spec, const char *name, const struct compile_options *options,
                    struct diag *diag)
{
    const char *compiler = compile_command();
    char *flags = flags_of(name, options);
    struct files files = {0};
    sigset_t before;
    *kernel = (struct kernel){0};
    if (flags == NULL)
        diag_environment(diag, NULL, "out of memory");
    signals_hold(&before);
    bool good = flags != NULL && name_files(&files, name, options, diag) &&
                generate(files.folder, spec, options, diag) && warn_of_compiler(options, diag) &&
                write_shim(&files, name, diag) && name_library(&files, compiler, flags, diag) &&
                load_or_compile(kernel, &files, compiler, flags, diag);
    files_free(&files);
    free(flags);
    signals_release(&before);
    return good;
}

/* ---- telling how ------------------------------------------------------------------------------------------------ */

void compile_print_variables(FILE *out)
{
    const char *const variables[] = {"CC", "CFLAGS"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv(variables[i]) != NULL)
            fprintf(out, "%s='%s' ", variables[i], getenv(variables[i]));
}

void compile_print_options(const struct compile_options *options, FILE *out)
{
    for (size_t i = 0; i < options->set_count; i++)
        fprintf(out, " --set '%s'", options->set[i]);
    if (options->plan != NULL)
        fprintf(out, " --plan '%s'", options->plan);
    if (options->templates != NULL)
        fprintf(out, " --templates '%s'", options->templates);
}
