/*
 * thread_churn.c: 10,000 threads are created and joined, 184 at a time. Each allocates in many
 * sizes, frees half and hands the other half to whoever comes next. In the end the process is
 * within 4 MiB of where it was, once it trims: this thread's own cache may hold 1 MiB of small
 * blocks by then, and the pages they lie on count whole.
 */
#define _GNU_SOURCE

#include "check.h"

#include <pthread.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 10000, AT_A_TIME = 184, BLOCKS = 200, STACK_BYTES = 128 * 1024 };

static void *_Atomic handed_over[AT_A_TIME * BLOCKS];

static void *worker(void *argument)
{
    size_t number = (size_t)argument;
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = i % 50 == 0 ? 40000 : 1 + (number + i) * 37 % 2000;
        blocks[i] = malloc(size);
        CHECK(blocks[i] != NULL, "no memory");
        block_sign(blocks[i], size);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        if (i % 2 == 0)
            free(blocks[i]);
        else
            free(atomic_exchange(&handed_over[number % AT_A_TIME * BLOCKS + i], blocks[i]));
    return NULL;
}

static void run_threads(size_t count)
{
    pthread_attr_t small_stack;
    pthread_attr_init(&small_stack);
    pthread_attr_setstacksize(&small_stack, STACK_BYTES);
    for (size_t done = 0; done < count; done += AT_A_TIME) {
        pthread_t threads[AT_A_TIME];
        for (size_t t = 0; t < AT_A_TIME; t++)
            CHECK(pthread_create(&threads[t], &small_stack, worker, (void *)(done + t * 7)) == 0,
                  "no thread");
        for (size_t t = 0; t < AT_A_TIME; t++)
            pthread_join(threads[t], NULL);
    }
    for (size_t i = 0; i < sizeof handed_over / sizeof handed_over[0]; i++)
        free(atomic_exchange(&handed_over[i], NULL));
}

/* Trims until no more than `wanted` is left, so many seconds at most, and returns what is left.
 */
static size_t settled_bytes(size_t wanted, unsigned seconds)
{
    size_t bytes = resident_bytes();
    for (unsigned wait = 0; wait < 10 * seconds && bytes > wanted; wait++) {
        sleep_ms(100);
        malloc_trim(0);
        bytes = resident_bytes();
    }
    return bytes;
}

int main(void)
{
    check_is_calmalloc();
    check_time_limit(100);
    for (size_t i = 0; i < sizeof handed_over / sizeof handed_over[0]; i++)
        atomic_store(&handed_over[i], NULL);
    size_t empty = resident_bytes();
    run_threads(2 * AT_A_TIME); /* stacks that the C library keeps, this thread's own cache */
    size_t before = settled_bytes(0, 2);
    run_threads(THREADS);
    size_t after = settled_bytes(before + 4 * MIB, 30);
    printf("%zu KiB empty, %zu KiB before, %zu KiB after\n", empty / KIB, before / KIB,
           after / KIB);
    CHECK(after < before + 4 * MIB, "%d threads left %zu KiB behind", THREADS,
          (after - before) / KIB);
    CHECK(before < empty + 16 * MIB, "the first threads left %zu KiB behind",
          (before - empty) / KIB);
    return 0;
}
