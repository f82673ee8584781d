/*
 * self_stepped.c: a program steps through its own calls, by the processor's trap flag and a handler
 * of SIGTRAP, while it has a second thread: every call ends.
 *
 * Seen to fail with an os_signals_block() that blocks SIGTRAP: the kernel ends the program.
 */
#define _GNU_SOURCE

#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { BLOCKS = 64, ROUNDS = 2 };

static void *blocks[BLOCKS];

static size_t size_of(size_t i)
{
    return 100 + i * 5000;
}

#if defined(__x86_64__)

#include "step.h"

static volatile size_t steps;

static void on_step(int signal)
{
    (void)signal;
    steps++;
}

static void *sleeper(void *argument)
{
    pause();
    return argument;
}

static void run_stepped(void)
{
    step(true);
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(size_of(i));
    step(false);
    for (size_t i = 0; i < BLOCKS; i++)
        block_sign(blocks[i], size_of(i));
    step(true);
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    step(false);
}

int main(void)
{
    check_is_calmalloc();
    check_time_limit(60);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, sleeper, NULL) == 0, "no thread");
    CHECK(signal(SIGTRAP, on_step) != SIG_ERR, "no handler");
    for (int i = 0; i < ROUNDS; i++)
        run_stepped();
    CHECK(steps > ROUNDS * BLOCKS * 10, "only %zu steps: nothing was stepped through", steps);
    check_heap();
    return 0;
}

#else

int main(void)
{
    check_skip("the trap flag is x86-64's");
}

#endif
