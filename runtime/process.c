/* SPDX-License-Identifier: MIT */
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
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

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

bool signals_waiting(void)
{
    sigset_t held, waiting;
    held_signals(&held);
    sigpending(&waiting);
    sigandset(&held, &held, &waiting);
    return !sigisemptyset(&held);
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

/* The environment with `temporary` as TMPDIR, both malloc'd; `variable` is the new text. */
static char **environment_with(const char *temporary, char **variable)
{
    static const char name[] = "TMPDIR=";
    size_t count = 0, kept = 0;
    while (environ[count] != NULL)
        count++;
    char **list = malloc((count + 2) * sizeof *list);
    if (list == NULL || asprintf(variable, "%s%s", name, temporary) < 0) {
        free(list);
        *variable = NULL;
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], name, sizeof name - 1) != 0)
            list[kept++] = environ[i];
    list[kept++] = *variable;
    list[kept] = NULL;
    return list;
}

static int spawn(pid_t *child, char *const argv[], const char *temporary, int output)
{
    char *variable = NULL;
    char **list = temporary != NULL ? environment_with(temporary, &variable) : NULL;
    if (temporary != NULL && list == NULL)
        return ENOMEM;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    int error = posix_spawn_file_actions_init(&actions);
    const bool made = error == 0;
    if (made)
        error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        sigemptyset(&none);
        posix_spawnattr_setsigmask(&attributes, &none);
        /* a session of its own: a compiler's children can be ended with it, and none waits for the terminal, whose
         * keys do not reach them either */
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
        posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
        error = posix_spawnp(child, argv[0], &actions, &attributes, argv, list != NULL ? list : environ);
        posix_spawnattr_destroy(&attributes);
    }
    if (made)
        posix_spawn_file_actions_destroy(&actions);
    free(list);
    free(variable);
    return error;
}

#define TICK_MS 1000
#define PATIENCE_MS 2000 /* for what SIGTERM has not ended yet */

/* To a child, and to its own children if it leads a group. */
static void send_signal(pid_t child, int signal)
{
    if (kill(-child, signal) != 0)
        kill(child, signal);
}

/* Collects what comes until the pipe closes: until nobody is left who could write, to it or into a temporary folder.
 * A held signal ends the child and is left pending; what it has not ended after a while is killed. */
