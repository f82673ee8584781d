/*
 * sampled.c: allocates sampled blocks, from depots and from spans.
 *
 * Owner: depots and spans have their own locks. Design: docs/design/profiler.md
 */
#include "core/sampled.h"

#include "core/large.h"

/* Allocates from the spans, without the large cache. */
static void *large_placed(size_t bytes, size_t align, bool is_zeroed, unsigned owner)
{
    bool is_zero;
    void *block = large_acquire(large_units(bytes), size_max(align >> UNIT_SHIFT, 1), owner,
                                &is_zero);
    if (block == NULL)
        return NULL;
    return is_zeroed && !is_zero ? __builtin_memset(block, 0, bytes) : block;
}

/* Allocates as the heap does, and marks the block as sampled. */
static void *large(size_t bytes, size_t align, bool is_zeroed, uint32_t cohort_offset)
{
    void *block = bytes <= MEDIUM_MAX || align > UNIT_BYTES
                      ? large_placed(bytes, align, is_zeroed, offset_owner(cohort_offset))
                  : is_zeroed ? heap_alloc_zeroed(bytes, cohort_offset)
                              : heap_alloc_slow(bytes, cohort_offset);
    if (block != NULL)
        large_mark_sampled(block);
    return block;
}

void *sampled_alloc(size_t bytes, size_t align, bool is_zeroed, uint32_t cohort_offset)
{
    if (align > PTRDIFF_MAX || !heap_start())
        return NULL;
    unsigned class = class_aligned(bytes, align);
    if (class == 0 || rows_are_separate)
        return large(bytes, align, is_zeroed, cohort_offset);
    void *block = sampled_small(class);
    return block != NULL && is_zeroed ? __builtin_memset(block, 0, bytes) : block;
}

bool sampled_is(const void *block)
{
    unsigned bin = region_bin(region_chunk(block));
    return bin == NO_SLAB ? large_is_sampled(block) : bin_is_sampled(bin);
}
