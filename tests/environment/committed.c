/*
 * committed.c: calm_committed() is what the kernel counts as the heap's data, at any moment, while
 * threads allocate and free blocks of all sizes, and with the profiler's tables.
 *
 * The kernel's figure is VmData: all that is private and writable. What of it is not the heap's is
 * there before the first sample, and does not change.
 *
 * Seen to fail with tables and books left out, with purged memory taken off, and with a step that
 * two threads count.
 */
#define _GNU_SOURCE

#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 3, SLOTS = 4000, ROUNDS = 40, SAMPLES_MIN = 200, LOOKS = 1000 };

static size_t (*committed)(void);
static atomic_uint running = THREADS;
static atomic_bool is_begun;
static void *blocks[THREADS][SLOTS];

static void *work(void *which)
{
    unsigned long seed = (unsigned long)(size_t)which;
    void **slots = blocks[seed - 1];
    while (!atomic_load(&is_begun))
        sleep_ms(1);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < SLOTS; i++) {
            free(slots[i]);
            size_t most = random_next(&seed) % 64 == 0 ? MIB : 4000;
            slots[i] = malloc(random_next(&seed) % most);
        }
        if (round % 8 == 7)
            for (unsigned i = 0; i < SLOTS; i++) {
                free(slots[i]);
                slots[i] = NULL;
            }
    }
    atomic_fetch_sub(&running, 1);
    return NULL;
}

/* A thread may be stopped between the kernel's count and ours: it goes on soon. */
static void sample(size_t others)
{
    size_t before = committed(), kernel = data_bytes() - others, after = committed();
    CHECK(before <= kernel + kernel / 100, "%zu KiB are said to be committed, of %zu KiB",
          before / KIB, kernel / KIB);
    for (unsigned looks = 0; after < kernel - kernel / 100 && looks < LOOKS; looks++) {
        sleep_ms(1);
        after = committed();
    }
    CHECK(after >= kernel - kernel / 100, "only %zu KiB are said to be committed, of %zu KiB",
          after / KIB, kernel / KIB);
}

int main(void)
{
    check_is_calmalloc();
    check_time_limit(120);
    *(void **)&committed = check_symbol("calm_committed");
    int (*profile_start)(size_t, uint64_t);
    *(void **)&profile_start = check_symbol("calm_profile_start");
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0, "no thread");
    size_t others = data_bytes() - committed(); /* stacks are there, and all work waits */
    CHECK(profile_start(512 * KIB, 1) == 0, "no profiler");
    CHECK(committed() == data_bytes() - others, "the profiler's tables are not counted");
    atomic_store(&is_begun, true);
    unsigned samples = 0;
    for (; atomic_load(&running) > 0 || samples < SAMPLES_MIN; samples++)
        sample(others);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(committed() == data_bytes() - others, "%zu KiB are said to be committed, of %zu KiB",
          committed() / KIB, (data_bytes() - others) / KIB);
    CHECK(committed() > 8 * MIB, "the heap did not grow");
    printf("%u samples, %zu MiB at the end\n", samples, committed() / MIB);
    return 0;
}
