/*
 * levels.h: which words of a class's map have a block to hand out: three levels of 64, so that the
 * lowest is found by a constant number of steps.
 *
 * Bit w % 64 of near[w / 64] stands for word w of the map, bit n % 64 of far[n / 64] for near[n],
 * bit f of the root for far[f]. 64^3 words of 64 blocks are 2^24 blocks. Arrays and indices only:
 * no pointer is made from a number, and nothing loops, so that a verifier can follow.
 *
 * Owner: the pool's owner, who alone reads and writes. Invariant L1: a bit of far or root is set
 * exactly when the word below it is not 0.   Checked by pool_verify().
 * Design: docs/design/pool.md; contracts are in ACSL (Frama-C).
 */
#ifndef CALM_POOL_LEVELS_H
#define CALM_POOL_LEVELS_H

#include "base/bits.h"

enum {
    LEVEL_BITS = 6,
    LEVEL_WORDS_MAX = 1 << 18, /* words of a map */
    LEVEL_NEAR_MAX = 1 << 12,
    LEVEL_FAR_MAX = 1 << 6,
    KEYS = 64
};

/*@ predicate bit_is_set(uint64_t word, integer i) = ((word >> i) & 1) == 1; */

/*@ requires i < 64;
  @ assigns \nothing;
  @ ensures \result == (1 << i);
  @*/
ALWAYS_INLINE uint64_t level_bit(uint32_t i)
{
    return (uint64_t)1 << i;
}

/*@ requires w < LEVEL_WORDS_MAX;
  @ requires \valid(root) && \valid(far + (w >> 12)) && \valid(near + (w >> 6));
  @ requires \separated(root, far + (0 .. LEVEL_FAR_MAX - 1), near + (0 .. LEVEL_NEAR_MAX - 1));
  @ assigns *root, far[w >> 12], near[w >> 6];
  @ ensures near[w >> 6] == (\old(near[w >> 6]) | (1 << (w & 63)));
  @ ensures far[w >> 12] == (\old(far[w >> 12]) | (1 << ((w >> 6) & 63)));
  @ ensures *root == (\old(*root) | (1 << (w >> 12)));
  @*/
ALWAYS_INLINE void levels_set(uint64_t *root, uint64_t *far, uint64_t *near, uint32_t w)
{
    near[w >> 6] |= level_bit(w & 63);
    far[w >> 12] |= level_bit((w >> 6) & 63);
    *root |= level_bit(w >> 12);
}

/*@ requires w < LEVEL_WORDS_MAX;
  @ requires \valid(root) && \valid(far + (w >> 12)) && \valid(near + (w >> 6));
  @ requires \separated(root, far + (0 .. LEVEL_FAR_MAX - 1), near + (0 .. LEVEL_NEAR_MAX - 1));
  @ assigns *root, far[w >> 12], near[w >> 6];
  @ ensures near[w >> 6] == (\old(near[w >> 6]) & ~(1 << (w & 63)));
  @ ensures near[w >> 6] != 0 ==> far[w >> 12] == \old(far[w >> 12]) && *root == \old(*root);
  @*/
ALWAYS_INLINE void levels_clear(uint64_t *root, uint64_t *far, uint64_t *near, uint32_t w)
{
    near[w >> 6] &= ~level_bit(w & 63);
    if (near[w >> 6] != 0)
        return;
    far[w >> 12] &= ~level_bit((w >> 6) & 63);
    if (far[w >> 12] == 0)
        *root &= ~level_bit(w >> 12);
}

/* The lowest word that is set. Pre: root != 0, and L1. */
/*@ requires root != 0;
  @ requires \forall integer f; 0 <= f < 64 && bit_is_set(root, f) ==>
  @     \valid_read(far + f) && far[f] != 0;
  @ requires \forall integer f, n; 0 <= f < 64 && 0 <= n < 64 && bit_is_set(root, f) &&
  @     bit_is_set(far[f], n) ==> \valid_read(near + (f * 64 + n)) && near[f * 64 + n] != 0;
  @ assigns \nothing;
  @ ensures \result < LEVEL_WORDS_MAX;
  @ ensures bit_is_set(near[\result >> 6], \result & 63);
  @*/
ALWAYS_INLINE uint32_t levels_first(uint64_t root, const uint64_t *far, const uint64_t *near)
{
    uint32_t f = bit_lowest(root);
    uint32_t n = (f << LEVEL_BITS) | bit_lowest(far[f]);
    return (n << LEVEL_BITS) | bit_lowest(near[n]);
}

/* How many bits are set, without the instruction that not every x86-64 has. */
/*@ assigns \nothing;
  @ ensures \result <= 64;
  @*/
ALWAYS_INLINE uint32_t level_count(uint64_t word)
{
    word -= (word >> 1) & 0x5555555555555555u;
    word = (word & 0x3333333333333333u) + ((word >> 2) & 0x3333333333333333u);
    word = (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
    return (uint32_t)((word * 0x0101010101010101u) >> 56);
}

/* How many of the ascending keys are below `value`. Pre: value <= keys[KEYS - 1]. */
/*@ requires \valid_read(keys + (0 .. KEYS - 1));
  @ requires \forall integer i, j; 0 <= i <= j < KEYS ==> keys[i] <= keys[j];
  @ requires value <= keys[KEYS - 1];
  @ assigns \nothing;
  @ ensures \result < KEYS;
  @ ensures \forall integer i; 0 <= i < \result ==> keys[i] < value;
  @ ensures value <= keys[\result];
  @*/
ALWAYS_INLINE uint32_t keys_below(const uint64_t *keys, uint64_t value)
{
    uint32_t at = 0;
    at += keys[at + 31] < value ? 32u : 0u;
    at += keys[at + 15] < value ? 16u : 0u;
    at += keys[at + 7] < value ? 8u : 0u;
    at += keys[at + 3] < value ? 4u : 0u;
    at += keys[at + 1] < value ? 2u : 0u;
    at += keys[at] < value ? 1u : 0u;
    return at;
}

#endif
