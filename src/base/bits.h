/*
 * bits.h: powers of two, rounding, and bit indexes.
 */
#ifndef CALM_BASE_BITS_H
#define CALM_BASE_BITS_H

#include "base/attr.h"

ALWAYS_INLINE bool is_power_of_two(size_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* Round to a multiple of `align`, a power of two. Rounding up wraps to 0 past SIZE_MAX: callers
 * bound `value` first. */
ALWAYS_INLINE size_t align_down(size_t value, size_t align)
{
    return value & ~(align - 1);
}

ALWAYS_INLINE size_t align_up(size_t value, size_t align)
{
    return (value + align - 1) & ~(align - 1);
}

/* Index of the lowest and of the highest set bit. Pre: value != 0. */
/*@ requires value != 0;
  @ assigns \nothing;
  @ ensures \result < 64 && is_set(value, \result);
  @ ensures \forall integer i; 0 <= i < \result ==> !is_set(value, i);
  @*/
ALWAYS_INLINE unsigned bit_lowest(uint64_t value)
{
    return (unsigned)__builtin_ctzll(value);
}

ALWAYS_INLINE unsigned bit_highest(uint64_t value)
{
    return 63u - (unsigned)__builtin_clzll(value);
}

ALWAYS_INLINE unsigned bit_count(uint64_t value)
{
    return (unsigned)__builtin_popcountll(value);
}

/* The lowest `count` bits. Pre: 0 < count <= 64. */
ALWAYS_INLINE uint64_t bits_below(size_t count)
{
    return UINT64_MAX >> (64 - count);
}

ALWAYS_INLINE size_t size_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

ALWAYS_INLINE size_t size_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

#endif
