/*
 * cache_sizes.h: how many blocks a bin may hold in a cache, whatever its budget; for cache.c.
 */
#ifndef CALM_CORE_CACHE_SIZES_H
#define CALM_CORE_CACHE_SIZES_H

#include "core/cache.h"
#include "core/depot.h"

enum {
    BLOCKS_SHARED = 2 * BATCH_BLOCKS + 1, /* of a bin that hands over batches, until more pays */
    SPAN_BYTES_A_BIN = 4 * 1024 * 1024,
};

static inline bool is_span_bin(unsigned bin)
{
    return bin_class(bin) == CLASS_SPAN;
}

/* What frees alone let a bin hold where caches hand batches to each other, which others take as
 * they are: two batches, or as many bytes as one may have. */
static inline size_t blocks_ample(unsigned bin)
{
    size_t alone = class_facts[bin_class(bin)].cached;
    return size_min(size_max(alone, BATCH_BYTES / bin_bytes(bin)), BLOCKS_SHARED);
}

/* What a bin of so many blocks may grow to. */
static inline size_t blocks_max(unsigned bin, size_t blocks)
{
    if (is_span_bin(bin))
        return size_min(size_max(SPAN_BYTES_A_BIN / bin_bytes(bin), 1), SPAN_BLOCKS_MAX);
    if (BLOCKS_FIXED != 0)
        return BLOCKS_FIXED;
    size_t alone = class_facts[bin_class(bin)].cached;
    if (!depot_is_shared(bin))
        return alone;
    if (blocks < blocks_ample(bin))
        return blocks_ample(bin);
    return size_max(alone, 2 * batch_blocks_of(bin_bytes(bin)) + 1);
}

#endif
