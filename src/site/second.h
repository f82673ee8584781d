/*
 * second.h: the second front end, for requests that one look in the table of sites does not decide.
 *
 * Where an index of the table is diverted, no cache has a block for its requests, so each comes
 * here: who is the site, is the request sampled, which cohort is the site's own. What is not
 * diverted pays nothing for it. Before the heap has started all are.
 *
 * `site` is the address that the request returns to, `frame` the address just above it on the
 * stack, where the frame of the exported function's caller begins. NULL: no memory; errno is not
 * touched. Design: docs/design/sites.md
 */
#ifndef CALM_SITE_SECOND_H
#define CALM_SITE_SECOND_H

#include "core/large.h"
#include "site/sample.h"
#include "site/seen.h"
#include "site/site.h"
#include "site/traced.h"
#include "site/wrapper.h"

/* From now on frees of sampled blocks are told to who follows them. Before the first such block. */
void second_hear_frees(void);

/* A request of any size, aligned to a power of two, zeroed if wanted. */
void *second_alloc(size_t bytes, size_t align, bool is_zeroed, const void *site, const void *frame);

/* The same of a plain request above MEDIUM_MAX. */
void *second_alloc_owned(size_t bytes, const void *site, const void *frame);

/* The same of a request whose armed entry is empty, at `offset` and the size's, or that is counted
 * by its bytes. */
void *second_alloc_counted(size_t bytes, bool is_zeroed, uint32_t offset, const void *site,
                           const void *frame);

/* The same up to ARMED_MAX. */
void *second_alloc_armed(size_t bytes, uint32_t offset, const void *site, const void *frame);

/* The same where sample_passes has counted it and found that somebody has to look. */
void *second_alloc_stopped(size_t bytes, bool is_zeroed, uint32_t offset, const void *site,
                           const void *frame);

/* A request that was counted and that no cache has a block for. */
void *second_alloc_missed(size_t bytes, const void *site);

/* As heap_realloc. */
void *second_realloc(void *block, size_t bytes, const void *site, const void *frame);

/* A block for a site that is known as it stands, where a cache has one: NULL says nothing but that
 * second_alloc must be asked. Pre: bytes <= MEDIUM_MAX. */
ALWAYS_INLINE void *second_alloc_quick(size_t bytes, const void *site)
{
    uint32_t offset = intern_look(load(&intern_quick, RELAXED), site);
    return likely(offset != 0) ? cache_pop(offset + home_offset(bytes)) : NULL;
}

/* The same, at the first place only, of a request that found nothing in the entry that the table of
 * sites has for it. Where sites are known, that is of DIVERTED_OFFSET, and the site's own entry is
 * so far behind it. */
ALWAYS_INLINE void *second_alloc_again(struct cache_miss at, const void *site)
{
    const struct intern_table *table = load(&intern_quick, RELAXED);
    size_t place = intern_place(site);
    if (unlikely(!intern_has_at(table, place, site)))
        return NULL;
    size_t offset = at.entry_offset + load(&table->offsets[place], RELAXED);
    return cache_pop_at(at.cache, cache_entry_at(at.cache, offset), &at);
}

/* The same of a request through a wrapper, whose caller is the site; wrappers are not in the table.
 */
ALWAYS_INLINE void *second_alloc_through(struct cache_miss at, const void *site, const void *frame)
{
    bool is_quick = load(&intern_quick, RELAXED) == &intern_known;
    const void *caller = is_quick ? wrapper_caller_quick(site, frame) : NULL;
    return caller != NULL ? second_alloc_again(at, caller) : NULL;
}

/* A block of at most SMALL_MAX bytes if a cache has one of the site's cohort; NULL says nothing but
 * that second_alloc_again and site_alloc_slow must be asked. */
ALWAYS_INLINE void *site_alloc_look(size_t bytes, const void *site, struct cache_miss *miss)
{
    struct cache *cache = of_thread.cache;
    size_t offset = site_offset(site) + of_thread.small[(bytes + 7) >> 3];
    struct cache_entry *entry = cache_entry_at(cache, offset);
    computed_here(entry); /* so that the offset need not be kept */
    return cache_pop_at(cache, entry, miss);
}

/* The same of any size, for who has no need of where it looked. */
ALWAYS_INLINE void *site_alloc_fast(size_t bytes, const void *site)
{
    return likely(bytes <= SMALL_MAX) ? heap_alloc_fast(bytes, site_offset(site)) : NULL;
}

/* From the heap, after the profiler was switched on for a tracer. */
void *second_alloc_heard(size_t bytes, uint32_t offset);

/* From the heap, as no cache has a block. */
ALWAYS_INLINE void *site_alloc_heap(size_t bytes, uint32_t offset)
{
    return traced_is_heard() ? second_alloc_heard(bytes, offset) : heap_alloc_slow(bytes, offset);
}

