/*
 * stats.c: functions of a pool without a time bound: statistics, and the check of its invariants.
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
            .free_blocks = load(class->count, RELAXED),
            .least_free = class->least_free,
            .allocs = class->allocs,
            .remote_frees = class->remote_frees,
        };
    }
}

EXPORT uint64_t calm_pool_watch_bytes(const struct calm_pool_occupancy *watch)
{
    const calm_pool *pool = (const calm_pool *)((uintptr_t)watch -
                                                offsetof(struct calm_pool, watch));
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < pool->class_count; i++)
        bytes += (uint64_t)load(pool->classes[i].count, RELAXED) * pool->classes[i].stride;
    return bytes;
}

static bool is_raised(const struct pool_class *class, uint32_t w)
{
    return (class->near[w >> LEVEL_BITS] & level_bit(w & 63)) != 0;
}

/* L1: the upper levels match the level below. */
static bool levels_agree(const struct pool_class *class)
{
    uint32_t near_words = (words_begun(class) + 63) / 64;
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

static bool has_bit(const pool_word *word, uint32_t i)
{
    return (load(word, RELAXED) & level_bit(i)) != 0;
}

static bool is_pending(const calm_pool *pool, const struct pool_class *class, uint32_t w)
{
    return has_bit(&pending_near(class)[w / 64], w % 64) &&
           has_bit(&pending_far(class)[w / 4096], w / 64 % 64) &&
           has_bit(&pool->pending[class->index], w / 4096);
}

static verdict verify_words(const calm_pool *pool, const struct pool_class *class)
{
    uint32_t begun = load(&class->begun, RELAXED), lowest = POOL_NONE;
    uint32_t known = class->blocks - begun;
    if (begun > class->blocks || (begun % 64 != 0 && begun != class->blocks))
        return "P0: a part of a word is begun";
    for (uint32_t w = 0; w < words_begun(class); w++) {
        pool_word *word = &class->free[w];
        uint64_t free = load(word, RELAXED);
        uint64_t either = free | load(word_freed(class, word), ACQUIRE);
        uint32_t blocks = class->blocks - w * 64 < 64 ? class->blocks - w * 64 : 64;
        if (blocks < 64 && either >> blocks != 0)
            return "P1: a block behind the last one is free";
        if ((either ^ free) != 0 && !is_pending(pool, class, w))
            return "P7: what others freed is not pending";
        if (is_raised(class, w) && free == 0 && w != class->hot)
            return "P2: a word without a free block is found";
        if (!is_raised(class, w) && free != 0)
            return "P2: a word with a free block is not found";
        known += level_count(free);
        if (is_raised(class, w) && lowest == POOL_NONE)
            lowest = w;
    }
    if (known != load(class->count, RELAXED))
        return "P3: free blocks do not sum up";
    return is_hot_right(pool, class, lowest) ? NULL
                                             : "P4: hot is not the first word that has blocks";
}

static bool is_latest_right(const calm_pool *pool)
{
    const struct pool_latest *latest = &pool->latest;
    const struct pool_class *class = latest->of;
    if (class == NULL || load(&pool->detours, RELAXED) != 0)
        return latest->block == NULL || class != NULL;
    bool is_out = latest->block != NULL;
    uint64_t lowest = latest->word & (0 - latest->word);
    return lowest != 0 &&
           load(class->hot_word, RELAXED) == (latest->word ^ (is_out ? lowest : 0)) &&
           (is_out ? latest->block : latest->back) ==
               class->hot_start + (size_t)bit_lowest(lowest) * class->stride;
}

verdict pool_verify(const calm_pool *pool)
{
    for (uint32_t i = 0; i < pool->class_count; i++) {
        const struct pool_class *class = &pool->classes[i];
        if (!levels_agree(class))
            return "L1: a level does not say what lies below it";
        verdict found = verify_words(pool, class);
        if (found != NULL)
            return found;
        if (calm_pool_watch_free(&pool->watch, i) > load(class->count, RELAXED))
            return "P5: the watch line says more than is free";
    }
    return is_latest_right(pool) ? NULL : "P6: the block handed out last would be freed wrongly";
}
