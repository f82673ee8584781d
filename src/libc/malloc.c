/*
 * malloc.c: the standard C functions and their common variants.
 *
 * Each calls front with its own return address as the site. Where the standards leave a choice:
 * realloc(p, 0) frees and returns NULL; free and its variants preserve errno; posix_memalign
 * returns its error, preserves errno, and on failure leaves the output alone.
 * Sources: C17 7.22.3, C23 7.24.3, POSIX.1-2024, malloc(3).
 */
#define _GNU_SOURCE

#include <malloc.h>
#include <stdlib.h>

#include "libc/aligned.h"

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

EXPORT void *memalign(size_t alignment, size_t size)
{
    return aligned_rounded(alignment, size, CALLER, CALLER_FRAME);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    return aligned_exact(alignment, size, CALLER, CALLER_FRAME);
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t size)
{
    return aligned_posix(out, alignment, size, CALLER, CALLER_FRAME);
}

EXPORT void *valloc(size_t size)
{
    return front_aligned(aligned_page_bytes(), size, CALLER, CALLER_FRAME);
}

EXPORT void *pvalloc(size_t size);
EXPORT void *pvalloc(size_t size)
{
    return aligned_pages(size, CALLER, CALLER_FRAME);
}

EXPORT size_t malloc_usable_size(void *block)
{
    return heap_usable(block);
}

EXPORT int malloc_trim(size_t keep);
EXPORT int malloc_trim(size_t keep)
{
    (void)keep; /* bytes to keep at the top of glibc's heap; ours has no top */
    return heap_trim() ? 1 : 0;
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
    return aligned_rounded(alignment, size, CALLER, CALLER_FRAME);
}

EXPORT void *__libc_valloc(size_t size);
EXPORT void *__libc_valloc(size_t size)
{
    return front_aligned(aligned_page_bytes(), size, CALLER, CALLER_FRAME);
}

EXPORT void *__libc_pvalloc(size_t size);
EXPORT void *__libc_pvalloc(size_t size)
{
    return aligned_pages(size, CALLER, CALLER_FRAME);
}
