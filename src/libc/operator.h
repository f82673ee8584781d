/*
 * operator.h: what the two files of C++ operators share.
 *
 * A program may replace just the basic operators; all other forms must then reach its own. So the
 * forms live in a file that does not define the basic ones, and ask whether the basic ones are
 * still ours.
 */
#ifndef CALM_LIBC_OPERATOR_H
#define CALM_LIBC_OPERATOR_H

#include "front/front.h"

/* A static program may define the same names; ours then step back. */
#define WEAK __attribute__((weak))

typedef uint8_t hot_cold; /* __hot_cold_t: how hot, 0 to 255; a hint we have no use for yet */
typedef const void *nothrow;

struct sized_block {
    void *block;
    size_t bytes;
};

/* The basic operators as the program has them. */
EXPORT void *_Znwm(size_t bytes);
EXPORT void *_ZnwmSt11align_val_t(size_t bytes, size_t align);
EXPORT void _ZdlPv(void *block);
EXPORT void _ZdlPvSt11align_val_t(void *block, size_t align);

/* The basic operators as we have them. */
HIDDEN void *operator_own_new(size_t bytes);
HIDDEN void *operator_own_new_aligned(size_t bytes, size_t align);
HIDDEN void operator_own_delete(void *block);
HIDDEN void operator_own_delete_aligned(void *block, size_t align);

/* After a cache had nothing: asks the new-handler and throws when it may. The first looks at the
 * site's own cohort before that, for who looked in a cache before. */
HIDDEN void *operator_new_missed(size_t bytes, const void *site, const void *frame, bool may_throw,
                                 struct cache_miss at);
HIDDEN void *operator_new_slow(size_t bytes, const void *site, const void *frame, bool may_throw);
HIDDEN void *operator_new_aligned(size_t bytes, size_t align, const void *site, const void *frame,
                                  bool may_throw);

/* Through the nothrow forms of the caller's C++ library, which call the program's basic ones and
 * catch; NULL without that library. */
HIDDEN void *operator_new_caught(size_t bytes, size_t align, const void *site);

typedef void (*any_function)(void);

/*
 * Whether the program's operator is our own. Costs one load, of the linker's entry. To a compiler
 * two names are two functions, so one of the addresses is hidden from it.
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

/* In an exported function, whose caller is the site. */
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

/* The usable size, when the block is ours to know. */
static inline struct sized_block with_size(void *block, size_t bytes, bool is_known)
{
    return (struct sized_block){
        block, block != NULL && is_known ? size_max(heap_usable(block), bytes) : bytes};
}

#endif
