/*
 * no_memory.c: the limit on the address space falls below what the process uses already, so that
 * every request to the kernel fails. Calls return NULL with ENOMEM or serve from what is there;
 * frees go on; threads that never allocated before can free; and when the limit rises again
 * everything works as before.
 */
#define _GNU_SOURCE

#include "check.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { BLOCKS = 20000, THREADS = 4 };

static void *blocks[BLOCKS];
static atomic_int stage;

static size_t size_of(size_t i)
{
    return i % 200 == 0 ? 50000 + i * 3 : 1 + i % 2500;
}

static void set_limit(rlim_t bytes)
{
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = bytes;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
}

/* A block of any size, or NULL and ENOMEM: nothing else. */
static void try_sizes(void)
{
    for (size_t size = 1; size < 4096 * MIB; size += size / 3 + 1) {
        errno = 0;
        void *block = hidden(malloc(size));
        CHECK(block != NULL || errno == ENOMEM, "malloc(%zu) fails with errno %d", size, errno);
        if (block != NULL && size < MIB)
            memset(block, 1, size);
        free(block);
        void *aligned = NULL;
        int error = posix_memalign(&aligned, 4096, size);
        CHECK(error == 0 || error == ENOMEM, "posix_memalign fails with %d", error);
        free(aligned);
    }
    void *grown = NULL;
    for (size_t size = 16; size < 4096 * MIB; size *= 2) {
        errno = 0;
        void *more = realloc(grown, size);
        CHECK(more != NULL || errno == ENOMEM, "realloc to %zu fails with errno %d", size, errno);
        if (more == NULL)
            break;
        grown = more;
    }
    free(grown);
}

/* Started while there is memory; touches the heap for the first time when there is none. */
static void *late_freer(void *argument)
{
    size_t number = (size_t)argument;
    while (atomic_load(&stage) == 0)
        sleep_ms(1);
    for (size_t i = number; i < BLOCKS; i += THREADS * 2) {
        CHECK(block_is_signed(blocks[i], size_of(i)), "a block was overwritten");
        free(blocks[i]);
        blocks[i] = NULL;
    }
    try_sizes();
    return NULL;
}

int main(void)
{
    check_is_calmalloc();
    check_time_limit(60);
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(size_of(i));
        CHECK(blocks[i] != NULL, "no memory");
        block_sign(blocks[i], size_of(i));
    }
    pthread_t threads[THREADS];
    for (size_t t = 0; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, late_freer, (void *)t) == 0, "no thread");
    set_limit(virtual_bytes() / 2);
    atomic_store(&stage, 1);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    try_sizes();
    malloc_trim(0);
    try_sizes();
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK(blocks[i] == NULL || block_is_signed(blocks[i], size_of(i)),
              "a block was overwritten");
        free(blocks[i]);
    }
    set_limit(RLIM_INFINITY);
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = calloc(1, size_of(i));
        CHECK(blocks[i] != NULL, "no memory although the limit is gone");
        for (size_t at = 0; at < size_of(i); at++)
            CHECK(((char *)blocks[i])[at] == 0, "calloc gives dirty memory");
        block_sign(blocks[i], size_of(i));
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    void *large = malloc(512 * MIB);
    CHECK(large != NULL, "no large block although the limit is gone");
    free(large);
    return 0;
}
