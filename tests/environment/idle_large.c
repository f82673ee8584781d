/*
 * idle_large.c: threads that worked with large blocks, freed all and sleep keep none of it from
 * malloc_trim.
 */
#define _GNU_SOURCE

#include "check.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 3, LIVE = 40, STEPS = 20000, LEAST = 40 << 10, MOST = 1 << 20, LEFT_MIB = 6 };

static pthread_barrier_t barrier;

static void *work(void *argument)
{
    unsigned long seed = 17 + (unsigned long)(size_t)argument;
    char *live[LIVE] = {NULL};
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned at = (unsigned)(random_next(&seed) % LIVE);
        size_t size = LEAST + random_next(&seed) % (MOST - LEAST);
        free(live[at]);
        live[at] = malloc(size);
        CHECK(live[at] != NULL, "no memory");
        for (size_t byte = 0; byte < size; byte += 4096)
            live[at][byte] = 1;
    }
    for (unsigned at = 0; at < LIVE; at++)
        free(live[at]);
    pthread_barrier_wait(&barrier);
    pause();
    return NULL;
}

int main(void)
{
    check_is_calmalloc();
    check_time_limit(100);
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0, "no barrier");
    free(malloc(100));
    size_t before = resident_bytes();
    for (size_t i = 0; i < THREADS; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, work, (void *)i) == 0, "no thread");
    }
    pthread_barrier_wait(&barrier);
    size_t full = resident_bytes();
    malloc_trim(0);
    size_t left = resident_bytes();
    printf("%zu MiB when the threads began to sleep, %zu MiB after a trim\n", full / MIB,
           left / MIB);
    CHECK(left < before + LEFT_MIB * MIB, "%zu MiB are still there", (left - before) / MIB);
    return 0;
}
