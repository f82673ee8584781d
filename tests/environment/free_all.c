/*
 * free_all.c: blocks of 120 bytes (the argument says how many) are allocated, written and all
 * freed; then the process never calls the heap again. Within a second at least 95 % of the memory
 * is back with the kernel.
 */
#define _GNU_SOURCE

#include "check.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 120 };

int main(int argc, char **argv)
{
    size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 5000000;
    check_is_calmalloc();
    check_time_limit(280);
    void **blocks = book(count * sizeof *blocks);
    memset(blocks, 1, count * sizeof *blocks);
    size_t before = resident_bytes();
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        CHECK(blocks[i] != NULL, "no memory");
        memset(blocks[i], 1, BLOCK_BYTES);
    }
    size_t full = resident_bytes();
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
    size_t target = before + (full - before) / 20;
    size_t left = resident_bytes_within(target, 1);
    CHECK(left <= target, "of %zu MiB, %zu are still there after a second", full / MIB, left / MIB);
    return 0;
}
