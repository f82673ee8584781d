/*
 * mark.h: the mark, a word that a free block begins with.
 *
 * Free writes it, malloc clears it. A free that finds the mark takes a slow path, which searches
 * for the block; so does a malloc that misses it, as the block was written to or freed twice. Every
 * free block in a cache or a batch is marked; of those in bitmaps, the blocks below their slab's
 * `marked` (core/slab.h).
 */
#ifndef CALM_CORE_MARK_H
#define CALM_CORE_MARK_H

#include "base/atomic.h"
#include "base/attr.h"

/* Unpredictable, except for the highest byte, a value that no pointer, no UTF-8 text and only very
 * large numbers have there. */
extern HIDDEN uint64_t cache_mark;

/* True in a fork's child whose parent had other threads, for ever. The pages of a block and of the
 * cache that held it may have been copied at different moments, so a free block may lack its mark
 * (docs/decisions/safety.md). */
extern HIDDEN _Atomic bool marks_are_unsure;
enum { MARK_HIGHEST = 0xfb, MARK_HIGHEST_AT = 7, MARK_RANDOM_BITS = 56 };
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a word ends with its highest byte");

/* A block's first word, whatever type the program gave it. */
typedef uint64_t __attribute__((may_alias)) block_word;

/* Whether a block may be free. Compares one byte of the mark; a slow path compares the rest. A
 * program's last write to a block is often a byte or a number, and a wider read than that stalls
 * until the write has left the store buffer. The highest byte of a word rarely has the mark's
 * value; the lowest would match one number in 256. */
ALWAYS_INLINE bool block_looks_free(const void *block)
{
    return ((const unsigned char *)block)[MARK_HIGHEST_AT] == MARK_HIGHEST;
}

ALWAYS_INLINE bool block_is_marked(const void *block)
{
    return *(const block_word *)block == cache_mark;
}

ALWAYS_INLINE void block_mark(void *block)
{
    if (CHECKS >= 1)
        *(block_word *)block = cache_mark;
}

/* Whether a block may be handed out without a mark. Clears its first word then. */
static inline bool block_is_excused(void *block)
{
    if (!load(&marks_are_unsure, RELAXED))
        return false;
    *(block_word *)block = 0;
    return true;
}

/* Clears the mark of a block that is handed out. False: no mark; the block is unchanged. */
ALWAYS_INLINE bool block_unmark(void *block)
{
    if (CHECKS == 0)
        return true;
    if (unlikely(!block_is_marked(block)))
        return false;
    *(block_word *)block = 0;
    return true;
}

#endif
