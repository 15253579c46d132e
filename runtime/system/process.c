/* SPDX-License-Identifier: MIT */
/* Child processes, temporary folders, small files. */
#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "base/memory.h"
#include "sha256.h"

static bool is_ignored(int signal)
{
    struct sigaction action;
    return sigaction(signal, NULL, &action) == 0 && !(action.sa_flags & SA_SIGINFO) && action.sa_handler == SIG_IGN;
}

/* Those that our parent had ignored stay ignored, as SIGHUP under nohup: one that is held would be seen though. */
static void held_signals(sigset_t *set)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    sigemptyset(set);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (!is_ignored(signals[i]))
            sigaddset(set, signals[i]);
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
    words->word = memory_grow(words->word, words->count + 2, sizeof *words->word);
    words->word[words->count++] = text_join("%.*s", (int)length, bytes);
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

/* The environment with `temporary` as TMPDIR; `variable` is the new text. free() both. */
static char **environment_with(const char *temporary, char **variable)
{
    static const char name[] = "TMPDIR=";
    size_t count = 0, kept = 0;
    while (environ[count] != NULL)
        count++;
    char **list = memory_get(count + 2, sizeof *list);
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], name, sizeof name - 1) != 0)
            list[kept++] = environ[i];
    *variable = list[kept] = text_join("%s%s", name, temporary);
    return list;
}

static int spawn(pid_t *child, char *const argv[], const char *temporary, int output)
{
    HEAP char *variable = NULL;
    HEAP char **list = temporary != NULL ? environment_with(temporary, &variable) : NULL;
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
    return error;
}

#define TICK_MS 1000
#define PATIENCE_MS 2000 /* for what SIGTERM has not ended yet */
#define GLANCE_MS 20     /* between two looks at a child that has closed the pipe, where nothing tells of its end */
#define GRACE_MS 1000    /* for what others still write to the pipe of a child that has ended */
#define KEEP ((size_t)32 << 10) /* bytes of a program's output that are kept from its beginning, and from its end */

/* To a child, and to its own children if it leads a group. */
static void send_signal(pid_t child, int signal)
{
    if (kill(-child, signal) != 0)
        kill(child, signal);
}

/* A child and what is heard of it. */
struct watch {
    pid_t child;
    int output;   /* its end of the pipe; -1 when nobody is left who could write */
    int signals;  /* held signals; -1 when one has come */
    int ending;   /* readable when the child has ended; -1: the kernel does not offer it, or it has been read */
    bool ended;
    double until; /* when to stop waiting, in now_us(); 0: not known */
    bool whole;   /* all of the output is kept */
    size_t room, left_out;
};

/* Room for more output; of a program's that grows without end the middle is left out. */
static void make_room(struct process_result *result, struct watch *w)
{
    if (w->room - result->size >= 4096)
        return;
    if (w->whole || w->room < 4 * KEEP) {
        result->output = memory_grow(result->output, w->room = 2 * w->room + 8192, 1);
        return;
    }
    const size_t left_out = result->size - 2 * KEEP;
    memmove(result->output + KEEP, result->output + KEEP + left_out, KEEP);
    w->left_out += left_out;
    result->size = 2 * KEEP;
}

/* Says in the output how much was left out of its middle. */
static void mark_gap(struct process_result *result, struct watch *w)
{
    if (w->left_out == 0)
        return;
    char *marked = text_join("%.*s\n[… %zu bytes are left out …]\n%s", (int)KEEP, result->output, w->left_out,
                             result->output + KEEP);
    free(result->output);
    result->output = marked;
    result->size = strlen(marked);
}

static void take_output(struct process_result *result, struct watch *w)
{
    make_room(result, w);
    const ssize_t got = read(w->output, result->output + result->size, w->room - result->size - 1);
    if (got > 0)
        result->size += (size_t)got;
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
        w->output = -1;
}

/* A held signal ends the child and is left pending. */
static void interrupt(struct process_result *result, struct watch *w)
{
    result->interrupted = true;
    w->until = now_us() + 1000.0 * PATIENCE_MS;
    send_signal(w->child, SIGTERM);
    send_signal(w->child, SIGCONT); /* one that is stopped would not hear of it */
    close(w->signals);
    w->signals = -1;
}

