/*
 * refused_calls.c: a filter of system calls refuses what sequences need from before the program
 * starts, as old kernels and containers do. Threads have caches of their own then, everything
 * works, and the statistics say so with a reason.
 *
 *   refused_calls membarrier|rseq|both
 *
 * Seen to fail with an os_rseq_start() that does not heed what the kernel says.
 */
#define _GNU_SOURCE

#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "live.h"
#include "refuse.h"

enum { THREADS = 6, STEPS = 20000 };

static atomic_int working;

static void *worker(void *argument)
{
    struct live live = {.seed = (size_t)argument};
    for (int i = 0; i < STEPS; i++)
        live_step(&live, 5000);
    atomic_fetch_add(&working, 1);
    while (atomic_load(&working) < THREADS)
        live_step(&live, 5000);
    CHECK(own_caches() > 0, "nobody has a cache of his own");
    live_end(&live);
    return NULL;
}

static void work_without(void)
{
    pthread_t threads[THREADS];
    for (size_t t = 0; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, worker, (void *)(t + 1)) == 0, "no thread");
    for (size_t t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    char text[32 * 1024];
    statistics(text, sizeof text);
    CHECK(strstr(text, "\"caches_by\":\"thread\"") != NULL &&
              strstr(text, "\"no_cores\":\"") != NULL,
          "the statistics say %.600s", text);
    check_heap();
}

int main(int count, char **words)
{
    check_is_calmalloc();
    check_time_limit(60);
    CHECK(count > 1, "what is refused?");
    if (count > 2) {
        work_without();
        return 0;
    }
    check_is_by_cores();
    bool is_rseq = strcmp(words[1], "membarrier") != 0;
    bool is_membarrier = strcmp(words[1], "rseq") != 0;
    if (!refuse_calls(is_rseq ? SYS_rseq : SYS_membarrier,
                      is_membarrier ? SYS_membarrier : SYS_rseq))
        check_skip("no filters of system calls here");
    char again[] = "again";
    char *const arguments[] = {words[0], words[1], again, NULL};
    execv("/proc/self/exe", arguments);
    CHECK(false, "cannot start itself");
    return 1;
}
