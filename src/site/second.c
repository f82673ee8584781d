/*
 * second.c: finds the site of a request, samples the request while the profiler is on, and else
 * serves it from the site's own cohort.
 *
 * Owner: nobody; no state of its own. Design: docs/design/sites.md
 */
#include "site/second.h"

#include "core/sampled.h"
#include "site/learned.h"
#include "site/remote.h"
#include "site/sample.h"

/* The site that counts: `site`, or, for a wrapper's, its caller's. */
static const void *site_origin(const void *site, const void *frame)
{
    return unlikely(wrapper_may_be(site)) ? wrapper_see_through(site, frame) : site;
}

/* Offset of the serving cohort's entries. Starts the heap, then does the periodic checks. */
static uint32_t request_offset(size_t bytes, const void *site, const void *origin)
{
    uint32_t offset = site_own_offset(origin);
    wrapper_tick(origin == site ? WRAPPER_MISS : WRAPPER_CALL, bytes, site);
    remote_check();
    return offset;
}

/* Allocates without a sample, and notes the site. */
static void *alloc_plain(size_t bytes, size_t align, bool is_zeroed, uint32_t offset,
                         const void *origin)
{
    if (align > 1 || is_zeroed)
        seen_note(origin);
    void *block = align > 1   ? heap_alloc_aligned(bytes, align, offset)
                  : is_zeroed ? heap_alloc_zeroed(bytes, offset)
                              : heap_alloc_fast(bytes, offset);
    if (block == NULL && align <= 1 && !is_zeroed) {
        seen_note(origin);
        block = site_alloc_heap(bytes, offset);
    }
    if (bytes > MEDIUM_MAX || align > MEDIUM_MAX)
        large_note_site_if(block, origin);
    return block;
}

/* Whether `learned` follows the request's block. */
ALWAYS_INLINE bool is_learning(const void *origin, size_t bytes)
{
    return unlikely(load(&learned_is_on, RELAXED)) && learned_request(site_index(origin), bytes);
}

static void report_free(void *block)
{
    sample_free(block);
    learned_free(block);
}

void second_report_frees(void)
{
    sampled_on_free = report_free;
}

void *second_alloc(size_t bytes, size_t align, bool is_zeroed, const void *site, const void *frame)
{
    if (bytes > PTRDIFF_MAX)
        return NULL;
    const void *origin = site_origin(site, frame);
    bool is_quick = align == 1 && bytes <= MEDIUM_MAX && !wrapper_is_due(WRAPPER_CALL);
    void *quick = is_quick ? second_alloc_quick(bytes, origin) : NULL;
    if (likely(quick != NULL))
        return is_zeroed ? __builtin_memset(quick, 0, bytes) : quick;
    uint32_t offset = request_offset(bytes, site, origin);
    bool is_sampled = sample_is_reached(bytes);
    bool is_followed = is_learning(origin, bytes);
    if (unlikely(is_sampled || is_followed)) {
        void *block = is_sampled ? sample_alloc(bytes, align, is_zeroed, site, frame, offset)
                                 : sampled_alloc(bytes, align, is_zeroed, offset);
        if (block != NULL && is_followed)
            learned_follow(block, site_index(origin));
        large_note_site_if(block, origin);
        if (block != NULL)
            return block;
    }
    return alloc_plain(bytes, align, is_zeroed, offset, origin);
}

NOINLINE void *second_alloc_traced(size_t bytes, uint32_t offset)
{
    traced_start();
    return heap_alloc_slow(bytes, offset);
}

NOINLINE void *second_alloc_owned(size_t bytes, const void *site, const void *frame)
{
    remote_check();
    uint32_t known = intern_look(load(&intern_quick, RELAXED), site);
    bool is_quick = known != 0 && !wrapper_is_due(WRAPPER_CALL);
    void *block = is_quick ? heap_find_large(bytes, known) : NULL;
    return likely(block != NULL) ? site_large(block, site)
                                 : second_alloc(bytes, 1, false, site, frame);
}

