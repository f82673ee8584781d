/*
 * vfork_allocates.c: children of vfork, which run on their parent's memory and thread-local
 * storage, exchange blocks in bulk while other threads do the same. Neither side loses or doubles
 * a block, and the parent's threads work on their cores' caches afterwards, also where vfork
 * fails.
 *
 *   vfork_allocates         from a thread that has allocated before
 *   vfork_allocates fresh   from threads that have not
 *
 * Seen to fail with a vfork that leaves the child its parent's area, one that does not give it back
 * to the parent, and one that does not set errno.
 */
#define _GNU_SOURCE

#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "live.h"

enum {
    WORKERS = 3,
    CHILDREN = 60,
    STEPS = 4000,
    SIZE_MAX_HERE = 3000,
    MISSES = 20000,
    NOBODY = 65534
};

static atomic_bool is_over;
static struct live of_workers[WORKERS];

static void *worker(void *live)
{
    while (!atomic_load(&is_over))
        live_step(live, SIZE_MAX_HERE);
    live_end(live);
    return NULL;
}

/* What the child allocated the parent frees, and the other way round. */
static void run_child(struct live *live)
{
    pid_t child = vfork();
    if (child == 0) {
        for (int i = 0; i < STEPS; i++)
            live_step(live, SIZE_MAX_HERE);
        _exit(0);
    }
    check_child_succeeds(child, "a child of vfork");
}

static void *vfork_first(void *live)
{
    run_child(live);
    for (int i = 0; i < STEPS; i++)
        live_step(live, SIZE_MAX_HERE);
    live_check(live);
    return NULL;
}

static void run_children(bool is_fresh)
{
    static struct live live = {.seed = 77};
    for (int i = 0; i < CHILDREN; i++) {
        pthread_t thread;
        if (is_fresh) {
            CHECK(pthread_create(&thread, NULL, vfork_first, &live) == 0, "no thread");
            pthread_join(thread, NULL);
        } else {
            vfork_first(&live);
        }
    }
    live_end(&live);
}

/* A child leaves its parent's thread with a cache, which the thread gives up when it first misses.
 */
static void check_gives_up(const char *when)
{
    static void *blocks[MISSES];
    for (size_t i = 0; i < MISSES; i++)
        blocks[i] = malloc(16 + i % 64 * 128);
    for (size_t i = 0; i < MISSES; i++)
        free(blocks[i]);
    CHECK(own_caches() == 0, "after %s %zu threads have a cache of their own", when, own_caches());
}

/* A process of a user who may have no other. */
static void fail_to_vfork(void)
{
    static struct live live = {.seed = 78};
    struct rlimit none = {0, 0};
    CHECK(geteuid() != 0 || setuid(NOBODY) == 0, "setuid");
    CHECK(setrlimit(RLIMIT_NPROC, &none) == 0, "setrlimit");
    errno = 0;
    pid_t child = vfork();
    if (child == 0)
        _exit(0);
    CHECK(child < 0, "the limit on processes is not kept here");
    CHECK(child == -1 && errno == EAGAIN, "vfork fails with %d", (int)child);
    for (int i = 0; i < STEPS; i++)
        live_step(&live, SIZE_MAX_HERE);
    live_end(&live);
    check_gives_up("a vfork that failed");
}

int main(int count, char **words)
{
    check_is_calmalloc();
    check_is_by_cores();
    check_time_limit(100);
    bool is_fresh = count > 1 && strcmp(words[1], "fresh") == 0;
    pthread_t workers[WORKERS];
    for (size_t w = 0; w < WORKERS; w++) {
        of_workers[w].seed = w + 1;
        CHECK(pthread_create(&workers[w], NULL, worker, &of_workers[w]) == 0, "no thread");
    }
    run_children(is_fresh);
    atomic_store(&is_over, true);
    for (int w = 0; w < WORKERS; w++)
        pthread_join(workers[w], NULL);
    check_gives_up("children of vfork");
    check_heap();
    pid_t child = fork();
    if (child == 0) {
        fail_to_vfork();
        _exit(0);
    }
    check_child_succeeds(child, "a process that may not vfork");
    return 0;
}
