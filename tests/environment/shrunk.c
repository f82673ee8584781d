/*
 * shrunk.c: a program reads into a large buffer, shrinks it to what came and keeps that, again and
 * again: what it keeps must not pin the ranges of the buffers, or address space runs out.
 *
 * Seen to fail where such a block is cut in place.
 */
#include "check.h"

#include <stdio.h>
#include <string.h>

enum { ROUNDS = 300 };

static void run(size_t large, size_t kept)
{
    static char *blocks[ROUNDS];
    size_t before = virtual_bytes();
    for (size_t i = 0; i < ROUNDS; i++) {
        char *block = malloc(large);
        CHECK(block != NULL, "no buffer of %zu MiB after %zu", large / MIB, i);
        memset(block, (int)i, kept);
        blocks[i] = realloc(block, kept);
        CHECK(blocks[i] != NULL, "not shrunk to %zu KiB after %zu", kept / KIB, i);
    }
    size_t now = virtual_bytes(), allowed = 2 * large + 2 * ROUNDS * kept + 64 * MIB;
    /* It may have fallen: the purger unmaps what an earlier run freed. */
    CHECK(now < before + allowed, "%zu MiB of addresses, %zu before, for %zu blocks of %zu KiB",
          now / MIB, before / MIB, (size_t)ROUNDS, kept / KIB);
    for (size_t i = 0; i < ROUNDS; i++) {
        for (size_t at = 0; at < kept; at += 1000)
            CHECK(blocks[i][at] == (char)i, "what was kept is not what it was");
        free(blocks[i]);
    }
}

int main(void)
{
    check_is_calmalloc();
    free(hidden(malloc(100))); /* the heap's own reservations come first */
    run(512 * MIB, 40 * KIB);
    run(64 * MIB, 100 * KIB);
    run(64 * MIB, 7 * MIB);
    check_heap();
    return 0;
}
