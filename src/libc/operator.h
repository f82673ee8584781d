/*
 * operator.h: shared declarations of the two files of C++ operators.
 *
 * A program may replace only the basic operators; all other forms must then call the program's. So
 * the other forms live in a separate file and test whether the basic operators are still ours.
 */
#ifndef CALM_LIBC_OPERATOR_H
#define CALM_LIBC_OPERATOR_H

#include "front/front.h"

/* A static program may define the same names; its definitions then win. */
#define WEAK __attribute__((weak))

typedef uint8_t hot_cold; /* __hot_cold_t: how hot, 0 to 255; a hint, ignored */
typedef const void *nothrow;

struct sized_block {
    void *block;
    size_t bytes;
};

/* The basic operators in force: the program's or ours. */
EXPORT void *_Znwm(size_t bytes);
EXPORT void *_ZnwmSt11align_val_t(size_t bytes, size_t align);
EXPORT void _ZdlPv(void *block);
EXPORT void _ZdlPvSt11align_val_t(void *block, size_t align);

/* Our basic operators. */
HIDDEN void *operator_own_new(size_t bytes);
HIDDEN void *operator_own_new_aligned(size_t bytes, size_t align);
HIDDEN void operator_own_delete(void *block);
HIDDEN void operator_own_delete_aligned(void *block, size_t align);

/* Slow paths: each asks the new-handler, and throws if it may. operator_new_missed, after a cache
 * miss at `at`, first looks in the cache for a block of the site's own cohort. */
HIDDEN void *operator_new_missed(size_t bytes, const void *site, const void *frame, bool may_throw,
                                 struct cache_miss at);
HIDDEN void *operator_new_slow(size_t bytes, const void *site, const void *frame, bool may_throw);
HIDDEN void *operator_new_aligned(size_t bytes, size_t align, const void *site, const void *frame,
                                  bool may_throw);

/* Calls the nothrow form of the caller's C++ library, which calls the program's basic operator and
 * catches. NULL without that library. */
HIDDEN void *operator_new_caught(size_t bytes, size_t align, const void *site);

typedef void (*any_function)(void);

/*
 * Whether the program's operator is ours. Cost: one load, of the linker's entry. The compiler takes
 * two names for two functions, so the assembly hides one address from it.
 */
ALWAYS_INLINE bool is_ours(any_function programs, any_function own)
{
    __asm__("" : "+r"(own));
    return likely(programs == own);
}

ALWAYS_INLINE bool is_new_ours(void)
{
    return is_ours((any_function)_Znwm, (any_function)operator_own_new);
}

ALWAYS_INLINE bool is_new_aligned_ours(void)
{
    return is_ours((any_function)_ZnwmSt11align_val_t, (any_function)operator_own_new_aligned);
}

/* Use only in an exported function, whose caller is the site. */
ALWAYS_INLINE void *operator_new_plain(size_t bytes, bool may_throw)
{
    struct cache_miss at;
    if (unlikely(bytes > SMALL_MAX))
        return operator_new_slow(bytes, RETURN_ADDRESS_AGAIN, CALLER_FRAME, may_throw);
    void *block = site_alloc_look(bytes, CALLER, &at);
    if (likely(block != NULL))
        return block;
    return operator_new_missed(bytes, RETURN_ADDRESS_AGAIN, CALLER_FRAME, may_throw, at);
}

/* The usable size if the block is ours, else `bytes`. */
static inline struct sized_block with_size(void *block, size_t bytes, bool is_known)
{
    return (struct sized_block){
        block, block != NULL && is_known ? size_max(heap_usable(block), bytes) : bytes};
}

#endif