/* Without reaping it: its number stays that of its group. */
static void look_for_end(struct watch *w)
{
    siginfo_t info = {.si_pid = 0};
    if (w->ended || (waitid(P_PID, (id_t)w->child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0))
        return;
    const double until = now_us() + 1000.0 * GRACE_MS;
    w->ended = true;
    w->until = w->until > 0 && w->until < until ? w->until : until;
}

static int patience_ms(const struct watch *w, bool ticks)
{
    const double left = (w->until - now_us()) / 1000;
    if (w->until > 0)
        return left < 0 ? 0 : (int)left + 1;
    if (w->ending < 0 && w->output < 0)
        return GLANCE_MS;
    return ticks || w->ending < 0 ? TICK_MS : -1;
}

static int open_ending(pid_t child)
{
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, child, 0);
#else
    (void)child;
    return -1;
#endif
}

/* Collects what comes until the child has ended and the pipe is empty. Others may hold that open, such as a daemon that
 * a compiler started: they are given a moment. What a signal has not ended after a while is killed, and with every
 * program what it left behind in its group: it could still write into a temporary folder. */
static void collect(struct process_result *result, struct watch *w, void (*tick)(void *), void *context)
{
    sigset_t set;
    held_signals(&set);
    w->signals = signalfd(-1, &set, SFD_CLOEXEC);
    const int ending = open_ending(w->child);
    make_room(result, w);
    while (!(w->ended && w->output < 0)) {
        w->ending = w->ended ? -1 : ending;
        struct pollfd polls[3] = {{w->output, POLLIN, 0}, {w->signals, POLLIN, 0}, {w->ending, POLLIN, 0}};
        const int ready = poll(polls, 3, patience_ms(w, tick != NULL)); /* a negative file is ignored */
        if (ready < 0 && errno != EINTR)
            break;
        if (tick != NULL)
            tick(context);
        if (ready > 0 && polls[1].revents != 0)
            interrupt(result, w);
        if (ready > 0 && polls[0].revents != 0)
            take_output(result, w);
        if (w->until > 0 && now_us() >= w->until)
            break;
        look_for_end(w);
    }
    if (!w->ended || !w->whole)
        send_signal(w->child, SIGKILL);
    if (w->signals >= 0)
        close(w->signals);
    if (ending >= 0)
        close(ending);
    result->output[result->size] = '\0';
    mark_gap(result, w);
}

