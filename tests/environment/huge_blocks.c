/*
 * huge_blocks.c always|none: large blocks are in huge pages where the system makes them for
 * everybody, in no others, and not beyond their lives: what was theirs serves others as before, by
 * the kernel's own figures.
 */
#define _GNU_SOURCE

#include "check.h"

#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    LONG_BYTES = 64 * 1024 * 1024,
    SHORT_BYTES = 3 * 1024 * 1024,
    CUT_BYTES = 20 * 1024 * 1024, /* a trim unmaps what is longer than 32 MiB */
    SLOTS = 20,
    TURNS = 300,
    SLOT_BYTES_MIN = 5 * 1000 * 1000,
    SLOT_BYTES_MAX = 25 * 1000 * 1000,
    MANY = 12000,
    HUGE_MAX = 8192, /* of core/large.c */
    BUFFERS = 4000,
    BUFFER_BYTES = 33 * 1000,
};

static bool is_always;

/* Of `bytes`, but for what is not a whole huge page at either end. */
static void check_that_it_is_huge(const char *what, size_t bytes)
{
    size_t huge = huge_bytes();
    CHECK(is_always || huge == 0, "%s: %zu KiB of huge pages", what, huge / KIB);
    CHECK(!is_always || huge + 4 * MIB >= bytes, "%s: only %zu KiB of huge pages", what,
          huge / KIB);
}

static void *written(void *block, size_t bytes)
{
    CHECK(block != NULL, "no memory");
    memset(block, 0x5A, bytes);
    return block;
}

static void check_that_all_is_back(const char *what, size_t resident, size_t mappings)
{
    malloc_trim(0);
    CHECK(huge_bytes() == 0, "%s: %zu KiB of huge pages stay", what, huge_bytes() / KIB);
    CHECK(resident_bytes() < resident + MIB, "%s: %zu KiB stay", what,
          (resident_bytes() - resident) / KIB);
    /* A trim unmaps what is long. */
    CHECK(mapping_count() <= mappings + 8, "%s: %zu mappings stay", what,
          mapping_count() - mappings);
}

/* Seen to fail where zeros are written, and where the purged block is as its span was. */
static void use_zeroed(void)
{
    for (int turn = 0; turn < 3; turn++) {
        char *block = calloc(1, LONG_BYTES);
        CHECK(block != NULL, "no memory");
        for (size_t at = 0; at < LONG_BYTES; at += KIB)
            CHECK(block[at] == 0, "not zero at %zu", at);
        written(block, LONG_BYTES);
        check_that_it_is_huge("calloc", LONG_BYTES);
        free(block);
    }
}

/* What is given back is as it was: no more huge pages than before. */
static void use_little_of_each(void)
{
    static char *buffers[BUFFERS];
    size_t before = huge_bytes();
    for (int i = 0; i < BUFFERS; i++) {
        CHECK((buffers[i] = malloc(BUFFER_BYTES)) != NULL, "no memory");
        buffers[i][0] = 1;
    }
    CHECK(huge_bytes() <= before, "%zu KiB of huge pages for buffers that are little used",
          (huge_bytes() - before) / KIB);
    for (int i = 0; i < BUFFERS; i++)
        free(buffers[i]);
}

/* Seen to fail where the added part is as its span was, and where the cut part stays as it is. */
static void grow_and_shrink(double factor)
{
    size_t bytes = SHORT_BYTES, before = 0;
    char *block = NULL;
    while (bytes < LONG_BYTES) {
        block = realloc(block, bytes);
        CHECK(block != NULL, "no memory");
        for (size_t at = 0; at < before; at += KIB)
            CHECK(block[at] == 0x5A, "another byte at %zu of %zu", at, bytes);
        memset(block + before, 0x5A, bytes - before);
        before = bytes;
        bytes = (size_t)((double)bytes * factor);
    }
    if (factor > 1.5)
        check_that_it_is_huge("realloc", before / 2);
    before -= CUT_BYTES;
    block = realloc(block, before);
    CHECK(block != NULL && block[before - 1] == 0x5A, "a cut block has other bytes");
    malloc_trim(0);
    CHECK(huge_bytes() <= before, "%zu KiB of huge pages in a block of %zu", huge_bytes() / KIB,
          before / KIB);
    use_little_of_each();
    free(block);
}

/* As libraries do for arrays. Seen to fail with a purge, and with a purge for zeros, that keeps the
 * advice. */
