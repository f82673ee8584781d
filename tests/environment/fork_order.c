/*
 * fork_order.c: handlers of fork that a program registers before all others, from before its
 * constructors, run as without the heap: no signal is blocked, a thread that is started there does
 * not find it so either, and other threads allocate and trim while the handlers wait for them.
 *
 * ENROLLED_IN: the section of the functions that register them. In a program without a loader the C
 * library keeps the order, so there the heap's constructor comes before others, but not before
 * .preinit_array.
 *
 * Seen to fail with the heap's handlers registered by its constructor alone: signals were blocked,
 * and the wait took 40 seconds a fork; without a loader, in .preinit_array.
 */
#define _GNU_SOURCE

#include "check.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 20, BLOCKS = 2000 };

static unsigned blocked, calls;

static void look(void)
{
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    blocked += sigismember(&set, SIGTERM) != 0;
    calls++;
}

static void *work(void *argument)
{
    static void *blocks[BLOCKS];
    look();
    for (size_t i = 0; i < BLOCKS; i++)
        CHECK((blocks[i] = malloc(1 + i * 97 % 200000)) != NULL, "no memory");
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    malloc_trim(0);
    return argument;
}

/* Waits for a thread, and uses the heap itself. */
static void handle(void)
{
    pthread_t thread;
    look();
    free(hidden(malloc(100000)));
    CHECK(pthread_create(&thread, NULL, work, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
}

static void enroll(void)
{
    pthread_atfork(handle, handle, handle);
}

#ifndef ENROLLED_IN
#define ENROLLED_IN ".preinit_array"
#endif
__attribute__((section(ENROLLED_IN), used)) static void (*at_first)(void) = enroll;

int main(void)
{
    check_is_calmalloc();
    check_time_limit(20);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(blocked != 0 || calls == 0);
        check_child_succeeds(child, "a child whose handlers look at the signals");
    }
    CHECK(blocked == 0, "signals were blocked in %u of %u handlers and threads", blocked, calls);
    CHECK(calls == 4 * FORKS, "%u calls", calls);
    check_heap();
    return 0;
}
