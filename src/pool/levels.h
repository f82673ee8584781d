/*
 * levels.h: the words of a class's map that have a free block: three levels of 64, so that finding
 * the lowest takes a constant number of steps.
 *
 * Bit w % 64 of near[w / 64] stands for word w of the map, bit n % 64 of far[n / 64] for near[n],
 * bit f of the root for far[f]. 64^3 words of 64 blocks are 2^24 blocks. The code uses only arrays
 * and indices, makes no pointer from a number and has no loop, so that a verifier can follow.
 *
 * Owner: the pool's owner alone reads and writes. Invariant L1: a bit of far or root is set exactly
 * when its word below is not 0. Checked by pool_verify().
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

/*
 * Definitions for the proofs. tests/proof defines is_set(word, i) twice: as the bit itself, to
 * prove the functions of one word, and only by their contracts, to prove the rest.
 */
/*@ axiomatic Sizes {
  @   logic integer nears(uint64_t *near) reads \nothing;
  @   axiom nears_bounded: \forall uint64_t *near; 0 < nears(near) <= LEVEL_NEAR_MAX;
  @ }
  @ logic integer fars(uint64_t *near) = (nears(near) + 63) / 64;
  @ predicate has{L}(uint64_t *level, integer i) = is_set(level[i / 64], i % 64);
  @ predicate sums{L}(uint64_t *above, uint64_t *below, integer n) =
  @   \forall integer k; 0 <= k < n ==> (has(above, k) <==> below[k] != 0);
  @ predicate ends{L}(uint64_t *above, integer n) =
  @   \forall integer k; n <= k < 64 * ((n + 63) / 64) ==> !has(above, k);
  @ predicate apart{L}(uint64_t *root, uint64_t *far, uint64_t *near) =
  @   \separated(root, far + (0 .. fars(near) - 1), near + (0 .. nears(near) - 1));
  @ predicate mapped{L}(uint64_t *root, uint64_t *far, uint64_t *near) =
  @   \valid(root) && \valid(far + (0 .. fars(near) - 1)) && \valid(near + (0 .. nears(near) - 1));
  @ predicate level_one{L}(uint64_t *root, uint64_t *far, uint64_t *near) =
  @   sums(far, near, nears(near)) && ends(far, nears(near)) &&
  @   sums(root, far, fars(near)) && ends(root, fars(near));
  @*/

/*@ requires i < 64;
  @ assigns \nothing;
  @ ensures \forall integer k; 0 <= k < 64 ==> (is_set(\result, k) <==> k == i);
  @*/
ALWAYS_INLINE uint64_t level_bit(uint32_t i)
{
    return (uint64_t)1 << i;
}

/*@ requires i < 64;
  @ assigns \nothing;
  @ ensures is_set(\result, i) && \result != 0;
  @ ensures \forall integer k; 0 <= k < 64 && k != i ==> (is_set(\result, k) <==> is_set(word, k));
  @*/
ALWAYS_INLINE uint64_t level_with(uint64_t word, uint32_t i)
{
    uint64_t with = word | (uint64_t)1 << i;
    /*@ assert is_set(with, i); */
    return with;
}

/*@ requires i < 64;
  @ assigns \nothing;
  @ ensures !is_set(\result, i);
  @ ensures word == 0 ==> \result == 0;
  @ ensures \forall integer k; 0 <= k < 64 && k != i ==> (is_set(\result, k) <==> is_set(word, k));
  @*/
ALWAYS_INLINE uint64_t level_without(uint64_t word, uint32_t i)
{
    return word & ~((uint64_t)1 << i);
}

/* Clears the lowest bit of a word that has one: takes a block. Returns the bit's number. */
/*@ requires \exists integer k; 0 <= k < 64 && is_set(free, k);
  @ requires \valid(after);
  @ assigns *after;
  @ ensures \result < 64;
  @ ensures is_set(free, \result) && !is_set(*after, \result);
  @ ensures \forall integer k; 0 <= k < 64 && k != \result ==>
  @   (is_set(*after, k) <==> is_set(free, k));
  @ ensures \forall integer k; 0 <= k < \result ==> !is_set(free, k);
  @*/
ALWAYS_INLINE uint32_t word_take(uint64_t free, uint64_t *after)
{
    uint32_t i = bit_lowest(free);
    *after = level_without(free, i);
    return i;
}

/* The blocks that other threads freed and the owner does not have yet. */
/*@ assigns \nothing;
  @ ensures \forall integer k; 0 <= k < 64 ==>
  @   (is_set(\result, k) <==> is_set(freed, k) && !is_set(free, k));
  @*/
ALWAYS_INLINE uint64_t word_found(uint64_t free, uint64_t freed)
{
    return freed & ~free;
}

/* Adds the found blocks to the owner's. */
/*@ assigns \nothing;
  @ ensures \forall integer k; 0 <= k < 64 ==>
  @   (is_set(\result, k) <==> is_set(free, k) || is_set(found, k));
  @*/
