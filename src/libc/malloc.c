/*
 * malloc.c: the standard C names, and the spellings that programs and other allocators taught them.
 *
 * Each is one step to front, with its own return address as the site. Semantics where the standards
 * leave a choice: realloc(p, 0) frees and returns NULL; free and its relatives preserve errno;
 * posix_memalign returns its error and leaves both errno and, on failure, the output alone.
 * Sources: C17 7.22.3, C23 7.24.3, POSIX.1-2024, malloc(3).
 */
#define _GNU_SOURCE

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "front/front.h"

EXPORT void *malloc(size_t size)
{
    return front_alloc_here(size);
}

EXPORT void free(void *block)
{
    heap_free(block);
}

EXPORT void *calloc(size_t count, size_t size)
{
    return front_zeroed(count, size, CALLER, CALLER_FRAME);
}

EXPORT void *realloc(void *block, size_t size)
{
    return front_realloc(block, size, CALLER, CALLER_FRAME);
}

/* memalign's reading: any alignment, rounded up to a power of two; NULL, EINVAL when there is none.
 */
static void *aligned(size_t alignment, size_t size, const void *site, const void *frame)
{
    if (alignment > (SIZE_MAX >> 1) + 1) {
        errno = EINVAL;
        return NULL;
    }
    size_t rounded = alignment <= 1 ? 1 : (size_t)1 << (bit_highest(alignment - 1) + 1);
    return front_aligned(rounded, size, site, frame);
}

EXPORT void *memalign(size_t alignment, size_t size)
{
    return aligned(alignment, size, CALLER, CALLER_FRAME);
}

/* C17 as amended: any power of two, any size; anything else is refused. */
EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    if (!is_power_of_two(alignment)) {
        errno = EINVAL;
        return NULL;
    }
    return front_aligned(alignment, size, CALLER, CALLER_FRAME);
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t size)
{
    if (!is_power_of_two(alignment) || alignment % sizeof(void *) != 0)
        return EINVAL;
    int before = errno;
    void *block = front_aligned(alignment, size, CALLER, CALLER_FRAME);
    errno = before;
    if (block == NULL)
        return ENOMEM;
    *out = block;
    return 0;
}

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

EXPORT void *valloc(size_t size)
{
    return front_aligned(page_bytes(), size, CALLER, CALLER_FRAME);
}

static void *whole_pages(size_t size, const void *site, const void *frame)
{
    size_t page = page_bytes();
    return size > PTRDIFF_MAX
               ? front_fail()
               : front_aligned(page, align_up(size > 0 ? size : 1, page), site, frame);
}

EXPORT void *pvalloc(size_t size)
{
    return whole_pages(size, CALLER, CALLER_FRAME);
}

EXPORT size_t malloc_usable_size(void *block)
{
    return heap_usable(block);
}

EXPORT void cfree(void *block);
EXPORT void cfree(void *block)
{
    heap_free(block);
}

EXPORT void free_sized(void *block, size_t size);
EXPORT void free_sized(void *block, size_t size)
{
    heap_free_sized(block, size, 1);
}

EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size);
EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size)
{
    heap_free_sized(block, size, alignment);
}

/* jemalloc's flags hold log2 of the alignment in their low six bits. */
static size_t flags_alignment(int flags)
{
    return (size_t)1 << (flags & 63);
}

EXPORT size_t nallocx(size_t size, int flags);
EXPORT size_t nallocx(size_t size, int flags)
{
    size_t alignment = flags_alignment(flags);
    unsigned class = class_aligned(size, alignment);
    if (class != 0)
        return class_facts[class].bytes;
    return heap_good_size(size_max(size, MEDIUM_MAX + 1)); /* 0 above PTRDIFF_MAX */
}

EXPORT void sdallocx(void *block, size_t size, int flags);
EXPORT void sdallocx(void *block, size_t size, int flags)
{
    heap_free_sized(block, size, flags_alignment(flags));
}

/* The C library's internal names, which some programs call directly. */

EXPORT void *__libc_malloc(size_t size);
EXPORT void *__libc_malloc(size_t size)
{
    return front_alloc_here(size);
}

EXPORT void __libc_free(void *block);
EXPORT void __libc_free(void *block)
{
    heap_free(block);
}

EXPORT void __libc_cfree(void *block);
EXPORT void __libc_cfree(void *block)
{
    heap_free(block);
}

EXPORT void *__libc_calloc(size_t count, size_t size);
EXPORT void *__libc_calloc(size_t count, size_t size)
{
    return front_zeroed(count, size, CALLER, CALLER_FRAME);
}

EXPORT void *__libc_realloc(void *block, size_t size);
EXPORT void *__libc_realloc(void *block, size_t size)
{
    return front_realloc(block, size, CALLER, CALLER_FRAME);
}

EXPORT void *__libc_memalign(size_t alignment, size_t size);
EXPORT void *__libc_memalign(size_t alignment, size_t size)
{
    return aligned(alignment, size, CALLER, CALLER_FRAME);
}

EXPORT void *__libc_valloc(size_t size);
EXPORT void *__libc_valloc(size_t size)
{
    return front_aligned(page_bytes(), size, CALLER, CALLER_FRAME);
}

EXPORT void *__libc_pvalloc(size_t size);
EXPORT void *__libc_pvalloc(size_t size)
{
    return whole_pages(size, CALLER, CALLER_FRAME);
}
