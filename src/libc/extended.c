/*
 * extended.c: jemalloc's functions with flags. All of them are here: a program linked with jemalloc
 * binds each name wherever it finds it, and a block from one function must be known to the others.
 *
 * The low six bits of the flags hold log2 of the alignment, the next bit asks for zeros. The higher
 * bits choose among jemalloc's caches and arenas and are ignored. Sizes are not 0. Source:
 * jemalloc(3).
 */
#include "core/large.h"
#include "libc/aligned.h"

enum { LOG2_BITS = 63, ZERO = 64 };

static size_t flags_alignment(int flags)
{
    return (size_t)1 << (flags & LOG2_BITS);
}

static void *zeroed_from(void *block, size_t bytes)
{
    size_t usable = block == NULL ? 0 : heap_usable(block);
    if (usable > bytes)
        __builtin_memset((char *)block + bytes, 0, usable - bytes);
    return block;
}

EXPORT void *mallocx(size_t size, int flags);
EXPORT void *mallocx(size_t size, int flags)
{
    bool is_natural = flags_alignment(flags) <= ALIGN_NATURAL;
    if ((flags & ZERO) != 0 && is_natural) /* leaves fresh pages untouched */
        return zeroed_from(front_zeroed(1, size, CALLER, CALLER_FRAME), size);
    void *block = front_aligned(flags_alignment(flags), size, CALLER, CALLER_FRAME);
    return (flags & ZERO) != 0 ? zeroed_from(block, 0) : block;
}

/* Moves the block, for an alignment that realloc does not keep. */
static void *moved(void *block, size_t size, int flags, const void *site, const void *frame)
{
    size_t before = heap_usable(block);
    void *copy = front_aligned(flags_alignment(flags), size, site, frame);
    if (copy == NULL)
        return NULL;
    __builtin_memcpy(copy, block, size_min(before, size));
    heap_free(block);
    return copy;
}

EXPORT void *rallocx(void *block, size_t size, int flags);
EXPORT void *rallocx(void *block, size_t size, int flags)
{
    size_t before = heap_usable(block);
    block = flags_alignment(flags) > ALIGN_NATURAL
                ? moved(block, size, flags, CALLER, CALLER_FRAME)
                : front_realloc(block, size_max(size, 1), CALLER, CALLER_FRAME);
    return (flags & ZERO) != 0 ? zeroed_from(block, before) : block;
}

/* Never resizes: returns the present size. */
EXPORT size_t xallocx(void *block, size_t size, size_t extra, int flags);
EXPORT size_t xallocx(void *block, size_t size, size_t extra, int flags)
{
    (void)size, (void)extra, (void)flags;
    return heap_usable(block);
}

EXPORT size_t sallocx(const void *block, int flags);
EXPORT size_t sallocx(const void *block, int flags)
{
    (void)flags;
    return heap_usable((void *)(uintptr_t)block);
}

EXPORT void dallocx(void *block, int flags);
EXPORT void dallocx(void *block, int flags)
{
    (void)flags;
    heap_free(block);
}

EXPORT void sdallocx(void *block, size_t size, int flags);
EXPORT void sdallocx(void *block, size_t size, int flags)
{
    heap_free_sized(block, size, flags_alignment(flags));
}

EXPORT size_t nallocx(size_t size, int flags);
EXPORT size_t nallocx(size_t size, int flags)
{
    size_t alignment = flags_alignment(flags);
    unsigned class = class_aligned(size, alignment);
    if (class != 0)
        return class_facts[class].bytes;
    return size <= PTRDIFF_MAX ? large_units(size) << UNIT_SHIFT : 0;
}
