/* SPDX-License-Identifier: MIT */
#include "fenced.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

bool fenced_make(struct fenced *memory, const void *from, size_t bytes, enum fence fence)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    *memory = (struct fenced){.page_bytes = whole + 2 * page};
    memory->pages = mmap(NULL, memory->page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *inside = (char *)memory->pages + page;
    /* no mprotect if nothing lies between the fences: qemu's fails for 0 bytes */
    bool good = memory->pages != MAP_FAILED && (whole == 0 || mprotect(inside, whole, PROT_READ | PROT_WRITE) == 0);
    if (good) {
        memory->data = inside + (fence == FENCE_BEHIND ? whole - bytes : 0);
        if (from != NULL)
            memcpy(memory->data, from, bytes);
        good = from == NULL || whole == 0 || mprotect(inside, whole, PROT_READ) == 0;
    }
    if (!good)
        fenced_free(memory);
    return good;
}

void fenced_free(struct fenced *memory)
{
    if (memory->pages != NULL && memory->pages != MAP_FAILED)
        munmap(memory->pages, memory->page_bytes);
    *memory = (struct fenced){0};
}

/* The child ends with its parent, which a time limit may end while it waits. */
static void run_and_exit(void (*work)(void *context), void *context, pid_t parent)
{
    const struct rlimit none = {0, 0};
    const int nowhere = open("/dev/null", O_WRONLY);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    if (nowhere >= 0)
        dup2(nowhere, STDERR_FILENO); /* a sanitizer has much to say */
    work(context);
    _exit(0);
}

bool fenced_call(void (*work)(void *context), void *context, bool *lived, struct diag *diag)
{
    int status = 0;
    const pid_t parent = getpid(), child = fork();
    if (child == 0)
        run_and_exit(work, context, parent);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return diag_environment(diag, NULL, "no process can be started to run a kernel in");
    *lived = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return true;
}
