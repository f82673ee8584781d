/*
 * api_tag.c: the functions of tag.h: requests whose site is a tag.
 */
#include "calmalloc/tag.h"

#include "front/front.h"
#include "site/tag.h"

/* The site of a tagged request. Use only in an exported function, whose caller is the site of tag
 * 0. */
#define TAGGED(tag) ((tag) == 0 ? (const void *)CALLER : site_of_tag(tag))

EXPORT void *calm_malloc_at(size_t size, uint64_t tag)
{
    return front_alloc(size, TAGGED(tag), CALLER_FRAME);
}

EXPORT void *calm_calloc_at(size_t count, size_t size, uint64_t tag)
{
    return front_zeroed(count, size, TAGGED(tag), CALLER_FRAME);
}

EXPORT void *calm_realloc_at(void *block, size_t size, uint64_t tag)
{
    return front_realloc(block, size, TAGGED(tag), CALLER_FRAME);
}

EXPORT void *calm_reallocarray_at(void *block, size_t count, size_t size, uint64_t tag)
{
    size_t product = front_product(count, size);
    return product > PTRDIFF_MAX ? front_fail()
                                 : front_realloc(block, product, TAGGED(tag), CALLER_FRAME);
}

EXPORT void *calm_aligned_alloc_at(size_t alignment, size_t size, uint64_t tag)
{
    if (!is_power_of_two(alignment)) {
        os_set_errno(FRONT_EINVAL);
        return NULL;
    }
    return front_aligned(alignment, size, TAGGED(tag), CALLER_FRAME);
}
