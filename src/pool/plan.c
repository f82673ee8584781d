/*
 * plan.c: checks a configuration, then lays out the pool.
 *
 * The pool's own part is deducted first; the rest is divided into shares. Each class pays from its
 * share for its blocks, its metadata and the rounding of both. Where numbers of blocks are
 * declared, the pool has the bytes that they need, wherever it begins. No product can overflow:
 * bytes are below 2^46, blocks at most 2^24, a stride at most 2^20.
 */
#include "pool/plan.h"

#include "pool/levels.h"
#include "pool/pool.h"

enum { SHARE_WHOLE = 100, ALL_FLAGS = 15, PART_ALIGN = CACHE_LINE_BYTES };

static const size_t bytes_limit = (size_t)1 << 46;

static int check_arrays(const struct calm_pool_config *config)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < config->classes; i++) {
        if (config->block_bytes[i] == 0)
            return CALM_EBLOCK_ZERO;
        if (config->block_bytes[i] > CALM_POOL_BLOCK_MAX)
            return CALM_EBLOCK_LARGE;
        if (i > 0 && config->block_bytes[i] <= config->block_bytes[i - 1])
            return CALM_EORDER;
        if (config->percent != NULL && config->percent[i] == 0)
            return CALM_ESHARE_ZERO;
        if (config->blocks != NULL && config->blocks[i] == 0)
            return CALM_EBLOCKS_ZERO;
        if (config->blocks != NULL && config->blocks[i] > CALM_POOL_BLOCKS_MAX)
            return CALM_EBLOCKS;
        sum += config->percent != NULL ? config->percent[i] : 0;
    }
    return config->percent == NULL || sum == SHARE_WHOLE ? 0 : CALM_ESHARES;
}

static int check_memory(const struct calm_pool_config *config)
{
    if (config->bytes == 0 && (config->blocks == NULL || config->memory != NULL))
        return CALM_EBYTES_ZERO;
    if (config->bytes > bytes_limit)
        return CALM_EBYTES_LARGE;
    if (config->memory == NULL)
        return 0;
    if ((config->flags & CALM_POOL_HUGE) != 0)
        return CALM_EFLAGS_MEMORY;
    if ((uintptr_t)config->memory % CALM_POOL_MEMORY_ALIGN != 0)
        return CALM_EMEMORY_ALIGN;
    return (uintptr_t)config->memory > UINTPTR_MAX - config->bytes ? CALM_EMEMORY_END : 0;
}

static int check(const struct calm_pool_config *config)
{
    if (config == NULL || config->block_bytes == NULL ||
        (config->percent == NULL && config->blocks == NULL))
        return CALM_ENULL;
    if (config->percent != NULL && config->blocks != NULL)
        return CALM_EBOTH;
    if (config->classes == 0 || config->classes > CALM_POOL_CLASSES_MAX)
        return CALM_ECLASSES;
    if ((config->flags & ~(unsigned)ALL_FLAGS) != 0)
        return CALM_EFLAGS;
    if ((config->flags & CALM_POOL_LAZY) != 0 && (config->flags & CALM_POOL_LOCK) != 0)
        return CALM_EFLAGS_LAZY;
    int error = check_arrays(config);
    return error != 0 ? error : check_memory(config);
}

static size_t stride_of(size_t block_bytes)
{
    if (block_bytes > 8)
        return align_up(block_bytes, 8);
    return block_bytes == 1 ? 1 : (size_t)1 << (bit_highest(block_bytes - 1) + 1);
}

/* Bytes of the pool struct, its classes and the empty class after the last. */
static size_t own_bytes(unsigned classes)
{
    return align_up(sizeof(struct calm_pool) + (classes + 1) * sizeof(struct pool_class),
                    PART_ALIGN);
}

