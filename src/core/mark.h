/*
 * mark.h: the word that a free block begins with.
 *
 * Free writes it, malloc clears it. A free that finds it, and a malloc that does not, go out of the
 * fast path: the first asks for an exact search, the second says that the block was written to, or
 * freed twice. Every free block of a cache or a batch has it; of those in bitmaps, the ones below
 * their slab's `marked` (core/slab.h).
 */
#ifndef CALM_CORE_MARK_H
#define CALM_CORE_MARK_H

#include "base/atomic.h"
#include "base/attr.h"

/* Unpredictable, but for its highest byte, which no pointer, no UTF-8 text and no number has there
 * that is not very large. */
extern HIDDEN uint64_t cache_mark;

/* A fork's child of a program that had other threads: the page of a block may be from a later or an
 * earlier moment than the page of the cache that had it, so that a free block may lack its mark.
 * For ever (docs/decisions/safety.md). */
extern HIDDEN _Atomic bool marks_are_unsure;
enum { MARK_HIGHEST = 0xfb, MARK_HIGHEST_AT = 7, MARK_RANDOM_BITS = 56 };
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a word ends with its highest byte");

/* A block's first word, whatever type the program gave it. */
typedef uint64_t __attribute__((may_alias)) block_word;

/* Whether a block may lie free: one byte of the mark, the rest is compared out of the way. A
 * program's last write to a block is often a byte or a number; to read more than that at once waits
 * until the write has left the processor's store buffer. And the highest byte of a word is rarely
 * what the mark has there, the lowest is in one of 256 numbers. */
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

/* Whether a block without a mark may be handed out all the same: its first word becomes 0. */
static inline bool block_is_excused(void *block)
{
    if (!load(&marks_are_unsure, RELAXED))
        return false;
    *(block_word *)block = 0;
    return true;
}

/* Of a block that is handed out. False: it had no mark, and has what it had. */
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
