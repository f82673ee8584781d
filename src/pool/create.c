/*
 * create.c: makes a pool from its plan, and destroys it. May take time, fail or ask the kernel.
 *
 * On failure nothing remains: a mapping is returned, locked pages are unlocked, an entry in the
 * table of pools is released. Memory that the caller gave may have been written.
 *
 * Design: docs/design/pool.md
 */
#include "base/claim.h"
#include "pool/plan.h"
#include "pool/pool.h"
#include "pool/pools.h"

enum { INVERSE_STEPS = 5 };

/* The inverse of an odd number modulo 2^64. The number itself is right in three bits; each Newton
 * step doubles them. */
static uint64_t inverse_of(uint64_t odd)
{
    uint64_t inverse = odd;
    for (unsigned i = 0; i < INVERSE_STEPS; i++)
        inverse *= 2 - odd * inverse;
    return inverse;
}

static void fill_class(calm_pool *pool, const struct plan_class *plan, struct pool_class *class)
{
    char *start = (char *)pool;
    unsigned shift = bit_lowest(plan->stride);
    *class = (struct pool_class){
        .free = (pool_word *)(start + plan->map_at),
        .blocks_at = (size_t)(start + plan->blocks_at - pool->blocks),
        .inverse = inverse_of(plan->stride >> shift),
        .near = (uint64_t *)(start + plan->near_at),
        .far = (uint64_t *)(start + plan->far_at),
        .stride = (uint32_t)plan->stride,
        .blocks = plan->blocks,
        .align = (uint16_t)plan->align,
        .shift = (uint8_t)shift,
        .index = (uint8_t)(class - pool->classes),
        .hot_word = &pool->nothing,
        .hot = POOL_NONE,
        .counted = plan->blocks,
        .least_free = plan->blocks,
    };
}

/* A class as the tables store it: bytes from the pool's start. */
static uint16_t offset_of(const calm_pool *pool, uint32_t index)
{
    return (uint16_t)((const char *)&pool->classes[index] - (const char *)pool);
}

/* Fills the tables that map sizes and addresses to classes. */
static void fill_tables(calm_pool *pool, const struct plan *plan)
{
    for (unsigned i = 0; i < KEYS; i++) {
        pool->declared[i] = i < plan->count ? plan->classes[i].block_bytes : UINT64_MAX;
        pool->last_byte[i] = i + 1 < plan->count ? pool->classes[i + 1].blocks_at - 1 : UINT64_MAX;
    }
    for (size_t bytes = 0; bytes <= POOL_TABLE_BYTES; bytes++)
        pool->class_of_size[bytes] = offset_of(
            pool, bytes <= pool->largest ? keys_below(pool->declared, bytes) : plan->count);
    for (size_t kib = 1; kib < POOL_KIB; kib++) {
        uint32_t first = keys_below(pool->declared, size_min(kib * 1024 + 1, pool->largest));
        uint32_t last = keys_below(pool->declared, size_min(kib * 1024 + 1024, pool->largest));
        pool->class_of_kib[kib] = first == last ? offset_of(pool, first) : POOL_MIXED;
    }
    while ((pool->blocks_bytes - 1) >> pool->granule_shift >= POOL_GRANULES)
        pool->granule_shift++;
    for (size_t i = 0; i < POOL_GRANULES; i++) {
        size_t last = ((i + 1) << pool->granule_shift) - 1;
        pool->class_at[i] = offset_of(pool, keys_below(pool->last_byte, last));
    }
    for (unsigned i = 0; i < plan->count; i++)
        for (unsigned log = 0; log <= bit_lowest(plan->classes[i].align); log++)
            pool->with_align[log] |= level_bit(i);
}

