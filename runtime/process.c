/* Child processes, temporary folders, small files. */
#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void held_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
}

void signals_hold(sigset_t *before)
{
    sigset_t set;
    held_signals(&set);
    sigprocmask(SIG_BLOCK, &set, before);
}

void signals_release(const sigset_t *before)
{
    sigprocmask(SIG_SETMASK, before, NULL);
}

/* ---- words ----------------------------------------------------------------------------------------------------- */

static void add_bytes(struct words *words, const char *bytes, size_t length)
{
    char **grown = realloc(words->word, (words->count + 2) * sizeof *grown);
    char *copy = strndup(bytes, length);
    if (grown != NULL)
        words->word = grown;
    if (grown == NULL || copy == NULL) {
        free(copy);
        words->failed = true;
        return;
    }
    words->word[words->count++] = copy;
    words->word[words->count] = NULL;
}

void words_add(struct words *words, const char *word)
{
    add_bytes(words, word, strlen(word));
}

void words_add_split(struct words *words, const char *text)
{
    for (size_t length; text != NULL && *text != '\0'; text += length) {
        text += strspn(text, " \t\n");
        length = strcspn(text, " \t\n");
        if (length > 0)
            add_bytes(words, text, length);
    }
}

void words_free(struct words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->word[i]);
    free(words->word);
    *words = (struct words){0};
}

/* ---- running --------------------------------------------------------------------------------------------------- */

static int spawn(pid_t *child, char *const argv[], int output)
{
    extern char **environ;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0)
        return error;
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        sigemptyset(&none);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
        posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
        error = posix_spawnp(child, argv[0], &actions, &attributes, argv, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* Collects what comes until the pipe closes. A held signal ends the child and is left pending. */
static bool collect(struct process_result *result, int output, pid_t child)
{
    sigset_t set;
    held_signals(&set);
    int signals = signalfd(-1, &set, SFD_CLOEXEC);
    size_t size = 0, room = 0;
    for (bool open = true; open;) {
        struct pollfd polls[2] = {{output, POLLIN, 0}, {signals, POLLIN, 0}}; /* a negative one is ignored */
        if (poll(polls, 2, -1) < 0 && errno != EINTR)
            break;
        if (polls[1].revents != 0) {
            result->interrupted = true;
            kill(child, SIGTERM);
            break;
        }
        if (polls[0].revents == 0)
            continue;
        if (room - size < 4096) {
            char *grown = realloc(result->output, room = 2 * room + 8192);
            if (grown == NULL) {
                kill(child, SIGTERM);
                break;
            }
            result->output = grown;
        }
        ssize_t got = read(output, result->output + size, room - size - 1);
        if (got > 0)
            size += (size_t)got;
        open = got > 0 || (got < 0 && errno == EINTR);
    }
    if (signals >= 0)
        close(signals);
    if (result->output != NULL)
        result->output[size] = '\0';
    return result->output != NULL;
}

bool process_run(struct process_result *result, char *const argv[], struct diag *diag)
{
    int ends[2];
    pid_t child;
    *result = (struct process_result){.exit_code = -1};
    if (pipe2(ends, O_CLOEXEC) != 0) {
        diag_environment(diag, argv[0], "cannot be started: %s", strerror(errno));
        return false;
    }
    int error = spawn(&child, argv, ends[1]);
    close(ends[1]);
    if (error != 0) {
        close(ends[0]);
        diag_environment(diag, argv[0], "cannot be started: %s", strerror(error));
        return false;
    }
    result->started = true;
    bool collected = collect(result, ends[0], child);
    close(ends[0]);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status))
        result->exit_code = WEXITSTATUS(status);
    else
        result->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (!collected || result->interrupted) {
        diag_environment(diag, argv[0], result->interrupted ? "interrupted" : "out of memory");
        free(result->output);
        result->output = NULL;
        return false;
    }
    return true;
}

/* ---- files and folders ----------------------------------------------------------------------------------------- */

char *path_join(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (path != NULL)
        snprintf(path, size, "%s/%s", folder, name);
    return path;
}

char *folder_make(struct diag *diag)
{
    const char *parent = getenv("TMPDIR");
    char *folder = path_join(parent != NULL && *parent != '\0' ? parent : "/tmp", "attnrun-XXXXXX");
    if (folder == NULL || mkdtemp(folder) == NULL) {
        diag_environment(diag, folder, "no temporary folder can be made: %s", strerror(errno));
        free(folder);
        return NULL;
    }
    return folder;
}

void folder_remove(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL)
        unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir != NULL)
        closedir(dir);
    rmdir(folder);
}

bool folder_make_all(const char *path, struct diag *diag)
{
    char *copy = strdup(path);
    bool good = copy != NULL;
    for (char *at = copy; good && at != NULL;) {
        at = strchr(at + 1, '/');
        if (at != NULL)
            *at = '\0';
        good = mkdir(copy, 0777) == 0 || errno == EEXIST;
        if (at != NULL)
            *at = '/';
    }
    if (!good)
        diag_environment(diag, path, "cannot be made: %s", strerror(errno));
    free(copy);
    return good;
}

char *file_read(const char *path, size_t *size, struct diag *diag)
{
    FILE *file = fopen(path, "rbe");
    char *text = NULL;
    size_t room = 0, done = 0;
    while (file != NULL) {
        if (room - done < 2) {
            char *grown = realloc(text, room = 2 * room + 65536);
            if (grown == NULL)
                break;
            text = grown;
        }
        size_t got = fread(text + done, 1, room - done - 1, file);
        done += got;
        if (got == 0)
            break;
    }
    bool good = text != NULL && !ferror(file) && feof(file);
    if (!good) {
        diag_environment(diag, path, "cannot be read: %s", strerror(errno));
        free(text);
        text = NULL;
    } else {
        text[done] = '\0';
        *size = done;
    }
    if (file != NULL)
        fclose(file);
    return text;
}

bool file_write(const char *path, const char *text, struct diag *diag)
{
    FILE *file = fopen(path, "wbe");
    bool good = file != NULL && fputs(text, file) >= 0;
    if (file != NULL && fclose(file) != 0)
        good = false;
    if (!good)
        diag_environment(diag, path, "cannot be written: %s", strerror(errno));
    return good;
}
