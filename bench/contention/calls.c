/*
 * calls.c: malloc and free, in a file that is built as the allocator is, so that their fast paths
 * are watched.
 */
#include "calls.h"

#include "site/site.h"

void *call_malloc(size_t bytes, const void *site)
{
    uint32_t cohort_offset = site_offset(site);
    void *block = heap_alloc_fast(bytes, cohort_offset);
    return block != NULL ? block : heap_alloc_slow(bytes, cohort_offset);
}

void call_free(void *block)
{
    heap_free(block);
}

void call_control(void)
{
    static _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t shared;
    fetch_add(&shared, 1, RELAXED);
}