static void fill_watch(calm_pool *pool)
{
    struct calm_pool_occupancy *watch = &pool->watch;
    watch->classes = (uint16_t)pool->class_count;
    watch->is_coded = pool->class_count > POOL_EXACT_MAX;
    for (uint32_t i = 0; i < pool->class_count; i++) {
        uint32_t blocks = pool->classes[i].blocks;
        unsigned code = bit_highest(blocks) + 1 < 15 ? bit_highest(blocks) + 1 : 15;
        pool->classes[i].count = &pool->classes[i].counted;
        if (watch->is_coded) {
            watch->known.code[i / 2] = (uint8_t)(watch->known.code[i / 2] | code << (i % 2 * 4));
        } else {
            watch->known.blocks[i] = blocks;
            pool->classes[i].count = (_Atomic uint32_t *)&watch->known.blocks[i];
        }
    }
    store(&pool->detours, watch->is_coded ? POOL_IS_CODED : 0, RELAXED);
}

static calm_pool *fill_pool(void *memory, const struct calm_pool_config *config,
                            const struct plan *plan)
{
    calm_pool *pool = (calm_pool *)memory;
    __builtin_memset(pool, 0, sizeof *pool);
    pool->blocks = (char *)memory + plan->blocks_at;
    pool->blocks_bytes = plan->end - plan->blocks_at;
    pool->largest = plan->classes[plan->count - 1].block_bytes;
    pool->class_count = plan->count;
    pool->spills = (config->flags & CALM_POOL_SPILL) != 0;
    pool->is_mapped = config->memory == NULL;
    pool->is_locked = (config->flags & CALM_POOL_LOCK) != 0;
    pool->bytes = plan->bytes;
    for (unsigned i = 0; i < plan->count; i++)
        fill_class(pool, &plan->classes[i], &pool->classes[i]);
    pool->classes[plan->count] = (struct pool_class){
        .index = (uint8_t)plan->count, .hot_word = &pool->nothing, .hot = POOL_NONE};
    fill_tables(pool, plan);
    fill_watch(pool);
    return pool;
}

/* Maps the memory, or takes the caller's; populates and locks pages as the flags say. */
static int claim(const struct calm_pool_config *config, size_t bytes, void **out)
{
    bool is_huge = (config->flags & CALM_POOL_HUGE) != 0;
    void *start = config->memory;
    if (start == NULL) {
        int refused = claim_map(bytes, is_huge, &start);
        if (refused != 0)
            return is_huge && refused == CLAIM_NO_HUGE ? CALM_EHUGE : CALM_ENOMEM;
    }
    int error = 0;
    if ((config->flags & CALM_POOL_LOCK) != 0 && claim_lock(start, bytes) != 0)
        error = CALM_ELOCK;
    else if ((config->flags & CALM_POOL_LAZY) == 0 && claim_populate(start, bytes) != 0)
        error = CALM_ENOMEM;
    if (error == CALM_ENOMEM && (config->flags & CALM_POOL_LOCK) != 0)
        claim_unlock(start, bytes);
    if (error != 0 && config->memory == NULL)
        claim_return(start, bytes);
    *out = start;
    return error;
}

static void unclaim(void *start, size_t bytes, bool is_mapped, bool is_locked)
{
    if (is_mapped)
        claim_return(start, bytes);
    else if (is_locked)
        claim_unlock(start, bytes);
}

EXPORT int calm_pool_create(const struct calm_pool_config *config, calm_pool **out)
{
    struct plan plan;
    if (out == NULL)
        return CALM_ENULL;
    int error = plan_make(config, &plan);
    if (error != 0)
        return error;
    void *memory;
    error = claim(config, plan.bytes, &memory);
    if (error != 0)
        return error;
    calm_pool *pool = fill_pool(memory, config, &plan);
    if (!pools_add(pool)) {
        unclaim(pool, pool->bytes, pool->is_mapped, pool->is_locked);
        return CALM_EPOOLS;
    }
    *out = pool;
    return CALM_OK;
}

EXPORT int calm_pool_init(calm_pool **out, const size_t *block_bytes, size_t classes,
                          const uint32_t *percent, size_t bytes)
{
    struct calm_pool_config config = {
        .block_bytes = block_bytes, .percent = percent, .classes = classes, .bytes = bytes};
    return calm_pool_create(&config, out);
}

EXPORT void calm_pool_destroy(calm_pool *pool)
{
    if (pool == NULL)
        return;
    pools_remove(pool);
    unclaim(pool, pool->bytes, pool->is_mapped, pool->is_locked);
}
