/*
 * extent.c: moves the front of a reserved range; see extent.h.
 *
 * Owner: whoever owns the extent serialises extent_commit; anyone may read the front.
 */
#include "mem/extent.h"

#include "base/bits.h"
#include "os/os.h"

enum { NO_MEMORY = -12 }; /* -ENOMEM, the only failure there is */

int extent_reserve(struct extent *extent, size_t size, size_t align, const char *name)
{
    void *start;
    int error = os_counted(os_reserve(size, align, &start));
    if (error != 0)
        return error;
    *extent = (struct extent){.start = start, .reserved = size, .name = name};
    return 0;
}

int extent_commit(struct extent *extent, size_t needed, size_t step)
{
    size_t committed = load(&extent->committed, RELAXED);
    if (needed <= committed)
        return 0;
    if (needed > extent->reserved)
        return NO_MEMORY;
    size_t target = size_min(needed + size_min(step, SIZE_MAX - needed), extent->reserved);
    int error = os_counted(os_commit(extent->start + committed, target - committed));
    if (error != 0 && target > needed) { /* the step is a wish; what is needed may still fit */
        target = needed;
        error = os_counted(os_commit(extent->start + committed, target - committed));
    }
    if (error != 0)
        return error;
    os_name(extent->start + committed, target - committed, extent->name);
    store(&extent->committed, target, RELEASE);
    return 0;
}
