/*
 * plan.h: a checked configuration, laid out: the place of every part of a pool.
 *
 * Pure arithmetic: calm_pool_bound and calm_pool_create use one plan. All offsets count from the
 * pool's first byte. The order is: the pool with its classes, each class's metadata, each class's
 * blocks.
 */
#ifndef CALM_POOL_PLAN_H
#define CALM_POOL_PLAN_H

#include "base/bits.h"
#include "calmalloc/pool.h"

struct plan_class {
    size_t block_bytes; /* as declared                                                      */
    size_t stride;      /* bytes from one block to the next                                 */
    size_t align;       /* of each block, a power of two                                    */
    size_t blocks_at;
    size_t map_at; /* planes `free`, `freed`, a bit a block; then the pending levels */
    size_t near_at, far_at, meta_end;
    uint32_t blocks;
    uint32_t words; /* of one plane */
};

struct plan {
    size_t bytes;
    size_t meta_end;  /* end of all metadata                                                */
    size_t blocks_at; /* offset of the first block                                          */
    size_t end;       /* end of the last block                                              */
    unsigned count;
    struct plan_class classes[CALM_POOL_CLASSES_MAX];
};

ALWAYS_INLINE size_t words_for(size_t bits)
{
    return (bits + 63) / 64;
}

/* Returns 0, or the configuration's CALM_E code; then *out is unspecified. */
int plan_make(const struct calm_pool_config *config, struct plan *out);

#endif