static void forget_the_programs_advice(void)
{
    enum { ADVISED = 8 };
    char *blocks[ADVISED];
    for (int i = 0; i < ADVISED; i++) {
        blocks[i] = malloc(LONG_BYTES);
        madvise((char *)(((uintptr_t)blocks[i] + 4095) & ~(uintptr_t)4095), LONG_BYTES - 8192,
                MADV_HUGEPAGE);
        written(blocks[i], LONG_BYTES);
    }
    for (int i = 0; i < ADVISED; i++)
        free(blocks[i]);
    for (int i = 0; i < ADVISED; i++) {
        blocks[i] = calloc(1, LONG_BYTES);
        CHECK(blocks[i] != NULL, "no memory");
        for (size_t at = 0; at < LONG_BYTES; at += MIB)
            blocks[i][at] = 1;
    }
    CHECK(is_always || huge_bytes() < 2 * MIB, "%zu KiB of huge pages for other blocks",
          huge_bytes() / KIB);
    for (int i = 0; i < ADVISED; i++)
        free(blocks[i]);
    malloc_trim(0);
    CHECK(!huge_pages_are_asked_for(), "the program's advice outlives its blocks");
}

static void come_and_go(void)
{
    static char *slots[SLOTS];
    unsigned long state = 1;
    for (int turn = 0; turn < TURNS; turn++) {
        size_t bytes = SLOT_BYTES_MIN +
                       random_next(&state) % (size_t)(SLOT_BYTES_MAX - SLOT_BYTES_MIN);
        char **slot = &slots[random_next(&state) % SLOTS];
        free(*slot);
        *slot = written(malloc(bytes), bytes);
    }
    for (int i = 0; i < SLOTS; i++)
        free(slots[i]);
}

/* Blocks of others lie between them, so that no two share a mapping. Seen to fail with a higher
 * HUGE_MAX, and with blocks that count for ever. */
static void leave_mappings_for_others(void)
{
    static void *blocks[MANY][2];
    size_t before = mapping_count(), most = before + 2 * HUGE_MAX + 200;
    for (int i = 0; i < MANY; i++) {
        blocks[i][0] = malloc(4 * MIB);
        blocks[i][1] = malloc(MIB);
        CHECK(blocks[i][0] != NULL && blocks[i][1] != NULL, "no memory after %d blocks", i);
    }
    CHECK(mapping_count() < most, "%zu mappings", mapping_count());
    for (int i = 0; i < MANY; i++) {
        free(blocks[i][0]);
        free(blocks[i][1]);
    }
    CHECK(mapping_count() < before + 200, "%zu mappings stay", mapping_count() - before);
    malloc_trim(0);
    void *block = hidden(malloc(LONG_BYTES));
    CHECK(huge_pages_are_asked_for() == is_always,
          "after many blocks the next one is not as the first");
    free(block);
    CHECK(!huge_pages_are_asked_for(), "a mapping goes on to ask for huge pages");
}

int main(int argc, char **argv)
{
    is_always = argc > 1 && strcmp(argv[1], "always") == 0;
    check_is_calmalloc();
    use_little_of_each(); /* the heap and its tables have grown */
    malloc_trim(0);
    size_t resident = resident_bytes(), mappings = mapping_count();

    char *untouched = malloc(LONG_BYTES);
    CHECK(untouched != NULL && resident_bytes() < resident + MIB, "an untouched block is resident");
    free(untouched);
    char *small = written(malloc(SHORT_BYTES), SHORT_BYTES);
    CHECK(huge_bytes() == 0, "%zu KiB of huge pages in a block of %d", huge_bytes() / KIB,
          SHORT_BYTES);
    free(small);
    char *block = written(malloc(LONG_BYTES), LONG_BYTES);
    size_t huge = huge_bytes();
    if (is_always && huge == 0 && !huge_pages_can_be_had())
        check_skip("this kernel gives no huge pages");
    check_that_it_is_huge("malloc", LONG_BYTES);
    free(block);
    check_that_all_is_back("malloc", resident, mappings);

    use_zeroed();
    check_that_all_is_back("calloc", resident, mappings);
    grow_and_shrink(2);
    grow_and_shrink(1.1);
    check_that_all_is_back("realloc", resident, mappings);
    forget_the_programs_advice();
    come_and_go();
    check_that_all_is_back("blocks that come and go", resident, mappings);
    use_little_of_each();
    leave_mappings_for_others();
    check_heap();
    printf("%.1f MiB of huge pages\n", (double)huge / MIB);
    return 0;
}
