/*
 * huge_option.c FROM_MIB: a heap that grows to 40 MiB has huge pages from FROM_MIB on, and none
 * before; 0: none at all. No mapping ever asks for them, so that the kernel makes none by itself of
 * what was given back; and all of it comes back. Buffers of which little is used have none. By the
 * kernel's own figures.
 */
#define _GNU_SOURCE

#include "check.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAP_MIB = 40, BLOCK_BYTES = 1024, BUFFERS = 4000, BUFFER_BYTES = 20 * 1000 };

static void *blocks[HEAP_MIB * 1024];

static void check_that_nothing_asks(void)
{
    CHECK(!huge_pages_are_asked_for(), "a mapping asks for huge pages");
}

static void grow(int from_mib)
{
    for (int i = 0; i < HEAP_MIB * 1024; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        CHECK(blocks[i] != NULL, "no memory");
        *(char *)blocks[i] = 1;
        if (i % 1024 != 0)
            continue;
        check_that_nothing_asks();
        CHECK(huge_bytes() == 0 || (from_mib != 0 && i / 1024 >= from_mib - 2),
              "%zu KiB of huge pages in a heap of %d MiB", huge_bytes() / KIB, i / 1024);
    }
}

/* Seen to fail with huge pages for slabs of all classes. */
static void use_little_of_each(void)
{
    static char *buffers[BUFFERS];
    for (int i = 0; i < BUFFERS; i++) {
        CHECK((buffers[i] = malloc(BUFFER_BYTES)) != NULL, "no memory");
        buffers[i][0] = 1;
    }
    CHECK(huge_bytes() == 0, "%zu KiB of huge pages for buffers that are little used",
          huge_bytes() / KIB);
    for (int i = 0; i < BUFFERS; i++)
        free(buffers[i]);
    malloc_trim(0);
}

int main(int argc, char **argv)
{
    int from_mib = argc > 1 ? atoi(argv[1]) : 0;
    check_is_calmalloc();
    use_little_of_each();
    size_t before = resident_bytes();
    grow(from_mib);
    size_t huge = huge_bytes();
    if (from_mib != 0 && huge == 0 && !huge_pages_can_be_had())
        check_skip("this kernel gives no huge pages");
    CHECK(from_mib == 0 || huge > 0, "no huge pages in a heap of %d MiB", HEAP_MIB);
    for (int i = 0; i < HEAP_MIB * 1024; i++)
        free(blocks[i]);
    malloc_trim(0);
    check_that_nothing_asks();
    CHECK(huge_bytes() == 0, "%zu KiB of huge pages stay", huge_bytes() / KIB);
    CHECK(resident_bytes() < before + MIB, "%zu KiB stay", (resident_bytes() - before) / KIB);
    printf("%.1f MiB of huge pages\n", (double)huge / MIB);
    return 0;
}
