/* SPDX-License-Identifier: MIT */
/* A call in a process of its own that never ends does not outlive the time limit of the process that waits for it.
 *
 * Left out on purpose: what such calls find out about kernels (test_mutants.sh).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../runtime/promises/fenced.h"
#include "../../runtime/system/process.h"

static void run_on(void *context)
{
    *(volatile pid_t *)context = getpid();
    for (;;)
        pause();
}

static void limited(void *context, FILE *answer)
{
    struct diag diag = {0};
    bool lived;
    process_limit(1);
    fenced_call(run_on, context, &lived, &diag);
    fputc('.', answer);
}

/* Whether a process that is ours to reap ends, which takes a moment; else it is killed. */
static bool ends(pid_t process)
{
    for (int i = 0; i < 500; i++) {
        if (waitpid(process, NULL, WNOHANG) == process)
            return true;
        usleep(10000);
    }
    kill(process, SIGKILL);
    return false;
}

static void test_limit(void **state)
{
    struct diag diag = {0};
    struct process_result result;
    volatile pid_t *child = mmap(NULL, sizeof *child, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(child != MAP_FAILED);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* orphans become ours */
    assert_true(process_call(&result, limited, (void *)(uintptr_t)child, NULL, &diag));
    assert_int_equal(result.signal, SIGALRM);
    assert_int_not_equal(*child, 0);
    assert_true(ends(*child));
    free(result.output);
    munmap((void *)(uintptr_t)child, sizeof *child);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
