/*
 * trim_now.c: malloc_trim gives everything back at once, whatever the sizes were and whichever
 * thread freed them: not after a delay, and not in part. Blocks that live keep their contents.
 */
#define _GNU_SOURCE

#include "check.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOTAL_MIB = 200, COUNT_MAX = 2000000 };

static void **blocks;
static size_t count;

static void *free_half(void *argument)
{
    (void)argument;
    for (size_t i = 1; i < count; i += 2)
        free(blocks[i]);
    return NULL;
}

static void run(size_t smallest, size_t largest)
{
    unsigned long seed = 4711;
    size_t before = resident_bytes();
    void *kept = malloc(smallest);
    block_sign(kept, smallest);
    count = 0;
    for (size_t total = 0; total < TOTAL_MIB * MIB && count < COUNT_MAX; count++) {
        size_t size = smallest + random_next(&seed) % (largest - smallest + 1);
        blocks[count] = malloc(size);
        CHECK(blocks[count] != NULL, "no memory");
        memset(blocks[count], 1, size);
        total += size;
    }
    size_t full = resident_bytes();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_half, NULL) == 0, "no thread");
    for (size_t i = 0; i < count; i += 2)
        free(blocks[i]);
    pthread_join(thread, NULL);
    CHECK(malloc_trim(0) == 1, "malloc_trim says that it gave nothing back");
    size_t left = resident_bytes();
    printf("%zu to %zu bytes: %zu MiB full, %zu MiB after the trim\n", smallest, largest,
           full / MIB, left / MIB);
    CHECK(left < before + (full - before) / 20, "sizes %zu to %zu: %zu of %zu MiB are still there",
          smallest, largest, (left - before) / MIB, (full - before) / MIB);
    CHECK(block_is_signed(kept, smallest), "a live block lost its contents");
    free(kept);
}

int main(void)
{
    check_is_calmalloc();
    check_time_limit(100);
    blocks = book(COUNT_MAX * sizeof *blocks);
    memset(blocks, 1, COUNT_MAX * sizeof *blocks);
    run(120, 120);
    run(16, 4000);
    run(4000, 32768);
    run(32769, 3000000);
    run(40000000, 60000000);
    return 0;
}
