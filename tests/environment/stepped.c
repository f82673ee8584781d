/*
 * stepped.c: a helper process steps through every instruction of a program, so that no sequence
 * ever comes to its end: each step aborts it. Requests end all the same, after a bounded number of
 * tries, and are right.
 *
 * Seen to fail with a cores_return() that tries until it succeeds: no end after STEPS_MAX.
 */
#define _GNU_SOURCE

#include "check.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live.h"

enum { OPERATIONS = 100, STEPS_MIN = 20000, STEPS_MAX = 1000000 };

/* Stepped through between its two stops. */
static void exchange_blocks(void)
{
    static struct live live = {.seed = 5};
    CHECK(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0, "ptrace");
    raise(SIGSTOP);
    for (int i = 0; i < OPERATIONS; i++)
        live_step(&live, 3000);
    raise(SIGSTOP);
    live_end(&live);
    CHECK(own_caches() == 0, "the thread has a cache of its own");
    check_heap();
    _exit(0);
}

static void wait_for_stop(pid_t child, int signal)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status), "the program ended early");
    CHECK(WSTOPSIG(status) == signal, "the program has %s", strsignal(WSTOPSIG(status)));
}

/* Steps from the first stop to the second; returns how many steps there were. */
static size_t step_through(pid_t child)
{
    int status = 0;
    size_t steps = 0;
    wait_for_stop(child, SIGSTOP);
    do {
        CHECK(steps < STEPS_MAX, "no end after %zu steps", steps);
        CHECK(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0, "ptrace");
        CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status),
              "the program ends with status 0x%x", (unsigned)status);
        steps++;
    } while (WSTOPSIG(status) == SIGTRAP);
    CHECK(WSTOPSIG(status) == SIGSTOP, "the program has %s", strsignal(WSTOPSIG(status)));
    return steps;
}

int main(void)
{
    check_is_calmalloc();
    check_is_by_cores();
    check_time_limit(100);
    pid_t child = fork();
    if (child == 0)
        exchange_blocks();
    size_t steps = step_through(child);
    printf("%zu steps\n", steps);
    CHECK(steps > STEPS_MIN, "only %zu steps: the program was not stepped through", steps);
    CHECK(ptrace(PTRACE_DETACH, child, NULL, NULL) == 0, "ptrace");
    check_child_succeeds(child, "the program");
    return 0;
}
