/*
 * stamped.h: blocks that carry their length and a random stamp, and are touched at both ends.
 *
 * The sum of the stamps of what is freed must be that of what was made: so nothing is lost, and
 * nothing comes twice.
 */
#ifndef CALM_BENCH_STAMPED_H
#define CALM_BENCH_STAMPED_H

#include "workload.h"

struct block {
    uint32_t bytes;
    uint32_t stamp;
    unsigned char rest[];
};

/* A block of so many bytes, more than a head. */
static inline struct block *stamped_make(uint32_t bytes, uint64_t *random)
{
    struct block *block = allocate(bytes, 0);
    block->bytes = bytes;
    block->stamp = (uint32_t)next_random(random);
    ((volatile unsigned char *)block)[bytes - 1] = (unsigned char)bytes;
    return block;
}

/* Frees a block of `least` bytes, or less than `span` more. Returns its stamp. */
static inline uint32_t stamped_free(struct block *block, uint32_t least, uint32_t span)
{
    uint32_t bytes = block->bytes, stamp = block->stamp;
    if (bytes - least >= span || ((unsigned char *)block)[bytes - 1] != (unsigned char)bytes)
        fail("a live block was written to by someone else");
    free(block);
    return stamp;
}

#endif
