/*
 * idle_loop.c: calm_idle() gives back what a program that sleeps next would keep: what an event
 * loop took each turn, once it has been idle for more than a second, and what the cache of a thread
 * holds.
 *
 * Seen to fail with an idle that only empties the cache, and with one that does not.
 */
#define _GNU_SOURCE

#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { TURNS = 20, BLOCKS = 400, BLOCK_BYTES = 100 * 1024, SMALL_BLOCKS = 200, SMALL_MOST = 4000 };

static void (*idle)(void);

static void turn(void)
{
    static void *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        CHECK(blocks[i] != NULL, "no memory");
        memset(blocks[i], 1, BLOCK_BYTES);
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    idle();
}

static void check_loop(void)
{
    size_t before = resident_bytes();
    for (unsigned i = 0; i < TURNS; i++)
        turn();
    size_t kept = resident_bytes();
    CHECK(kept > before + 16 * MIB, "what is taken each turn went back each turn");
    sleep_ms(1300); /* windows of a second, and their ends are seen by who looks */
    idle();
    sleep_ms(1300);
    idle();
    size_t left = resident_bytes();
    printf("%zu MiB between turns, %zu MiB after a rest\n", (kept - before) / MIB,
           (left - before) / MIB);
    CHECK(left < before + 5 * MIB, "%zu MiB stay", (left - before) / MIB);
}

static size_t cached_bytes(void)
{
    static char text[64 * 1024];
    statistics(text, sizeof text);
    const char *figure = strstr(text, "\"cached_bytes\":");
    CHECK(figure != NULL, "no cached_bytes");
    return strtoul(figure + strlen("\"cached_bytes\":"), NULL, 10);
}

static atomic_uint step;

static void wait_for(unsigned which)
{
    while (atomic_load(&step) < which)
        sleep_ms(1);
}

/* Where caches are by cores, the one of the core that the thread is on is emptied. */
static void stay_on_this_core(void)
{
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET((size_t)sched_getcpu(), &here);
    pthread_setaffinity_np(pthread_self(), sizeof here, &here);
}

static void *fill_cache(void *unused)
{
    static void *blocks[SMALL_BLOCKS];
    unsigned long seed = 3;
    stay_on_this_core();
    for (unsigned i = 0; i < 400 * SMALL_BLOCKS; i++) {
        void **slot = &blocks[random_next(&seed) % SMALL_BLOCKS];
        free(*slot);
        *slot = malloc(random_next(&seed) % SMALL_MOST);
    }
    for (unsigned i = 0; i < SMALL_BLOCKS; i++)
        free(blocks[i]);
    atomic_store(&step, 1);
    wait_for(2);
    idle();
    atomic_store(&step, 3);
    wait_for(4);
    return unused;
}

static void check_cache(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fill_cache, NULL) == 0, "no thread");
    wait_for(1);
    size_t full = cached_bytes();
    atomic_store(&step, 2);
    wait_for(3);
    size_t empty = cached_bytes();
    atomic_store(&step, 4);
    pthread_join(thread, NULL);
    printf("%zu KiB in caches, %zu KiB after\n", full / KIB, empty / KIB);
    CHECK(full > 64 * KIB, "the cache is small");
    CHECK(empty < full / 4, "caches hold %zu of %zu bytes", empty, full);
}

int main(void)
{
    check_is_calmalloc();
    check_time_limit(60);
    *(void **)&idle = check_symbol("calm_idle");
    idle();
    check_cache();
    check_loop();
    check_heap();
    return 0;
}