static bool collect(struct process_result *result, int output, pid_t child, void (*tick)(void *), void *context)
{
    sigset_t set;
    held_signals(&set);
    int signals = signalfd(-1, &set, SFD_CLOEXEC);
    size_t size = 0, room = 0;
    double deadline = 0;
    for (bool open = true; open;) {
        struct pollfd polls[2] = {{output, POLLIN, 0}, {signals, POLLIN, 0}}; /* a negative one is ignored */
        const double left = (deadline - now_us()) / 1000;
        if (result->interrupted && left <= 0) {
            send_signal(child, SIGKILL);
            break;
        }
        const int ready = poll(polls, 2, result->interrupted ? (int)left + 1 : tick != NULL ? TICK_MS : -1);
        if (ready < 0 && errno != EINTR)
            break;
        if (tick != NULL)
            tick(context);
        if (ready <= 0)
            continue;
        if (polls[1].revents != 0) {
            result->interrupted = true;
            deadline = now_us() + 1000.0 * PATIENCE_MS;
            send_signal(child, SIGTERM);
            send_signal(child, SIGCONT); /* one that is stopped would not hear of it */
            close(signals);
            signals = -1;
            continue;
        }
        if (polls[0].revents == 0)
            continue;
        if (room - size < 4096) {
            char *grown = realloc(result->output, room = 2 * room + 8192);
            if (grown == NULL) {
                send_signal(child, SIGKILL);
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
    result->size = size;
    return result->output != NULL;
}

/* Follows a child to its end. */
static bool follow(struct process_result *result, const char *name, int output, pid_t child, void (*tick)(void *),
                   void *context, struct diag *diag)
{
    result->started = true;
    const bool collected = collect(result, output, child, tick, context);
    close(output);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status))
        result->exit_code = WEXITSTATUS(status);
    else
        result->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (collected && !result->interrupted)
        return true;
    diag_environment(diag, name, result->interrupted ? "interrupted" : "out of memory");
    free(result->output);
    result->output = NULL;
    return false;
}

bool process_run(struct process_result *result, char *const argv[], const char *temporary, struct diag *diag)
{
    int ends[2];
    pid_t child;
    *result = (struct process_result){.exit_code = -1};
    if (pipe2(ends, O_CLOEXEC) != 0) {
        diag_environment(diag, argv[0], "cannot be started: %s", strerror(errno));
        return false;
    }
    int error = spawn(&child, argv, temporary, ends[1]);
    close(ends[1]);
    if (error != 0) {
        close(ends[0]);
        diag_environment(diag, argv[0], "cannot be started: %s", strerror(error));
        return false;
    }
    return follow(result, argv[0], ends[0], child, NULL, NULL, diag);
}

/* The child's side: it ends when the parent does, and a signal ends it at once. */
static _Noreturn void answer_and_leave(int output, pid_t parent, void (*work)(void *, FILE *), void *context)
{
    sigset_t none;
    FILE *answer = fdopen(output, "wb");
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (answer == NULL || getppid() != parent)
        _exit(EXIT_ENVIRONMENT);
    work(context, answer);
    _exit(fclose(answer) == 0 ? EXIT_GOOD : EXIT_ENVIRONMENT);
}

bool process_call(struct process_result *result, void (*work)(void *context, FILE *answer), void *context,
                  void (*tick)(void *context), struct diag *diag)
{
    int ends[2];
    const pid_t parent = getpid();
    *result = (struct process_result){.exit_code = -1};
    fflush(NULL);
    const bool piped = pipe2(ends, O_CLOEXEC) == 0;
    const pid_t child = piped ? fork() : -1;
    if (child == 0) {
        close(ends[0]);
        answer_and_leave(ends[1], parent, work, context);
    }
    if (child < 0) {
        diag_environment(diag, NULL, "no process can be started: %s", strerror(errno));
        if (piped) {
            close(ends[0]);
            close(ends[1]);
        }
        return false;
    }
    close(ends[1]);
    return follow(result, "attnrun", ends[0], child, tick, context, diag);
}

const char *process_unanswered(const struct process_result *result, size_t wanted, char text[80])
{
    if (result->signal == 0 && result->exit_code == 0 && result->size == wanted)
        return NULL;
    if (result->signal != 0)
        snprintf(text, 80, "the kernel was killed by signal %d", result->signal);
    else
        snprintf(text, 80, "the process of the kernel ended with code %d", result->exit_code);
    return text;
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

static bool write_all(int file, const struct piece *piece)
{
    const char *at = piece->data;
    for (size_t left = piece->bytes; left > 0;) {
        ssize_t wrote = write(file, at, left);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        at += wrote;
        left -= (size_t)wrote;
    }
    return true;
}

/* The pieces into an open file, which is closed; a new one lasts and has an ordinary file's mode. 0 or the errno. */
static int fill(int file, const struct piece *pieces, size_t count, bool is_new)
{
    const mode_t mask = umask(0);
    umask(mask);
    bool good = true;
    errno = 0;
    for (size_t i = 0; good && i < count; i++)
        good = write_all(file, &pieces[i]);
    good = good && (!is_new || (fsync(file) == 0 && fchmod(file, 0666 & ~mask) == 0));
    int error = good ? 0 : errno != 0 ? errno : EIO;
    if (close(file) != 0 && error == 0)
        error = errno;
    return error;
}

/* A device, a pipe: written as it is; else through a new file beside it. 0 or the errno. */
static int replace(const char *path, char *temporary, const struct piece *pieces, size_t count)
{
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        const int file = open(path, O_WRONLY | O_CLOEXEC);
        return file < 0 ? errno : fill(file, pieces, count, false);
    }
    const int file = mkstemp(temporary);
    if (file < 0)
        return errno;
    int error = fill(file, pieces, count, true);
    if (error == 0 && rename(temporary, path) != 0)
        error = errno;
    if (error != 0)
        unlink(temporary);
    return error;
}

bool file_replace(const char *path, const struct piece *pieces, size_t count, struct diag *diag)
{
    char *temporary = NULL;
    if (asprintf(&temporary, "%s.XXXXXX", path) < 0) {
        diag_environment(diag, path, "out of memory");
        return false;
    }
    const int error = replace(path, temporary, pieces, count);
    if (error != 0)
        diag_environment(diag, path, "cannot be written: %s", strerror(error));
    free(temporary);
    return error == 0;
}

bool file_possible(const char *path, struct diag *diag)
{
    struct stat status;
    const bool there = stat(path, &status) == 0, beside = !there || S_ISREG(status.st_mode);
    const char *slash = strrchr(path, '/');
    char *folder = slash != NULL ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    int error = folder == NULL ? ENOMEM : there && S_ISDIR(status.st_mode) ? EISDIR : 0;
    if (error == 0 && access(beside ? folder : path, beside ? W_OK | X_OK : W_OK) != 0)
        error = errno;
    if (error != 0)
        diag_environment(diag, path, "cannot be written: %s", strerror(error));
    free(folder);
    return error == 0;
}
