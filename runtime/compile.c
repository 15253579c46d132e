/* From a spec to a loaded kernel. The sources live in a temporary folder that is gone afterwards, whatever happens;
 * the compiled library lives in the cache under a hash of everything that it was made of. Entries are written under
 * another name and renamed, so that several programs may share a cache; one that cannot be loaded is made again.
 */
#include "compile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process.h"
#include "sha256.h"

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
    for (size_t i = 0; i < options->set_count; i++) {
        words_add(&words, "--set");
        words_add(&words, options->set[i]);
    }
    words_add(&words, dashed != NULL ? dashed : spec);
    if (words.failed) {
        diag_environment(diag, NULL, "out of memory");
        good = false;
    }
    good = good && process_run(&result, words.word, diag);
    if (good && result.exit_code == EXIT_USAGE) {
        diag_error(diag, spec, "attngen refuses it\n%s", result.output);
        good = false;
    }
    good = good && ended_well(&result, "attngen", "made the kernel", diag);
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

/* What the compiler calls itself; the words of $CC in front (it may be "ccache gcc"). */
static bool hash_compiler(struct sha256 *hash, const char *compiler, struct diag *diag)
{
    struct words words = {0};
    struct process_result result = {0};
    words_add_split(&words, compiler);
    words_add(&words, "--version");
    bool good = !words.failed && process_run(&result, words.word, diag) &&
                ended_well(&result, words.word[0], "told its version", diag);
    if (good) {
        hash_program(hash, words.word[0]);
        sha256_add(hash, result.output, strlen(result.output) + 1);
    }
    free(result.output);
    words_free(&words);
    return good;
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
    sha256_add(&hash, fixed_flags, sizeof fixed_flags);
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

#define SEAL 64 /* bytes of hash behind a library in the cache: loading a damaged one could crash, not fail */

/* The hash of the library without its seal. */
static bool hash_library(const char *path, bool sealed, char seal[SEAL + 1], bool *intact, struct diag *diag)
{
    size_t size = 0;
    char *bytes = file_read(path, &size, diag);
    if (bytes == NULL || (sealed && size < SEAL)) {
        free(bytes);
        return false;
    }
    struct sha256 hash;
    size -= sealed ? SEAL : 0;
    sha256_start(&hash);
    sha256_add(&hash, bytes, size);
    sha256_end(&hash, seal);
    *intact = sealed && memcmp(seal, bytes + size, SEAL) == 0;
    free(bytes);
    return true;
}

static bool add_seal(const char *path, struct diag *diag)
{
    char seal[SEAL + 1];
    bool intact;
    if (!hash_library(path, false, seal, &intact, diag))
        return false;
    FILE *file = fopen(path, "abe");
    bool good = file != NULL && fputs(seal, file) >= 0;
    if (file != NULL && fclose(file) != 0)
        good = false;
    if (!good)
        diag_environment(diag, path, "cannot be written: %s", strerror(errno));
    return good;
}

static bool compile(const struct files *files, const char *compiler, const char *flags, struct diag *diag)
{
    struct words words = {0};
    struct process_result result = {0};
    words_add_split(&words, compiler);
    words_add_split(&words, fixed_flags);
    words_add_split(&words, flags);
    words_add(&words, "-o");
    words_add(&words, files->temporary);
    words_add(&words, files->shim);
    words_add(&words, files->source);
    bool good = !words.failed && process_run(&result, words.word, diag) &&
                ended_well(&result, words.word[0], "compiled the emitted file", diag) &&
                add_seal(files->temporary, diag);
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
    return folder_make_all(files->cache, diag);
}

/* From the cache if it can be loaded, else compiled. */
static bool load_or_compile(struct kernel *kernel, const struct files *files, const char *compiler, const char *flags,
                            struct diag *diag)
{
    struct diag ignored = {0};
    char seal[SEAL + 1];
    bool intact = false;
    bool cached = access(files->library, R_OK) == 0 && hash_library(files->library, true, seal, &intact, &ignored) &&
                  intact && kernel_load(kernel, files->library, &ignored);
    diag_free(&ignored);
    return cached || (compile(files, compiler, flags, diag) && kernel_load(kernel, files->library, diag));
}

bool compile_kernel(struct kernel *kernel, const char *spec, const char *name, const struct compile_options *options,
                    struct diag *diag)
{
    const char *compiler = getenv("CC"), *flags = getenv("CFLAGS");
    struct files files = {0};
    sigset_t before;
    *kernel = (struct kernel){0};
    if (compiler == NULL || compiler[strspn(compiler, " \t\n")] == '\0')
        compiler = "cc";
    if (flags == NULL)
        flags = "";
    signals_hold(&before);
    bool good = name_files(&files, name, options, diag) && generate(files.folder, spec, options, diag) &&
                write_shim(&files, name, diag) && name_library(&files, compiler, flags, diag) &&
                load_or_compile(kernel, &files, compiler, flags, diag);
    files_free(&files);
    signals_release(&before);
    return good;
}