/* A request of at most MEDIUM_MAX that found its cache empty: who asks is noted. */
NOINLINE static void *site_alloc_miss(size_t bytes, uint32_t offset, const void *site)
{
    seen_note(site);
    return site_alloc_heap(bytes, offset);
}

/* A large block of a site, which is remembered: such blocks have no cohort. */
ALWAYS_INLINE void *site_large(void *block, const void *site)
{
    if (likely(block != NULL))
        large_note_site(block, site);
    return block;
}

/* A request of a site that has a cohort of its own. */
ALWAYS_INLINE void *site_alloc_own(size_t bytes, uint32_t offset, const void *site)
{
    if (bytes > MEDIUM_MAX)
        return site_large(site_alloc_heap(bytes, offset), site);
    void *block = bytes > SMALL_MAX ? cache_pop(offset + home_offset(bytes)) : NULL;
    return likely(block != NULL) ? block : site_alloc_miss(bytes, offset, site);
}

/* The same after a look for wrappers; apart, so that the others need no frame. */
NOINLINE static void *site_alloc_looked(size_t bytes, uint32_t offset, const void *site)
{
    wrapper_look(bytes, site);
    return site_alloc_own(bytes, offset, site);
}

/* One of a site that is diverted; apart, so that the others need no registers for it. A small one
 * was looked for already. */
NOINLINE static void *site_alloc_diverted(size_t bytes, const void *site, const void *frame)
{
    if (bytes > MEDIUM_MAX)
        return second_alloc_owned(bytes, site, frame);
    void *block = bytes > SMALL_MAX ? second_alloc_quick(bytes, site) : NULL;
    return likely(block != NULL) ? block : second_alloc(bytes, 1, false, site, frame);
}

/* A request above ARMED_MAX whose site has no cohort that is its own in the table: counted, unless
 * the site is diverted, for which nothing passes. */
ALWAYS_INLINE void *site_alloc_medium(size_t bytes, uint32_t offset, const void *site,
                                      const void *frame)
{
    if (unlikely(!sample_passes(bytes, offset, STREAM_MEDIUM)))
        return second_alloc_stopped(bytes, false, offset, site, frame);
    void *block = cache_pop_own(OWN_OFFSET_FIRST + home_offset(bytes));
    return likely(block != NULL) ? block : second_alloc_missed(bytes, site);
}

ALWAYS_INLINE void *site_alloc_large(size_t bytes, uint32_t offset, const void *site,
                                     const void *frame)
{
    if (unlikely(bytes > PTRDIFF_MAX))
        return NULL;
    if (unlikely(!sample_passes(bytes, offset, STREAM_LARGE)))
        return second_alloc_stopped(bytes, false, offset, site, frame);
    void *block = heap_find_large(bytes, OWN_OFFSET_FIRST);
    return site_large(likely(block != NULL) ? block : second_alloc_missed(bytes, site), site);
}

/* A plain request of any size. */
ALWAYS_INLINE void *site_alloc_slow(size_t bytes, const void *site, const void *frame)
{
    uint32_t offset = site_offset(site);
    if (likely(offset >= OWN_OFFSET_FIRST))
        return wrapper_is_due(WRAPPER_MISS) ? site_alloc_looked(bytes, offset, site)
                                            : site_alloc_own(bytes, offset, site);
    if (offset == DIVERTED_OFFSET)
        return site_alloc_diverted(bytes, site, frame);
    if (bytes > MEDIUM_MAX)
        return site_alloc_large(bytes, offset, site, frame);
    if (bytes > ARMED_MAX)
        return site_alloc_medium(bytes, offset, site, frame);
    return second_alloc_armed(bytes, offset, site, frame);
}

/* An aligned one, and a zeroed one, as heap_alloc_aligned and heap_alloc_zeroed. */
ALWAYS_INLINE void *site_alloc_aligned(size_t bytes, size_t align, const void *site,
                                       const void *frame)
{
    uint32_t offset = site_offset(site);
    if (unlikely(offset < OWN_OFFSET_FIRST))
        return second_alloc(bytes, align, false, site, frame);
    wrapper_tick(WRAPPER_CALL, bytes, site);
    seen_note(site);
    void *block = heap_alloc_aligned(bytes, align, offset);
    large_note_site_if(block, site);
    return block;
}

ALWAYS_INLINE void *site_alloc_zeroed(size_t bytes, const void *site, const void *frame)
{
    uint32_t offset = site_offset(site);
    if (unlikely(offset == DIVERTED_OFFSET))
        return second_alloc(bytes, 1, true, site, frame);
    wrapper_tick(WRAPPER_CALL, bytes, site);
    void *block = heap_alloc_fast(bytes, offset);
    if (likely(block != NULL))
        return __builtin_memset(block, 0, bytes);
    if (unlikely(offset < OWN_OFFSET_FIRST))
        return second_alloc_counted(bytes, true, offset, site, frame);
    seen_note(site);
    block = heap_alloc_zeroed(bytes, offset);
    return bytes > MEDIUM_MAX ? site_large(block, site) : block;
}

/* As heap_realloc. */
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
