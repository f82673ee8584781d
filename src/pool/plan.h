/*
 * plan.h: a configuration checked and laid out: where everything of a pool will lie.
 *
 * Pure arithmetic: what calm_pool_bound says and what calm_pool_create does come from the same
 * plan. All offsets count from the pool's first byte. The order is: the pool itself with its
 * classes, each class's bookkeeping, each class's blocks.
 */
#ifndef CALM_POOL_PLAN_H
#define CALM_POOL_PLAN_H

#include "base/bits.h"
#include "calmalloc/pool.h"

struct plan_class {
    size_t block_bytes; /* declared                                                         */
    size_t stride;      /* what a block takes                                               */
    size_t align;       /* of each block, a power of two                                    */
    size_t blocks_at;
    size_t
        map_at; /* both planes, one behind the other, a word of each for 64 blocks; and `pending` */
    size_t near_at, far_at, meta_end;
    uint32_t blocks;
    uint32_t words; /* of the map */
};

struct plan {
    size_t bytes;
    size_t meta_end;  /* behind all bookkeeping                                             */
    size_t blocks_at; /* the first block                                                    */
    size_t end;       /* behind the last block                                              */
    unsigned count;
    struct plan_class classes[CALM_POOL_CLASSES_MAX];
};

ALWAYS_INLINE size_t words_for(size_t bits)
{
    return (bits + 63) / 64;
}

/* 0, or the CALM_E code of what is wrong with the configuration; then *out is unspecified. */
int plan_make(const struct calm_pool_config *config, struct plan *out);

#endif
