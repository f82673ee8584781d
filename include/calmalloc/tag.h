/*
 * tag.h: naming the site of a request oneself: for programs that can be recompiled.
 *
 * calmalloc takes the address that a request returns to for its site. A tag takes that address's
 * place: any number, the same for what belongs together. To every policy, the profiler and the
 * statistics it is a site like any other. It never is the same as an address: a tag's site has its
 * highest bit set, and no program has code there. So the highest bit of a tag does not count, and
 * two tags are two sites when they differ in any of the other 63. Tag 0 means none: the site is the
 * caller, as without a tag.
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
 * 2^64, of the last 64 characters of the file's name as the compiler was told it, and of the line.
 * The same in C and C++ and in every build with the same names. In a header, all who use the line
 * share it.
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
/* Internal: as calmalloc.h declares it. */
extern "C" void calm_free(void *block);

namespace calm
{
/* new (calm::tag{7}) T: an ordinary new, whose site is the tag. What it makes is deleted as usual,
 * where the program's operator delete is calmalloc's. No memory: the new-handler is asked, then
 * std::bad_alloc is thrown; a program that is compiled without exceptions ends with a sentence. */
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

/* Internal: what the operators below share. */
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

/* The same for arrays. */
inline void *operator new[](std::size_t size, calm::tag at)
{
    return calm::new_at(size, 0, at);
}

/* What the compiler calls where a constructor throws. */
inline void operator delete(void *block, calm::tag) noexcept
{
    calm_free(block);
}

/* The same for arrays. */
inline void operator delete[](void *block, calm::tag) noexcept
{
    calm_free(block);
}

#ifdef __cpp_aligned_new
/* The same for what needs more alignment than malloc gives. */
inline void *operator new(std::size_t size, std::align_val_t alignment, calm::tag at)
{
    return calm::new_at(size, static_cast<std::size_t>(alignment), at);
}

/* The same for arrays of these. */
inline void *operator new[](std::size_t size, std::align_val_t alignment, calm::tag at)
{
    return calm::new_at(size, static_cast<std::size_t>(alignment), at);
}

/* What the compiler calls where a constructor of these throws. */
inline void operator delete(void *block, std::align_val_t, calm::tag) noexcept
{
    calm_free(block);
}

/* The same for arrays. */
inline void operator delete[](void *block, std::align_val_t, calm::tag) noexcept
{
    calm_free(block);
}
#endif

/* CALM_NEW(T)(arguments), CALM_NEW(T[10]): new with this line's tag. */
#define CALM_NEW(...) new (::calm::tag{CALM_HERE}) __VA_ARGS__
#endif

#endif
