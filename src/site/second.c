/*
 * second.c: names the site, has the request sampled while the profiler is on, and else serves it
 * from the site's own cohort.
 *
 * Owner: nobody; no state of its own. Design: docs/design/sites.md
 */
#include "site/second.h"

#include "site/remote.h"
#include "site/sample.h"

/* Who asks: the address that the request returns to, or behind wrappers, the one these return to.
 */
static const void *site_named(const void *site, const void *frame)
{
    return wrapper_see_through(site, frame);
}

/* Of the cohort that serves the request. Starts the heap; what is looked at comes after it. */
static uint32_t request_offset(size_t bytes, const void *site, const void *frame)
{
    const void *named = site_named(site, frame);
    uint32_t offset = site_own_offset(named);
    wrapper_tick(named == site ? WRAPPER_MISS : WRAPPER_CALL, bytes, site);
    seen_note(named);
    remote_look();
    return offset;
}

/* As the heap would without a second front end. */
static void *plain(size_t bytes, size_t align, bool is_zeroed, uint32_t offset)
{
    if (align > 1)
        return heap_alloc_aligned(bytes, align, offset);
    if (is_zeroed)
        return heap_alloc_zeroed(bytes, offset);
    void *block = heap_alloc_fast(bytes, offset);
    return likely(block != NULL) ? block : heap_alloc_slow(bytes, offset);
}

void *second_alloc(size_t bytes, size_t align, bool is_zeroed, const void *site, const void *frame)
{
    if (bytes > PTRDIFF_MAX)
        return NULL;
    uint32_t offset = request_offset(bytes, site, frame);
    if (unlikely(sample_is_reached(bytes))) {
        void *block = sample_alloc(bytes, align, is_zeroed, site, offset);
        if (block != NULL)
            return block;
    }
    return plain(bytes, align, is_zeroed, offset);
}

void *second_realloc(void *block, size_t bytes, const void *site, const void *frame)
{
    uint32_t offset = request_offset(bytes, site, frame);
    if (unlikely(sample_is_on()))
        return sample_realloc(block, bytes, site, offset);
    return heap_realloc(block, bytes, offset, false);
}
