/*
 * region.c: memory allocated piece by piece and released back to a mark.
 *
 * Owner: one thread at a time. R1: used_bytes <= most_bytes <= bytes.
 */
#include "base/bits.h"
#include "calmalloc/pool.h"

EXPORT int calm_region_init(struct calm_region *region, void *memory, size_t bytes)
{
    if (region == NULL || memory == NULL)
        return CALM_ENULL;
    if ((uintptr_t)memory > UINTPTR_MAX - bytes)
        return CALM_EMEMORY_END;
    *region = (struct calm_region){.start = (char *)memory, .bytes = bytes};
    return CALM_OK;
}

EXPORT void *calm_region_alloc(struct calm_region *region, size_t bytes,
                               size_t align) CALM_NONBLOCKING
{
    if (!is_power_of_two(align))
        return NULL;
    size_t gap = (0 - ((uintptr_t)region->start + region->used_bytes)) & (align - 1);
    size_t room = region->bytes - region->used_bytes;
    if (gap > room || bytes > room - gap)
        return NULL;
    void *block = region->start + region->used_bytes + gap;
    region->used_bytes += gap + bytes;
    region->most_bytes = size_max(region->most_bytes, region->used_bytes);
    return block;
}

EXPORT calm_region_mark calm_region_top(const struct calm_region *region)
{
    return region->used_bytes;
}

EXPORT int calm_region_release(struct calm_region *region, calm_region_mark mark)
{
    if (mark > region->used_bytes)
        return CALM_EMARK;
    region->used_bytes = mark;
    return CALM_OK;
}
