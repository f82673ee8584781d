/*
 * locked.c: all memory is locked. The kernel refuses to drop locked pages, so memory that was given
 * back without success must not be taken for zero; and locking must not make the reserved range
 * resident.
 *
 * The argument is `free` (the limit does not bind: root) or `bound` (an ordinary user with 1 MiB to
 * lock, where new mappings fail and malloc must say so).
 */
#define _GNU_SOURCE

#include "check.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { BLOCKS = 40 };

static void check_zero(const unsigned char *block, size_t size)
{
    for (size_t i = 0; i < size; i++)
        CHECK(block[i] == 0, "calloc(%zu) gives dirty memory at byte %zu", size, i);
}

static void exercise(void)
{
    static const size_t sizes[] = {64, 3000, 20000, 100000, 2 * MIB, 40 * MIB};
    for (size_t round = 0; round < 3; round++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            void *blocks[20];
            size_t count = sizes[s] >= MIB ? 2 : 20;
            for (size_t i = 0; i < count; i++) {
                blocks[i] = malloc(sizes[s]);
                CHECK(blocks[i] != NULL, "malloc(%zu) fails while memory is locked", sizes[s]);
                memset(blocks[i], 0xA5, sizes[s]);
            }
            for (size_t i = 0; i < count; i++)
                free(blocks[i]);
            if (round == 1)
                malloc_trim(0);
            if (round == 2 && s == 3)
                sleep_ms(600);
            for (size_t i = 0; i < count; i++) {
                blocks[i] = calloc(1, sizes[s]);
                CHECK(blocks[i] != NULL, "calloc(%zu) fails while memory is locked", sizes[s]);
                check_zero(blocks[i], sizes[s]);
            }
            for (size_t i = 0; i < count; i++)
                free(blocks[i]);
        }
}

/* A buffer grows to 200 MiB, and moves; what it leaves is dropped though all that is mapped is
 * locked. Seen to fail with os_renew() that leaves what the kernel fills: 300 MiB stay; and
 * with an os_move() that moves locked pages: more are counted than are mapped. */
static void grow_and_free(void)
{
    enum { STEP = 1000 * 1000, MOST = 200 * MIB };
    malloc_trim(0);
    size_t before = resident_bytes();
    char *buffer = NULL;
    for (size_t bytes = STEP; bytes < MOST; bytes += STEP) {
        buffer = realloc(buffer, bytes);
        CHECK(buffer != NULL, "realloc(%zu) fails while memory is locked", bytes);
        memset(buffer + bytes - STEP, 1, STEP);
    }
    size_t counted = locked_bytes(), mapped = virtual_bytes();
    CHECK(counted <= mapped, "%zu MiB are locked of %zu", counted / MIB, mapped / MIB);
    free(buffer);
    malloc_trim(0);
    size_t kept = resident_bytes() - before;
    CHECK(kept < 250 * MIB, "%zu MiB stay of a locked buffer of 200 MiB that was freed",
          kept / MIB);
}

/* Frees every second of forty blocks, so that what is free is in pieces that a trim leaves mapped.
 * Seen to fail with a mlockall() that the heap does not see: the kernel fills all of them. */
static void free_between(char **blocks)
{
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(6 * MIB);
        CHECK(blocks[i] != NULL, "no memory");
        memset(blocks[i], 1, 6 * MIB);
    }
    for (int i = 0; i < BLOCKS; i += 2)
        free(blocks[i]);
    malloc_trim(0);
}

static void run_free(void)
{
    static char *blocks[BLOCKS];
    void *early = malloc(100000);
    free_between(blocks);
    size_t before = resident_bytes();
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        check_skip("this user may not lock memory");
    size_t locked = resident_bytes();
    CHECK(locked < before + 48 * MIB, "locking made %zu MiB resident", (locked - before) / MIB);
    for (int i = 1; i < BLOCKS; i += 2)
        free(blocks[i]);
    exercise();
    grow_and_free();
    free(early);
    CHECK(munlockall() == 0, "munlockall");
    exercise();
}

static void run_bound(void)
{
    struct rlimit limit = {MIB, MIB};
    if (getuid() == 0 && setresuid(65534, 65534, 65534) != 0)
        check_skip("cannot become an ordinary user");
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || mlockall(MCL_FUTURE) != 0)
        check_skip("this user may not lock future mappings");
    size_t failures = 0;
    void *chain = NULL;
    for (size_t size = 16; size < 8 * MIB; size += size / 4) {
        for (int i = 0; i < 20; i++) {
            errno = 0;
            void **block = malloc(size);
            CHECK(block != NULL || errno == ENOMEM, "malloc(%zu) fails with errno %d", size, errno);
            failures += block == NULL;
            if (block == NULL)
                continue;
            memset(block, 1, size);
            *block = chain;
            chain = block;
        }
    }
    printf("%zu requests failed\n", failures);
    while (chain != NULL) {
        void *next = *(void **)chain;
        free(chain);
        chain = next;
    }
    CHECK(munlockall() == 0, "munlockall");
    exercise();
}

int main(int argc, char **argv)
{
    check_is_calmalloc();
    check_time_limit(60);
    if (argc > 1 && strcmp(argv[1], "bound") == 0)
        run_bound();
    else
        run_free();
    return 0;
}
