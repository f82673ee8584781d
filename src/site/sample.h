/*
 * sample.h: requests that a cache cannot serve at once: sampled while the profiler is on, else from
 * the heap.
 *
 * `site` is the address that the request returns to. NULL: no memory; errno is not touched.
 */
#ifndef CALM_SITE_SAMPLE_H
#define CALM_SITE_SAMPLE_H

#include "base/facts.h"
#include "core/sampled.h"
#include "site/profile.h"
#include "site/seen.h"

enum sample_error { SAMPLE_FINE, SAMPLE_IS_ON, SAMPLE_NO_MEMORY, SAMPLE_BAD_RATE };

/*
 * Samples requests from now on, one in `rate` bytes; the draws follow from `seed`, or from
 * unpredictable bytes when it is 0. What earlier starts found is kept. Any thread.
 */
enum sample_error sample_start(uint64_t rate, uint64_t seed);

/* Samples no more requests; frees of sampled blocks still count. Any thread. */
void sample_stop(void);

/* Whether requests are sampled now; how many starts there were. */
bool sample_is_on(void);
uint32_t sample_starts(void);

extern const struct watch_fact sample_facts[];

/* Of the profiler's tables. */
size_t sample_mapped_bytes(void);
size_t sample_resident_bytes(void);

/* While the profiler is on. */
void *sample_alloc(size_t bytes, size_t align, bool is_zeroed, const void *site);
void *sample_realloc(void *block, size_t bytes, const void *site);

/* A request of at most MEDIUM_MAX that found its cache empty: who asks is noted. */
NOINLINE static void *site_alloc_miss(size_t bytes, uint32_t offset, const void *site)
{
    seen_note(site);
    return heap_alloc_slow(bytes, offset);
}

/* A plain request of any size, with what site_offset() said of its site. */
ALWAYS_INLINE void *site_alloc_slow(size_t bytes, uint32_t offset, const void *site)
{
    if (unlikely(offset == PROFILED_OFFSET))
        return sample_alloc(bytes, 1, false, site);
    if (bytes > MEDIUM_MAX) /* such blocks have no cohort */
        return heap_alloc_slow(bytes, offset);
    void *block = bytes > SMALL_MAX ? cache_pop(offset + home_offset(bytes)) : NULL;
    return likely(block != NULL) ? block : site_alloc_miss(bytes, offset, site);
}

/* An aligned one, and a zeroed one, as heap_alloc_aligned and heap_alloc_zeroed. */
ALWAYS_INLINE void *site_alloc_aligned(size_t bytes, size_t align, const void *site)
{
    uint32_t offset = site_offset(site);
    seen_note(site);
    if (unlikely(offset == PROFILED_OFFSET))
        return sample_alloc(bytes, align, false, site);
    return heap_alloc_aligned(bytes, align, offset);
}

ALWAYS_INLINE void *site_alloc_zeroed(size_t bytes, const void *site)
{
    uint32_t offset = site_offset(site);
    void *block = heap_alloc_fast(bytes, offset);
    if (likely(block != NULL))
        return __builtin_memset(block, 0, bytes);
    seen_note(site);
    if (unlikely(offset == PROFILED_OFFSET))
        return sample_alloc(bytes, 1, true, site);
    return heap_alloc_zeroed(bytes, offset);
}

/* As heap_realloc. */
ALWAYS_INLINE void *site_realloc(void *block, size_t bytes, const void *site)
{
    uint32_t offset = site_offset(site);
    if (unlikely(offset == PROFILED_OFFSET))
        return sample_realloc(block, bytes, site);
    return heap_realloc(block, bytes, offset);
}

#endif
