/*
 * many_threads.c: 1 to 4096 threads allocate and free 1000 blocks each and sleep. What the heap
 * holds for them is bounded for each thread; their stacks do not count.
 *
 *   many_threads BYTES THREADS   the bound for each thread; how many there may be
 *
 * ONCE is allowed besides: what caches may hold together on two cores, and slabs that are begun.
 * Seen to fail, with the bound for cores, where each thread has a cache of its own.
 */
#define _GNU_SOURCE

#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calmalloc/calmalloc.h"

enum { THREADS_MAX = 4096, BLOCKS = 1000, STACK_BYTES = 64 * 1024, SETTLE_MS = 30000 };

#define ONCE (10 * MIB)

static pthread_t threads[THREADS_MAX];
static pthread_mutex_t may_end = PTHREAD_MUTEX_INITIALIZER;
static atomic_int resting;

static size_t heap_bytes(void)
{
    struct calm_stats stats;
    void (*read_stats)(struct calm_stats *);
    *(void **)&read_stats = check_symbol("calm_stats_read");
    read_stats(&stats);
    return stats.resident_bytes;
}

static void *allocate_and_rest(void *argument)
{
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = 1 + i * 7 % 1000;
        blocks[i] = malloc(size);
        CHECK(blocks[i] != NULL, "no memory");
        block_sign(blocks[i], size);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK(block_is_signed(blocks[i], 1 + i * 7 % 1000), "a block was overwritten");
        free(blocks[i]);
    }
    atomic_fetch_add(&resting, 1);
    pthread_mutex_lock(&may_end);
    pthread_mutex_unlock(&may_end);
    return argument;
}

/* What idle memory there is goes back by itself, within moments. */
static size_t settled_bytes(size_t wanted)
{
    size_t bytes = heap_bytes();
    for (unsigned waited = 0; waited < SETTLE_MS && bytes > wanted; waited += 500) {
        sleep_ms(500);
        bytes = heap_bytes();
    }
    return bytes;
}

/* By how much the heap is larger while so many threads rest, once it is no more than `wanted`. */
static size_t cost_of(int count, size_t wanted)
{
    pthread_attr_t small_stack;
    pthread_attr_init(&small_stack);
    pthread_attr_setstacksize(&small_stack, STACK_BYTES);
    atomic_store(&resting, 0);
    pthread_mutex_lock(&may_end);
    size_t before = heap_bytes();
    for (int t = 0; t < count; t++)
        if (pthread_create(&threads[t], &small_stack, allocate_and_rest, NULL) != 0)
            check_skip("this machine does not allow as many threads");
    while (atomic_load(&resting) < count)
        sleep_ms(5);
    size_t during = settled_bytes(before + wanted);
    pthread_mutex_unlock(&may_end);
    for (int t = 0; t < count; t++)
        pthread_join(threads[t], NULL);
    return during > before ? during - before : 0;
}

int main(int count, char **words)
{
    check_is_calmalloc();
    check_time_limit(280);
    CHECK(count > 2, "how much may a thread cost, and how many are there?");
    size_t bound = strtoul(words[1], NULL, 10);
    int most = atoi(words[2]);
    CHECK(most <= THREADS_MAX, "at most %d threads", THREADS_MAX);
    size_t too_many = 0;
    for (int number = 1; number <= most; number *= 8) {
        size_t allowed = (size_t)number * bound + ONCE;
        size_t cost = cost_of(number, allowed);
        printf("%4d threads: %zu KiB, %zu bytes each\n", number, cost / KIB, cost / (size_t)number);
        fflush(stdout);
        too_many += cost > allowed;
    }
    CHECK(too_many == 0, "some cost more than %zu bytes each", bound);
    return 0;
}
