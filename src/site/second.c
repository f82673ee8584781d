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

/* Allocates without a sample from the cohort at `offset`, and notes the site. */
static void *alloc_unsampled(struct site_request request, uint32_t offset, const void *origin)
{
    size_t bytes = request.bytes;
    bool is_plain = request.align <= 1 && !request.is_zeroed;
    void *block = is_plain ? heap_alloc_fast(bytes, offset) : NULL;
    if (block != NULL)
        return block;
    seen_note(origin);
    block = request.align > 1   ? heap_alloc_aligned(bytes, request.align, offset)
            : request.is_zeroed ? heap_alloc_zeroed(bytes, offset)
                                : site_alloc_heap(bytes, offset);
    if (bytes > MEDIUM_MAX || request.align > MEDIUM_MAX)
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

/* Block from a cache of a site in `intern_quick`. NULL: none, or a periodic check is due. */
static void *find_known(struct site_request request, const void *origin)
{
    bool is_large = request.bytes > MEDIUM_MAX;
    if (request.align > 1 || (is_large && request.is_zeroed) || wrapper_is_due(WRAPPER_CALL))
        return NULL;
    uint32_t offset = intern_look(load(&intern_quick, RELAXED), origin);
    if (unlikely(offset == 0))
        return NULL;
    if (!is_large)
        return cache_pop(offset + home_offset(request.bytes));
    remote_check();
    return site_large(heap_find_large(request.bytes, offset), origin);
}

ALWAYS_INLINE void *cleared_if(bool is_zeroed, void *block, size_t bytes)
{
    return is_zeroed ? __builtin_memset(block, 0, bytes) : block;
}

/* Request of a diverted index, or one that its armed entry cannot serve. */
static NOINLINE void *alloc_diverted(struct site_request request)
{
    size_t bytes = request.bytes;
    const void *site = request.site, *origin = site_origin(site, request.frame);
    void *known = find_known(request, origin);
    if (likely(known != NULL))
        return cleared_if(request.is_zeroed, known, bytes);
    uint32_t offset = request_offset(bytes, site, origin);
    bool is_sampled = sample_is_reached(bytes);
    bool is_followed = is_learning(origin, bytes);
    if (unlikely(is_sampled || is_followed)) {
        void *block = is_sampled ? sample_alloc(bytes, request.align, request.is_zeroed, site,
                                                request.frame, offset)
                                 : sampled_alloc(bytes, request.align, request.is_zeroed, offset);
        if (block != NULL && is_followed)
            learned_follow(block, site_index(origin));
        large_note_site_if(block, origin);
        if (block != NULL)
            return block;
    }
    return alloc_unsampled(request, offset, origin);
}

/* Request of a counted index that sample_passes() refused: the profiler must look at it. */
static NOINLINE void *alloc_inspected(struct site_request request)
{
    size_t bytes = request.bytes;
    sample_adds_back(bytes, request.offset);
    wrapper_tick(WRAPPER_MISS, bytes, request.site);
    remote_check();
    void *block = sample_is_reached(bytes) ? sample_alloc(bytes, 1, request.is_zeroed, request.site,
                                                          request.frame, OWN_OFFSET_FIRST)
                                           : NULL;
    large_note_site_if(block, request.site);
    return block != NULL ? block : alloc_unsampled(request, OWN_OFFSET_FIRST, request.site);
}

/* Plain request of a counted index that sample_passes() counted and that found no cached block. */
static NOINLINE void *alloc_missed(size_t bytes, const void *site)
{
    remote_check();
    sample_look(bytes);
    seen_note(site);
    void *block = heap_alloc_slow(bytes, OWN_OFFSET_FIRST);
    return bytes > MEDIUM_MAX ? site_large(block, site) : block;
}

/* Request above ARMED_MAX of a counted index: counted by its bytes. */
ALWAYS_INLINE void *alloc_streamed(struct site_request request)
{
    size_t bytes = request.bytes;
    if (unlikely(!sample_passes(bytes, request.offset, stream_of(bytes))))
        return alloc_inspected(request);
    if (request.is_zeroed)
        return alloc_unsampled(request, OWN_OFFSET_FIRST, request.site);
    void *block = bytes > MEDIUM_MAX
                      ? site_large(heap_find_large(bytes, OWN_OFFSET_FIRST), request.site)
                      : cache_pop(OWN_OFFSET_FIRST + home_offset(bytes));
    return likely(block != NULL) ? block : alloc_missed(bytes, request.site);
}

/* Request of a counted index whose armed entry cannot count it quickly. */
static NOINLINE void *alloc_armed_slow(struct site_request request, uint32_t entry, uint32_t own)
{
    wrapper_tick(WRAPPER_MISS, request.bytes, request.site);
    remote_check();
    seen_note(request.site);
    void *block = sample_armed(request.bytes, request.is_zeroed, request.site, request.frame, entry,
                               own);
    return likely(block != NULL) ? block : alloc_diverted(request);
}

/* Request of at most ARMED_MAX bytes of a counted index: counted by its entry's blocks. */
ALWAYS_INLINE void *alloc_armed(struct site_request request)
{
    struct cache *cache = of_thread.cache;
    uint32_t place = home_offset(request.bytes);
    uint32_t entry = request.offset + place, own = OWN_OFFSET_FIRST + place;
    /* The table of sites may have changed since the caller found its entry empty. */
    void *block = cache_pop_own(entry);
    if (likely(block == NULL) && sample_counts_quick(cache, entry, own))
        block = armed_swap(cache, entry, own);
    return likely(block != NULL) ? cleared_if(request.is_zeroed, block, request.bytes)
                                 : alloc_armed_slow(request, entry, own);
}

ALWAYS_INLINE void *alloc(struct site_request request)
{
    if (request.offset == DIVERTED_OFFSET || request.align > 1)
        return alloc_diverted(request);
    return request.bytes > ARMED_MAX ? alloc_streamed(request) : alloc_armed(request);
}

NOINLINE void *second_alloc(struct site_request request)
{
    return request.bytes <= PTRDIFF_MAX ? alloc(request) : NULL;
}

NOINLINE void *second_alloc_plain(size_t bytes, uint32_t offset, const void *site,
                                  const void *frame)
{
    return bytes <= PTRDIFF_MAX ? alloc((struct site_request){bytes, 1, false, offset, site, frame})
                                : NULL;
}

NOINLINE void *second_alloc_traced(size_t bytes, uint32_t offset)
{
    traced_start();
    return heap_alloc_slow(bytes, offset);
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
