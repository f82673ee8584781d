/*
 * second.h: the second front end, for requests that the table of sites alone does not decide.
 *
 * A diverted index names a cohort without cached blocks, so each of its requests comes here. This
 * front end finds the site, samples the request if its turn has come, and allocates from the site's
 * own cohort. A counted index's requests come here when their entry is empty. Other requests pay
 * nothing. Before the heap has started every index is diverted.
 *
 * `site` is the address that the request returns to. `frame` is the address just above that one on
 * the stack, where the frame of the exported function's caller begins. NULL means no memory; errno
 * is unchanged. Design: docs/design/sites.md
 */
#ifndef CALM_SITE_SECOND_H
#define CALM_SITE_SECOND_H

#include "core/large.h"
#include "site/sample.h"
#include "site/seen.h"
#include "site/site.h"
#include "site/traced.h"
#include "site/wrapper.h"

/* A request of a site without an own cohort in the table of sites. */
struct site_request {
    size_t bytes, align; /* align: a power of two */
    bool is_zeroed;
    uint32_t offset; /* what the table of sites gave; below OWN_OFFSET_FIRST */
    const void *site, *frame;
};
void *second_alloc(struct site_request request);

/* The same for a plain request, which stays in registers. */
void *second_alloc_plain(size_t bytes, uint32_t offset, const void *site, const void *frame);

/* As heap_realloc(). */
void *second_realloc(void *block, size_t bytes, const void *site, const void *frame);

/* Reports frees of sampled and followed blocks from now on. Call before the first such block. */
void second_report_frees(void);

/* Retries a request at its site's own entry, if the site is at its first place in `intern_quick`.
 * `at` is the empty entry that the table of sites gave. A known site's index is diverted and
 * DIVERTED_OFFSET is 0, so adding the site's offset to `at` gives its own entry. */
ALWAYS_INLINE void *second_alloc_retry(struct cache_miss at, const void *site)
{
    const struct intern_table *table = load(&intern_quick, RELAXED);
    size_t place = intern_place(site);
    if (unlikely(!intern_has_at(table, place, site)))
        return NULL;
    size_t offset = at.entry_offset + load(&table->offsets[place], RELAXED);
    return cache_pop_at(at.cache, cache_entry_at(at.cache, offset), &at);
}

/* Retries a request through a wrapper at the entry of the wrapper's caller. Wrappers are not in
 * `intern_quick`. */
ALWAYS_INLINE void *second_alloc_through(struct cache_miss at, const void *site, const void *frame)
{
    bool is_quick = load(&intern_quick, RELAXED) == &intern_known;
    const void *caller = is_quick ? wrapper_caller_quick(site, frame) : NULL;
    return caller != NULL ? second_alloc_retry(at, caller) : NULL;
}

/* Block of at most SMALL_MAX bytes from a cache, of the site's cohort. NULL: try
 * second_alloc_retry() with `*miss`, then site_alloc_slow(). */
ALWAYS_INLINE void *site_alloc_look(size_t bytes, const void *site, struct cache_miss *miss)
{
    struct cache *cache = of_thread.cache;
    size_t offset = site_offset(site) + of_thread.small[(bytes + 7) >> 3];
    struct cache_entry *entry = cache_entry_at(cache, offset);
    computed_here(entry); /* so that the offset need not be kept */
    return cache_pop_at(cache, entry, miss);
}

/* Block of at most SMALL_MAX bytes from a cache, without the place of a miss. Larger sizes:
 * NULL. */
ALWAYS_INLINE void *site_alloc_fast(size_t bytes, const void *site)
{
    return likely(bytes <= SMALL_MAX) ? heap_alloc_fast(bytes, site_offset(site)) : NULL;
}

/* Switches the profiler on for a tracer, then allocates from the heap. */
void *second_alloc_traced(size_t bytes, uint32_t offset);

/* Allocates from the heap: no cache has a block. */
ALWAYS_INLINE void *site_alloc_heap(size_t bytes, uint32_t offset)
{
    return traced_is_listened() ? second_alloc_traced(bytes, offset)
                                : heap_alloc_slow(bytes, offset);
}

/* Request of at most MEDIUM_MAX bytes that found its cache empty. Notes the site. */
NOINLINE static void *site_alloc_miss(size_t bytes, uint32_t offset, const void *site)
{
    seen_note(site);
    return site_alloc_heap(bytes, offset);
}

/* Notes the site of a large block, which has no cohort to tell it. */
ALWAYS_INLINE void *site_large(void *block, const void *site)
{
    if (likely(block != NULL))
        large_note_site(block, site);
    return block;
}

/* Request of a site with a cohort of its own. */
ALWAYS_INLINE void *site_alloc_own(size_t bytes, uint32_t offset, const void *site)
{
    if (bytes > MEDIUM_MAX)
        return site_large(site_alloc_heap(bytes, offset), site);
    void *block = bytes > SMALL_MAX ? cache_pop(offset + home_offset(bytes)) : NULL;
    return likely(block != NULL) ? block : site_alloc_miss(bytes, offset, site);
}

/* site_alloc_own() after wrapper_look(). Not inlined, so that other requests need no frame. */
NOINLINE static void *site_alloc_looked(size_t bytes, uint32_t offset, const void *site)
{
    wrapper_look(bytes, site);
    return site_alloc_own(bytes, offset, site);
}

/* Plain request of any size, after site_alloc_look() found no block for a small one. */
ALWAYS_INLINE void *site_alloc_slow(size_t bytes, const void *site, const void *frame)
{
    uint32_t offset = site_offset(site);
    if (likely(offset >= OWN_OFFSET_FIRST))
        return wrapper_is_due(WRAPPER_MISS) ? site_alloc_looked(bytes, offset, site)
                                            : site_alloc_own(bytes, offset, site);
    return second_alloc_plain(bytes, offset, site, frame);
}

/* As heap_alloc_aligned(), for a site. */
ALWAYS_INLINE void *site_alloc_aligned(size_t bytes, size_t align, const void *site,
                                       const void *frame)
{
    uint32_t offset = site_offset(site);
    if (unlikely(offset < OWN_OFFSET_FIRST))
        return second_alloc((struct site_request){bytes, align, false, offset, site, frame});
    wrapper_tick(WRAPPER_CALL, bytes, site);
    seen_note(site);
    void *block = heap_alloc_aligned(bytes, align, offset);
    large_note_site_if(block, site);
    return block;
}

ALWAYS_INLINE void *site_alloc_zeroed(size_t bytes, const void *site, const void *frame)
{
    uint32_t offset = site_offset(site);
    if (unlikely(offset < OWN_OFFSET_FIRST))
        return second_alloc((struct site_request){bytes, 1, true, offset, site, frame});
    wrapper_tick(WRAPPER_CALL, bytes, site);
    void *block = heap_alloc_fast(bytes, offset);
    if (likely(block != NULL))
        return __builtin_memset(block, 0, bytes);
    seen_note(site);
    block = heap_alloc_zeroed(bytes, offset);
    return bytes > MEDIUM_MAX ? site_large(block, site) : block;
}

/* As heap_realloc(), for a site. */
ALWAYS_INLINE void *site_realloc(void *block, size_t bytes, const void *site, const void *frame)
{
    uint32_t offset = site_offset(site);
    if (unlikely(offset < OWN_OFFSET_FIRST))
        return second_realloc(block, bytes, site, frame);
    wrapper_tick(WRAPPER_CALL, bytes, site);
    void *result = heap_realloc(block, bytes, offset, false);
    if (bytes > MEDIUM_MAX)
        large_note_site_if(result, site);
    return result;
}

#endif
