/*
 * fork_in_handler.c: a signal finds threads in the middle of malloc or free, and its handler forks
 * there, while other threads allocate. The child returns from the handler, finishes what was
 * interrupted and goes on: every block is as it was, the heap is consistent, and it allocates and
 * frees with threads of its own.
 *
 * Seen to fail with sequences that are not named in the area, and so never aborted; and with a
 * child that keeps the depots' locks as they were.
 */
#define _GNU_SOURCE

#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "live.h"

enum { WORKERS = 2, FORKS = 60, CHILD_STEPS = 3000, SIZE_MAX_HERE = 3000, CHILD_SECONDS = 30 };

static struct live of_forker;
static volatile sig_atomic_t is_child;
static atomic_int forks;

static void *short_worker(void *argument)
{
    struct live live = {.seed = (size_t)argument};
    for (int i = 0; i < CHILD_STEPS; i++)
        live_step(&live, SIZE_MAX_HERE);
    live_end(&live);
    return NULL;
}

static void fork_here(int number)
{
    (void)number;
    if (!live_is_inside || is_child)
        return;
    int keep = errno;
    pid_t child = fork();
    if (child == 0) {
        is_child = 1;
        check_time_limit(CHILD_SECONDS);
    } else {
        check_child_succeeds(child, "a child");
        atomic_fetch_add(&forks, 1);
    }
    errno = keep;
}

/* The child's life after the call that was interrupted. */
static void live_as_child(void)
{
    live_check(&of_forker);
    for (int i = 0; i < CHILD_STEPS; i++)
        live_step(&of_forker, SIZE_MAX_HERE);
    pthread_t threads[WORKERS];
    for (size_t t = 0; t < WORKERS; t++)
        CHECK(pthread_create(&threads[t], NULL, short_worker, (void *)(t + 1)) == 0, "no thread");
    for (size_t t = 0; t < WORKERS; t++)
        pthread_join(threads[t], NULL);
    live_end(&of_forker);
    check_heap();
    _exit(0);
}

static void *forker(void *argument)
{
    of_forker.seed = 9;
    while (atomic_load(&forks) < FORKS) {
        live_step(&of_forker, SIZE_MAX_HERE);
        if (is_child)
            live_as_child();
    }
    return argument;
}

int main(void)
{
    check_is_calmalloc();
    check_is_by_cores();
    check_time_limit(100);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = fork_here;
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
    pthread_t forking;
    live_workers_start(WORKERS, SIZE_MAX_HERE);
    CHECK(pthread_create(&forking, NULL, forker, NULL) == 0, "no thread");
    unsigned long seed = 4;
    while (atomic_load(&forks) < FORKS) {
        struct timespec rest = {0, (long)(random_next(&seed) % 400) * 1000};
        nanosleep(&rest, NULL);
        pthread_kill(forking, SIGUSR1);
    }
    pthread_join(forking, NULL);
    live_end(&of_forker);
    live_workers_end();
    check_heap();
    return 0;
}
