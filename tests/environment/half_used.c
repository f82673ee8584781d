/*
 * half_used.c: 200 MB of 64-byte blocks, of which those on three of every four pages are freed. No
 * slab is empty, yet most of the pages that hold no live block are back with the kernel within two
 * seconds, without a further call; the live blocks keep their contents, and the free ones are
 * usable again.
 */
#define _GNU_SOURCE

#include "check.h"

#include <stdint.h>
#include <stdlib.h>

enum { BLOCK_BYTES = 64, COUNT = 200000000 / BLOCK_BYTES, PAGE = 4096 };

static bool is_kept(const void *block)
{
    return (uintptr_t)block / PAGE % 4 == 0;
}

int main(void)
{
    check_is_calmalloc();
    check_time_limit(100);
    void **blocks = book(COUNT * sizeof *blocks);
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        CHECK(blocks[i] != NULL, "no memory");
        block_sign(blocks[i], BLOCK_BYTES);
    }
    size_t full = resident_bytes();
    size_t freed = 0;
    for (size_t i = 0; i < COUNT; i++)
        if (!is_kept(blocks[i])) {
            free(blocks[i]);
            blocks[i] = NULL;
            freed++;
        }
    size_t expected = freed * BLOCK_BYTES / 10 * 8;
    size_t left = resident_bytes_within(full - expected, 2);
    CHECK(left + expected <= full, "of %zu MiB, %zu are still there after two seconds", full / MIB,
          left / MIB);
    for (size_t i = 0; i < COUNT; i++)
        CHECK(blocks[i] == NULL || block_is_signed(blocks[i], BLOCK_BYTES),
              "a live block lost its contents");
    for (size_t i = 0; i < COUNT; i++)
        if (blocks[i] == NULL) {
            blocks[i] = malloc(BLOCK_BYTES);
            CHECK(blocks[i] != NULL, "no memory");
            block_sign(blocks[i], BLOCK_BYTES);
        }
    CHECK(resident_bytes() < full + 8 * MIB, "the free blocks were not used again: %zu MiB",
          resident_bytes() / MIB);
    for (size_t i = 0; i < COUNT; i++) {
        CHECK(block_is_signed(blocks[i], BLOCK_BYTES), "a block was overwritten");
        free(blocks[i]);
    }
    return 0;
}