/* Places a class's metadata at `at`. Returns its end. */
static size_t place_meta(struct plan_class *class, size_t at)
{
    size_t words = words_for(class->blocks);
    class->words = (uint32_t)words;
    class->map_at = at;
    size_t near_bytes = words_for(words) * sizeof(uint64_t);
    size_t far_bytes = words_for(words_for(words)) * sizeof(uint64_t);
    size_t pending_at = class->map_at + 2 * words * sizeof(pool_word);
    class->near_at = pending_at + near_bytes + far_bytes;
    class->far_at = class->near_at + near_bytes;
    class->meta_end = class->far_at + far_bytes;
    return align_up(class->meta_end, PART_ALIGN);
}

/* Bytes that a class with `blocks` needs, including metadata and rounding. */
static size_t cost_of(struct plan_class *class, size_t blocks)
{
    class->blocks = (uint32_t)blocks;
    size_t meta = place_meta(class, 0);
    return meta + size_max(class->align, PART_ALIGN) - 1 + blocks * class->stride;
}

/* Finds the most blocks that the share pays for. */
static int fill_share(struct plan_class *class, size_t share)
{
    size_t fits = 0, limit = (size_t)CALM_POOL_BLOCKS_MAX + 1;
    while (limit - fits > 1) {
        size_t middle = fits + (limit - fits) / 2;
        if (cost_of(class, middle) <= share)
            fits = middle;
        else
            limit = middle;
    }
    if (fits == 0)
        return CALM_ESHARE_SMALL;
    if (fits == CALM_POOL_BLOCKS_MAX && cost_of(class, fits + 1) <= share)
        return CALM_EBLOCKS;
    cost_of(class, fits);
    return 0;
}

/* Alignment refers to addresses, so the pool's own address counts; a mapping begins on a page. */
static void place_all(struct plan *out, uintptr_t origin)
{
    size_t at = own_bytes(out->count);
    for (unsigned i = 0; i < out->count; i++)
        at = place_meta(&out->classes[i], at);
    out->meta_end = at;
    for (unsigned i = 0; i < out->count; i++) {
        struct plan_class *class = &out->classes[i];
        at = align_up(origin + at, size_max(class->align, PART_ALIGN)) - origin;
        class->blocks_at = at;
        at += class->blocks * class->stride;
    }
    out->blocks_at = out->classes[0].blocks_at;
    out->end = at;
}

/* Gives each class as many blocks as its share pays for. */
static int share_out(const struct calm_pool_config *config, struct plan *out)
{
    size_t shared = config->bytes - own_bytes(out->count);
    for (unsigned i = 0; i < out->count; i++) {
        size_t percent = config->percent[i];
        size_t share = shared / SHARE_WHOLE * percent +
                       shared % SHARE_WHOLE * percent / SHARE_WHOLE;
        int error = fill_share(&out->classes[i], share);
        if (error != 0)
            return error;
    }
    return 0;
}

/* Gives each class its declared blocks, if the bytes suffice; 0 bytes become the bytes needed. */
static int count_out(const struct calm_pool_config *config, struct plan *out)
{
    size_t bytes = own_bytes(out->count);
    for (unsigned i = 0; i < out->count; i++)
        bytes += cost_of(&out->classes[i], config->blocks[i]);
    if (out->bytes == 0)
        out->bytes = bytes;
    return bytes <= out->bytes ? 0 : CALM_EBYTES_SMALL;
}

int plan_make(const struct calm_pool_config *config, struct plan *out)
{
    int error = check(config);
    if (error != 0)
        return error;
    out->bytes = config->bytes;
    out->count = (unsigned)config->classes;
    if (config->blocks == NULL && config->bytes <= own_bytes(out->count))
        return CALM_EBYTES_SMALL;
    for (unsigned i = 0; i < out->count; i++) {
        struct plan_class *class = &out->classes[i];
        class->block_bytes = config->block_bytes[i];
        class->stride = stride_of(class->block_bytes);
        class->align = size_min((size_t)1 << bit_lowest(class->stride), CALM_POOL_ALIGN_MAX);
    }
    error = config->blocks == NULL ? share_out(config, out) : count_out(config, out);
    if (error == 0)
        place_all(out, (uintptr_t)config->memory);
    return error;
}
