/*
 * stats.c: what a pool can be asked when time does not count: statistics, and the walk that holds
 * its invariants.
 */
#include "pool/pool.h"

EXPORT void calm_pool_stats_read(const calm_pool *pool, struct calm_pool_stats *out)
{
    *out = (struct calm_pool_stats){
        .classes = pool->class_count,
        .failed = pool->failed,
        .misuses = pool->misuses + load(&pool->remote_misuses, RELAXED),
        .spills = pool->spilled,
    };
    for (uint32_t i = 0; i < pool->class_count; i++) {
        const struct pool_class *class = &pool->classes[i];
        out->by_class[i] = (struct calm_pool_class_stats){
            .block_bytes = (size_t)pool->declared[i],
            .stride_bytes = class->stride,
            .blocks = class->blocks,
            .free_blocks = class->free_known,
            .least_free = class->least_free,
            .allocs = class->allocs,
            .remote_frees = class->remote_frees,
        };
    }
}

static bool is_raised(const struct pool_class *class, uint32_t w)
{
    return (class->near[w >> LEVEL_BITS] & level_bit(w & 63)) != 0;
}

/* L1: the upper levels say of the lower what is so. */
static bool levels_agree(const struct pool_class *class)
{
    uint32_t near_words = (class->words + 63) / 64;
    for (uint32_t n = 0; n < near_words; n++)
        if ((class->near[n] != 0) != ((class->far[n >> LEVEL_BITS] & level_bit(n & 63)) != 0))
            return false;
    for (uint32_t f = 0; f < (near_words + 63) / 64; f++)
        if ((class->far[f] != 0) != ((class->root & level_bit(f)) != 0))
            return false;
    return true;
}

static bool is_hot_right(const calm_pool *pool, const struct pool_class *class, uint32_t lowest)
{
    if (lowest == POOL_NONE)
        return class->hot == lowest && class->hot_word == &pool->nothing &&
               load(&pool->nothing, RELAXED) == 0;
    return class->hot == lowest && class->hot_word == &class->free[lowest] &&
           class->hot_start ==
               pool->blocks + class->blocks_at + (size_t)lowest * 64 * class->stride;
}

static verdict verify_words(const calm_pool *pool, const struct pool_class *class)
{
    uint32_t known = 0, lowest = POOL_NONE;
    for (uint32_t w = 0; w < class->words; w++) {
        pool_word *word = &class->free[w];
        uint64_t free = load(word, RELAXED);
        uint64_t either = free | load(word_freed(class, word), ACQUIRE);
        uint32_t blocks = class->blocks - w * 64 < 64 ? class->blocks - w * 64 : 64;
        if (blocks < 64 && either >> blocks != 0)
            return "P1: a block behind the last one is free";
        if (is_raised(class, w) && free == 0 && w != class->hot)
            return "P2: a word without a free block is found";
        if (!is_raised(class, w) && free != 0)
            return "P2: a word with a free block is not found";
        known += level_count(free);
        if (is_raised(class, w) && lowest == POOL_NONE)
            lowest = w;
    }
    if (known != class->free_known)
        return "P3: free blocks do not sum up";
    return is_hot_right(pool, class, lowest) ? NULL
                                             : "P4: hot is not the first word that has blocks";
}

verdict pool_verify(const calm_pool *pool)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < pool->class_count; i++) {
        const struct pool_class *class = &pool->classes[i];
        if (!levels_agree(class))
            return "L1: a level does not say what lies below it";
        verdict found = verify_words(pool, class);
        if (found != NULL)
            return found;
        bytes += (uint64_t)class->free_known * class->stride;
        if (calm_pool_watch_free(&pool->watch, i) > class->free_known)
            return "P5: the watch line says more than is free";
    }
    return bytes == pool->watch.free_bytes ? NULL : "P5: the watch line's bytes do not sum up";
}