ALWAYS_INLINE uint64_t word_with(uint64_t free, uint64_t found)
{
    return free | found;
}

/* The number of the lowest bit; 0 for an empty word. */
/*@ assigns \nothing;
  @ ensures \result < 64;
  @ ensures word != 0 ==> is_set(word, \result);
  @*/
ALWAYS_INLINE uint32_t lowest_or_0(uint64_t word)
{
    return word == 0 ? 0 : bit_lowest(word);
}

/*@ requires \valid(level + i / 64);
  @ assigns level[i / 64];
  @ ensures has(level, i) && level[i / 64] != 0;
  @ ensures \forall integer k; 0 <= k && k != i ==> (has(level, k) <==> has{Old}(level, k));
  @*/
ALWAYS_INLINE void level_set(uint64_t *level, uint32_t i)
{
    level[i / 64] = level_with(level[i / 64], i % 64);
}

/*@ requires \valid(level + i / 64);
  @ assigns level[i / 64];
  @ ensures !has(level, i) && (\old(level[i / 64]) == 0 ==> level[i / 64] == 0);
  @ ensures \forall integer k; 0 <= k && k != i ==> (has(level, k) <==> has{Old}(level, k));
  @*/
ALWAYS_INLINE void level_clear(uint64_t *level, uint32_t i)
{
    level[i / 64] = level_without(level[i / 64], i % 64);
}

/*@ requires mapped(root, far, near) && apart(root, far, near) && level_one(root, far, near);
  @ requires w / 64 < nears(near);
  @ assigns *root, far[w / 4096], near[w / 64];
  @ ensures sums(far, near, nears(near));
  @ ensures ends(far, nears(near));
  @ ensures sums(root, far, fars(near));
  @ ensures ends(root, fars(near));
  @ ensures has(near, w) && *root != 0;
  @ ensures \forall integer k; 0 <= k < 64 * nears(near) && k != w ==>
  @   (has(near, k) <==> has{Old}(near, k));
  @*/
ALWAYS_INLINE void levels_set(uint64_t *root, uint64_t *far, uint64_t *near, uint32_t w)
{
    level_set(near, w);
    level_set(far, w / 64);
    level_set(root, w / 4096);
}

/*@ requires mapped(root, far, near) && apart(root, far, near) && level_one(root, far, near);
  @ requires w / 64 < nears(near);
  @ assigns *root, far[w / 4096], near[w / 64];
  @ ensures sums(far, near, nears(near));
  @ ensures ends(far, nears(near));
  @ ensures sums(root, far, fars(near));
  @ ensures ends(root, fars(near));
  @ ensures !has(near, w);
  @ ensures \forall integer k; 0 <= k < 64 * nears(near) && k != w ==>
  @   (has(near, k) <==> has{Old}(near, k));
  @*/
ALWAYS_INLINE void levels_clear(uint64_t *root, uint64_t *far, uint64_t *near, uint32_t w)
{
    level_clear(near, w);
    if (near[w / 64] != 0)
        return;
    level_clear(far, w / 64);
    if (far[w / 4096] == 0)
        level_clear(root, w / 4096);
}

/* The lowest word with a free block. Pre: *root != 0, and L1. */
/*@ requires mapped(root, far, near) && level_one(root, far, near) && *root != 0;
  @ assigns \nothing;
  @ ensures \result < 64 * nears(near);
  @ ensures has(near, \result);
  @ ensures \forall integer k; 0 <= k < \result ==> !has(near, k);
  @*/
ALWAYS_INLINE uint32_t levels_first(const uint64_t *root, const uint64_t *far, const uint64_t *near)
{
    uint32_t f = bit_lowest(*root);
    /*@ assert \forall integer k; 0 <= k < f ==> !has(root, k) && far[k] == 0; */
    uint32_t n = f * 64 + bit_lowest(far[f]);
    /*@ assert n / 64 == f && has(far, n); */
    /*@ assert n < nears(near); */
    /*@ assert near[n] != 0; */
    /*@ assert \forall integer k; 0 <= k < 64 * f ==> !has(far, k); */
    /*@ assert \forall integer k; 64 * f <= k < n ==> k / 64 == f && !has(far, k); */
    /*@ assert \forall integer k; 0 <= k < n ==> near[k] == 0; */
    return n * 64 + bit_lowest(near[n]);
}

/* The number of set bits, without popcnt, which not every x86-64 has. */
/*@ assigns \nothing; */
ALWAYS_INLINE uint32_t level_count(uint64_t word)
{
    word -= (word >> 1) & 0x5555555555555555u;
    word = (word & 0x3333333333333333u) + ((word >> 2) & 0x3333333333333333u);
    word = (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
    return (uint32_t)((word * 0x0101010101010101u) >> 56);
}

/* The number of ascending keys below `value`. Pre: value <= keys[KEYS - 1]. */
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