NOINLINE void *second_alloc_inspect(size_t bytes, bool is_zeroed, uint32_t offset, const void *site,
                                    const void *frame)
{
    sample_adds_back(bytes, offset);
    wrapper_tick(WRAPPER_MISS, bytes, site);
    remote_check();
    bool is_sampled = sample_is_reached(bytes);
    void *block = is_sampled ? sample_alloc(bytes, 1, is_zeroed, site, frame, OWN_OFFSET_FIRST)
                             : NULL;
    large_note_site_if(block, site);
    return block != NULL ? block : alloc_plain(bytes, 1, is_zeroed, OWN_OFFSET_FIRST, site);
}

NOINLINE void *second_alloc_missed(size_t bytes, const void *site)
{
    void *block = bytes <= MEDIUM_MAX ? cache_pop_core(OWN_OFFSET_FIRST + home_offset(bytes))
                                      : NULL;
    if (block != NULL)
        return block;
    remote_check();
    sample_look(bytes);
    seen_note(site);
    return heap_alloc_slow(bytes, OWN_OFFSET_FIRST);
}

NOINLINE void *second_alloc_armed(size_t bytes, uint32_t offset, const void *site,
                                  const void *frame)
{
    struct cache *cache = of_thread.cache;
    uint32_t place = of_thread.small[(bytes + 7) >> 3], own = OWN_OFFSET_FIRST + place;
    /* The table of sites may have changed since the caller found its entry empty. */
    void *armed = cache_pop_own(offset + place);
    if (unlikely(armed != NULL))
        return armed;
    if (sample_counts_quick(cache, offset + place, own))
        return armed_swap(cache, offset + place, own);
    return second_alloc_counted(bytes, false, offset, site, frame);
}

void *second_alloc_counted(size_t bytes, bool is_zeroed, uint32_t offset, const void *site,
                           const void *frame)
{
    if (bytes > PTRDIFF_MAX)
        return NULL;
    if (bytes > ARMED_MAX)
        return sample_passes(bytes, offset, stream_of(bytes))
                   ? alloc_plain(bytes, 1, is_zeroed, OWN_OFFSET_FIRST, site)
                   : second_alloc_inspect(bytes, is_zeroed, offset, site, frame);
    struct cache *cache = of_thread.cache;
    uint32_t place = home_offset(bytes), own = OWN_OFFSET_FIRST + place;
    if (is_zeroed && sample_counts_quick(cache, offset + place, own))
        return __builtin_memset(armed_swap(cache, offset + place, own), 0, bytes);
    wrapper_tick(WRAPPER_MISS, bytes, site);
    remote_check();
    seen_note(site);
    void *block = sample_armed(bytes, is_zeroed, site, frame, offset + place, own);
    return likely(block != NULL) ? block : second_alloc(bytes, 1, is_zeroed, site, frame);
}

void *second_realloc(void *block, size_t bytes, const void *site, const void *frame)
{
    const void *origin = site_origin(site, frame);
    uint32_t known = intern_look(load(&intern_quick, RELAXED), origin);
    if (likely(known != 0) && !wrapper_is_due(WRAPPER_CALL)) {
        void *quick = heap_realloc(block, bytes, known, false);
        if (bytes > MEDIUM_MAX)
            large_note_site_if(quick, origin);
        return quick;
    }
    uint32_t offset = request_offset(bytes, site, origin);
    bool is_sampling = unlikely(sample_is_on());
    bool is_followed = !is_sampling && is_learning(origin, bytes);
    void *result = is_sampling ? sample_realloc(block, bytes, site, frame, offset)
                               : heap_realloc(block, bytes, offset, is_followed);
    if (bytes > MEDIUM_MAX)
        large_note_site_if(result, origin);
    if (is_followed && result != NULL && result != block && sampled_is(result))
        learned_follow(result, site_index(origin));
    return result;
}
