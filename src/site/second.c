/*
 * second.c: names the site, has the request sampled while the profiler is on, and else serves it
 * from the site's own cohort.
 *
 * Owner: nobody; no state of its own. Design: docs/design/sites.md
 */
#include "site/second.h"

#include "site/learned.h"
#include "site/sample.h"

/* Who asks: the address that the request returns to. */
static const void *site_named(const void *site, const void *frame)
{
    (void)frame;
    return site;
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

static void on_free(void *block)
{
    sample_free(block);
    learned_free(block);
}

void second_hear_frees(void)
{
    sampled_on_free = on_free;
}

void *second_alloc(size_t bytes, size_t align, bool is_zeroed, const void *site, const void *frame)
{
    if (bytes > PTRDIFF_MAX)
        return NULL;
    uint32_t offset = site_own_offset(site = site_named(site, frame));
    bool is_sampled = sample_is_reached(bytes);
    bool is_followed = learned_request(site_index(site), bytes);
    if (unlikely(is_sampled || is_followed)) {
        void *block = is_sampled ? sample_alloc(bytes, align, is_zeroed, site, offset)
                                 : sampled_alloc(bytes, align, is_zeroed, offset);
        if (block != NULL && is_followed)
            learned_follow(block, site_index(site));
        if (block != NULL)
            return block;
    }
    return plain(bytes, align, is_zeroed, offset);
}

void *second_realloc(void *block, size_t bytes, const void *site, const void *frame)
{
    uint32_t offset = site_own_offset(site = site_named(site, frame));
    if (unlikely(sample_is_on()))
        return sample_realloc(block, bytes, site, offset);
    bool is_followed = learned_request(site_index(site), bytes);
    void *result = heap_realloc(block, bytes, offset, is_followed);
    if (is_followed && result != NULL && result != block && sampled_is(result))
        learned_follow(result, site_index(site));
    return result;
}
