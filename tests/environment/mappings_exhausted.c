/*
 * mappings_exhausted.c: the program itself uses up every mapping that the kernel grants a process
 * (65,530 by default). From then on every call that would need one more returns NULL with ENOMEM or
 * does without; frees, trims and the blocks that live are not touched by it; and when mappings are
 * available again everything works.
 */
#define _GNU_SOURCE

#include "check.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BLOCKS = 30000, PAGE = 4096, PAGES = 400000 };

static void *blocks[BLOCKS];
static char *range;
static atomic_int stage;

static size_t size_of(size_t i)
{
    return i % 300 == 0 ? 60000 + i * 11 : 1 + i % 3000;
}

/* Changes every second page of a reserved range until the kernel refuses; returns how many were
 * changed. */
static size_t use_up_mappings(void)
{
    range = mmap(NULL, (size_t)PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
    CHECK(range != MAP_FAILED, "no address space");
    size_t changed = 0;
    for (size_t page = 1; page < PAGES; page += 2) {
        if (mprotect(range + page * PAGE, PAGE, PROT_READ) != 0)
            break;
        changed++;
    }
    if (changed >= PAGES / 2 - 1)
        check_skip("this kernel grants too many mappings");
    return changed;
}

static void *use_heap(void *argument)
{
    (void)argument;
    while (atomic_load(&stage) == 0)
        sleep_ms(1);
    for (size_t round = 0; round < 3; round++) {
        for (size_t size = 1; size < 300 * MIB; size += size / 2 + 1) {
            errno = 0;
            char *block = hidden(malloc(size));
            CHECK(block != NULL || errno == ENOMEM, "malloc(%zu) fails with errno %d", size, errno);
            if (block == NULL)
                continue;
            block[0] = block[size - 1] = 1;
            errno = 0;
            char *more = realloc(block, size * 2);
            CHECK(more != NULL || errno == ENOMEM, "realloc(%zu) fails with errno %d", size * 2,
                  errno);
            CHECK((more != NULL ? more : block)[size - 1] == 1, "realloc lost the contents");
            free(more != NULL ? more : block);
        }
        malloc_trim(0);
    }
    return NULL;
}

int main(void)
{
    check_is_calmalloc();
    check_time_limit(100);
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(size_of(i));
        CHECK(blocks[i] != NULL, "no memory");
        block_sign(blocks[i], size_of(i));
    }
    pthread_t threads[2];
    for (int t = 0; t < 2; t++)
        CHECK(pthread_create(&threads[t], NULL, use_heap, NULL) == 0, "no thread");
    size_t changed = use_up_mappings();
    atomic_store(&stage, 1);
    for (int t = 0; t < 2; t++)
        pthread_join(threads[t], NULL);
    use_heap(NULL);
    size_t resident_before = resident_bytes();
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK(block_is_signed(blocks[i], size_of(i)), "a block was overwritten");
        free(blocks[i]);
    }
    malloc_trim(0);
    CHECK(resident_bytes() + 35 * MIB < resident_before,
          "a trim gives nothing back without a mapping to spare");
    CHECK(mprotect(range, (size_t)PAGES * PAGE, PROT_NONE) == 0 &&
              munmap(range, (size_t)PAGES * PAGE) == 0,
          "cannot free %zu mappings", changed);
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = calloc(1, size_of(i));
        CHECK(blocks[i] != NULL, "no memory although there are mappings again");
        CHECK(((char *)blocks[i])[size_of(i) - 1] == 0, "calloc gives dirty memory");
        block_sign(blocks[i], size_of(i));
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    void *large = malloc(400 * MIB);
    CHECK(large != NULL, "no large block although there are mappings again");
    free(large);
    return 0;
}
