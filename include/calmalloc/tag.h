/*
 * tag.h: requests that name their own site: for programs that can be recompiled.
 *
 * calmalloc takes a request's return address as its site. A tag replaces that address: any number,
 * equal for requests that belong together. Every policy, the profiler and the statistics treat it
 * as any other site. A tag never equals an address: a tag's site has its highest bit set, and no
 * program has code there. So the highest bit of a tag does not count; two tags are two sites when
 * they differ in any of the other 63. Tag 0 means none: the site is the caller.
 *
 * Blocks are freed and resized by any function of calmalloc.h or the standard names. Sizes, errors
 * and threads: as the functions without a tag. Cost: about 10 instructions more than those.
 */
#ifndef CALMALLOC_TAG_H
#define CALMALLOC_TAG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#include <cstdio>
#include <cstdlib>
#include <new>

extern "C" {
#endif

/* As calm_malloc, calm_calloc, calm_realloc, calm_reallocarray and calm_aligned_alloc; the site is
 * `tag`. */
void *calm_malloc_at(size_t size, uint64_t tag);
void *calm_calloc_at(size_t count, size_t size, uint64_t tag);
void *calm_realloc_at(void *block, size_t size, uint64_t tag);
void *calm_reallocarray_at(void *block, size_t count, size_t size, uint64_t tag);
void *calm_aligned_alloc_at(size_t alignment, size_t size, uint64_t tag);

#ifdef __cplusplus
}
#endif

/* Internal: the steps of CALM_HERE, the polynomial of the last 64 characters. */
#define CALM_TAG_FACTOR UINT64_C(1099511628211) /* the 64-bit FNV prime */
#define CALM_TAG_LENGTH (sizeof __FILE__ - 1)
#define CALM_TAG_CHAR(i)                                                                           \
    ((i) < CALM_TAG_LENGTH ? (uint64_t)(unsigned char)                                             \
                                 __FILE__[(i) < CALM_TAG_LENGTH ? CALM_TAG_LENGTH - 1 - (i) : 0]   \
                           : 0)
#define CALM_TAG_2(tag, i)                                                                         \
    (((tag) * CALM_TAG_FACTOR + CALM_TAG_CHAR(i)) * CALM_TAG_FACTOR + CALM_TAG_CHAR((i) + 1))
#define CALM_TAG_8(tag, i)                                                                         \
    CALM_TAG_2(CALM_TAG_2(CALM_TAG_2(CALM_TAG_2(tag, i), (i) + 2), (i) + 4), (i) + 6)
#define CALM_TAG_32(tag, i)                                                                        \
    CALM_TAG_8(CALM_TAG_8(CALM_TAG_8(CALM_TAG_8(tag, i), (i) + 8), (i) + 16), (i) + 24)

/*
 * CALM_HERE: a tag for this line of this file, computed by the compiler: the polynomial, modulo
 * 2^64, of the last 64 characters of the file's name as the compiler knows it, and of the line
 * number. Equal in C and C++ and in every build with equal names. All users of a line in a header
 * share its tag.
 */
#define CALM_HERE                                                                                  \
    ((CALM_TAG_32(CALM_TAG_32((uint64_t)CALM_TAG_LENGTH, 0), 32) + (uint64_t)__LINE__) *           \
     CALM_TAG_FACTOR)

/* The functions with this line's tag. */
#define CALM_MALLOC_HERE(size) calm_malloc_at((size), CALM_HERE)
#define CALM_CALLOC_HERE(count, size) calm_calloc_at((count), (size), CALM_HERE)
#define CALM_REALLOC_HERE(block, size) calm_realloc_at((block), (size), CALM_HERE)
#define CALM_ALIGNED_ALLOC_HERE(alignment, size)                                                   \
    calm_aligned_alloc_at((alignment), (size), CALM_HERE)

#ifdef __cplusplus
/* Internal: declared as in calmalloc.h. */
extern "C" void calm_free(void *block);

namespace calm
{
/* new (calm::tag{7}) T: an ordinary new, whose site is the tag. Its result is deleted as usual, if
 * the program's operator delete is calmalloc's. Without memory it calls the new-handler, then
 * throws std::bad_alloc; a program compiled without exceptions ends with a sentence. */
struct tag {
    uint64_t value;
};

/* Internal: there is no memory and no handler. */
[[noreturn]] inline void no_memory()
{
#ifdef __cpp_exceptions
    throw std::bad_alloc();
#else
    std::fputs("calmalloc: std::bad_alloc\n", stderr);
    std::abort();
#endif
}

/* Internal: the common part of the operators below. */
inline void *new_at(std::size_t size, std::size_t alignment, tag at)
{
    for (;;) {
        void *block = alignment == 0 ? calm_malloc_at(size, at.value)
                                     : calm_aligned_alloc_at(alignment, size, at.value);
        if (block != nullptr)
            return block;
        std::new_handler handler = std::get_new_handler();
        if (handler == nullptr)
            no_memory();
        handler();
    }
}
} /* namespace calm */

/* An ordinary new at the site `at`. */
inline void *operator new(std::size_t size, calm::tag at)
{
    return calm::new_at(size, 0, at);
}

/* An ordinary new[] at the site `at`. */
inline void *operator new[](std::size_t size, calm::tag at)
{
    return calm::new_at(size, 0, at);
}

/* The compiler calls this when a constructor throws. */
inline void operator delete(void *block, calm::tag) noexcept
{
    calm_free(block);
}

/* The compiler calls this when a constructor of an array throws. */
inline void operator delete[](void *block, calm::tag) noexcept
{
    calm_free(block);
}

#ifdef __cpp_aligned_new
/* new at the site `at`, for more alignment than malloc gives. */
inline void *operator new(std::size_t size, std::align_val_t alignment, calm::tag at)
{
    return calm::new_at(size, static_cast<std::size_t>(alignment), at);
}

/* new[] at the site `at`, for more alignment than malloc gives. */
inline void *operator new[](std::size_t size, std::align_val_t alignment, calm::tag at)
{
    return calm::new_at(size, static_cast<std::size_t>(alignment), at);
}

/* The compiler calls this when a constructor of an over-aligned object throws. */
inline void operator delete(void *block, std::align_val_t, calm::tag) noexcept
{
    calm_free(block);
}

/* The compiler calls this when a constructor of an over-aligned array throws. */
inline void operator delete[](void *block, std::align_val_t, calm::tag) noexcept
{
    calm_free(block);
}
#endif

/* CALM_NEW(T)(arguments), CALM_NEW(T[10]): new with this line's tag. */
#define CALM_NEW(...) new (::calm::tag{CALM_HERE}) __VA_ARGS__
#endif

#endif
