/*
 * aligned.h: the C library's aligned functions. Each treats alignments its own way. The caller
 * passes the site: its own caller or a tag.
 */
#ifndef CALM_LIBC_ALIGNED_H
#define CALM_LIBC_ALIGNED_H

#include <errno.h>
#include <unistd.h>

#include "front/front.h"

/* memalign: rounds any alignment up to a power of two. EINVAL when no power of two is large
 * enough. */
static inline void *aligned_rounded(size_t alignment, size_t size, const void *site,
                                    const void *frame)
{
    if (alignment > (SIZE_MAX >> 1) + 1) {
        errno = EINVAL;
        return NULL;
    }
    size_t rounded = alignment <= 1 ? 1 : (size_t)1 << (bit_highest(alignment - 1) + 1);
    return front_aligned(rounded, size, site, frame);
}

/* aligned_alloc, C17 as amended: accepts a power of two and any size. EINVAL for any other
 * alignment. */
static inline void *aligned_exact(size_t alignment, size_t size, const void *site,
                                  const void *frame)
{
    if (!is_power_of_two(alignment)) {
        errno = EINVAL;
        return NULL;
    }
    return front_aligned(alignment, size, site, frame);
}

static inline int aligned_posix(void **out, size_t alignment, size_t size, const void *site,
                                const void *frame)
{
    if (!is_power_of_two(alignment) || alignment % sizeof(void *) != 0)
        return EINVAL;
    int before = errno;
    void *block = front_aligned(alignment, size, site, frame);
    errno = before;
    if (block == NULL)
        return ENOMEM;
    *out = block;
    return 0;
}

static inline size_t aligned_page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static inline void *aligned_pages(size_t size, const void *site, const void *frame)
{
    size_t page = aligned_page_bytes();
    return size > PTRDIFF_MAX
               ? front_fail()
               : front_aligned(page, align_up(size > 0 ? size : 1, page), site, frame);
}

#endif