/* Follows a child to its end; `whole`: its output is an answer, of which every byte is kept. */
static bool follow(struct process_result *result, const char *name, int output, pid_t child, bool whole,
                   void (*tick)(void *), void *context, struct diag *diag)
{
    struct watch watch = {.child = child, .output = output, .whole = whole};
    collect(result, &watch, tick, context);
    close(output);
    int status = 0;
    pid_t reaped;
    struct rusage used = {0};
    while ((reaped = wait4(child, &status, 0, &used)) < 0 && errno == EINTR)
        ;
    result->cpu_us = 1e6 * (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                     (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    if (reaped == child && WIFEXITED(status))
        result->exit_code = WEXITSTATUS(status);
    else
        result->signal = reaped == child && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (!result->interrupted && reaped == child)
        return true;
    process_forget(result);
    return diag_environment(diag, name, "%s", result->interrupted ? "interrupted" : "how it ended is not known");
}

void process_forget(struct process_result *result)
{
    free(result->output);
    result->output = NULL;
}

bool process_run(struct process_result *result, char *const argv[], const char *temporary, struct diag *diag)
{
    int ends[2];
    pid_t child;
    *result = (struct process_result){.exit_code = -1};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return diag_environment(diag, argv[0], "cannot be started: %s", strerror(errno));
    int error = spawn(&child, argv, temporary, ends[1]);
    close(ends[1]);
    if (error != 0) {
        close(ends[0]);
        return diag_environment(diag, argv[0], "cannot be started: %s", strerror(error));
    }
    return follow(result, argv[0], ends[0], child, false, NULL, NULL, diag);
}

bool process_end_with(long parent)
{
    prctl(PR_SET_PDEATHSIG, is_ignored(SIGTERM) ? SIGKILL : SIGTERM);
    return getppid() == parent;
}

/* The child's side: it ends when the parent does, and a signal ends it at once. */
static _Noreturn void answer_and_leave(int output, pid_t parent, void (*work)(void *, FILE *), void *context)
{
    sigset_t none;
    FILE *answer = fdopen(output, "wb");
    const bool attended = process_end_with(parent);
    signal(SIGALRM, SIG_DFL);
    signal(SIGPROF, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (answer == NULL || !attended)
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
    return follow(result, "attnrun", ends[0], child, true, tick, context, diag);
}

#define CLOCK_PER_CPU 8 /* a busy machine gives a process that share of its time */

void process_limit(double seconds)
{
    const double whole = seconds < 1e8 ? seconds : 1e8;
    struct itimerval timer = {.it_value = {.tv_sec = (time_t)whole + (whole > (double)(time_t)whole)}};
    setitimer(ITIMER_PROF, &timer, NULL);
    timer.it_value.tv_sec *= CLOCK_PER_CPU;
    setitimer(ITIMER_REAL, &timer, NULL);
}

bool process_stopped(const struct process_result *result)
{
    /* a kernel that is wrong ends by one of these, the last two if it does not end by itself; others are sent */
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS, SIGALRM,
                                 SIGPROF};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (result->signal == faults[i])
            return false;
    return result->signal != 0 || result->exit_code == EXIT_ENVIRONMENT;
}

const char *process_unanswered(const struct process_result *result, size_t wanted, char text[80])
{
    if (result->signal == 0 && result->exit_code == 0 && result->size == wanted)
        return NULL;
    if (result->signal == SIGALRM || result->signal == SIGPROF)
        snprintf(text, 80, "the kernel did not end within its time limit (ATTNRUN_LIMIT)");
    else if (result->signal != 0)
        snprintf(text, 80, "the kernel was killed by signal %d (%.40s)", result->signal, strsignal(result->signal));
    else
        snprintf(text, 80, "the process of the kernel ended with code %d", result->exit_code);
    return text;
}

/* ---- files and folders ----------------------------------------------------------------------------------------- */

char *path_join(const char *folder, const char *name)
{
    return text_join("%s/%s", folder, name);
}

#define FOLDER "attnrun-"
#define PLACE 8 /* hexadecimal digits */

/* Where a process number means a process: this boot of this machine, this namespace. Empty if it is not known. */
static void ask_place(char place[PLACE + 1])
{
    char text[200], digits[65];
    const int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const ssize_t boot = file >= 0 ? read(file, text, 100) : -1;
    const ssize_t space = boot > 0 ? readlink("/proc/self/ns/pid", text + boot, 100) : -1;
    struct sha256 hash;
    if (file >= 0)
        close(file);
    place[0] = '\0';
    if (space <= 0)
        return;
    sha256_start(&hash);
    sha256_add(&hash, text, (size_t)(boot + space));
    sha256_end(&hash, digits);
    snprintf(place, PLACE + 1, "%.*s", PLACE, digits);
}

/* Of a process of this place that has ended? */
static bool is_left_over(const char *name, const char *place)
{
    const size_t length = strlen(FOLDER);
    char *end;
    if (strncmp(name, FOLDER, length) != 0 || place[0] == '\0' || name[length] < '1' || name[length] > '9')
        return false;
    const long process = strtol(name + length, &end, 10);
    return *end == '-' && strncmp(end + 1, place, PLACE) == 0 && end[1 + PLACE] == '-' && process == (pid_t)process &&
           kill((pid_t)process, 0) != 0 && errno == ESRCH;
}

/* Renames a folder before its removal: the compiler of a killed attnrun may still create files under the old name. */
static void take_and_remove(const char *parent, const char *name)
{
    struct stat status;
    HEAP char *path = path_join(parent, name);
    HEAP char *taken = text_join("%s/" FOLDER "%ld%s", parent, (long)getpid(), strchr(name + strlen(FOLDER), '-'));
    if (lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() && rename(path, taken) == 0)
        folder_remove(taken);
}

static void remove_left_over(const char *parent, const char *place)
{
    DIR *dir = opendir(parent);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (is_left_over(entry->d_name, place))
            take_and_remove(parent, entry->d_name);
    if (dir != NULL)
        closedir(dir);
}

char *folder_make(struct diag *diag)
{
    static bool looked; /* once is enough */
    const char *given = getenv("TMPDIR"), *parent = given != NULL && *given != '\0' ? given : "/tmp";
    char place[PLACE + 1], name[60];
    ask_place(place);
    if (!looked)
        remove_left_over(parent, place);
    looked = true;
    snprintf(name, sizeof name, FOLDER "%ld-%s-XXXXXX", (long)getpid(), place);
    char *folder = path_join(parent, name);
    if (mkdtemp(folder) == NULL) {
        diag_environment(diag, folder, "no temporary folder can be made: %s", strerror(errno));
        free(folder);
        return NULL;
    }
    return folder;
}

void folder_remove(const char *folder)
{
    DIR *dir = folder != NULL ? opendir(folder) : NULL;
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL)
        unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir != NULL)
        closedir(dir);
    if (folder != NULL)
        rmdir(folder);
}

void folder_end(char *const *folder)
{
    folder_remove(*folder);
    free(*folder);
}
