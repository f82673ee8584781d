/*
 * poisson.c: the logarithm bit by bit, by squaring; the exponential by its series.
 *
 * Owner: nobody; no state. Numbers are fixed point: Q48 has 48 bits behind the point. Design:
 * docs/design/sampling.md
 */
#include "site/poisson.h"

enum { LOG_BITS = 48, HALVINGS = 6, EXP_BITS = 31, RATIO_BITS = 24, TERMS = 10 };

/* From this many times the rate on, a request is sampled all but surely. */
enum { SURE_RATIO = 40 };

static const uint64_t ln_2 = 0xB17217F7D1CF79AB; /* Q64 */

__extension__ typedef unsigned __int128 wide;

uint64_t multiply_high(uint64_t a, uint64_t b)
{
    return (uint64_t)((wide)a * b >> 64);
}

uint64_t poisson_random(uint64_t *state)
{
    uint64_t x = *state += 0x9E3779B97F4A7C15;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
    x = (x ^ x >> 27) * 0x94D049BB133111EB;
    return x ^ x >> 31;
}

/* The binary logarithm of value >= 1, in Q48: squaring doubles a logarithm, so it brings out one
 * bit after the other. */
static uint64_t log2_of(uint64_t value)
{
    unsigned shift = (unsigned)__builtin_clzll(value);
    uint64_t mantissa = value << shift; /* Q63, at least 1 */
    uint64_t log = (uint64_t)(63 - shift) << LOG_BITS;
    for (unsigned bit = LOG_BITS; bit-- > 0;) {
        mantissa = multiply_high(mantissa, mantissa); /* Q62 */
        if (mantissa >> 63 != 0)
            log |= (uint64_t)1 << bit;
        else
            mantissa <<= 1;
    }
    return log;
}

uint64_t poisson_distance(uint64_t rate, uint64_t random)
{
    uint64_t chance = random != 0 ? random : 1; /* of 2^64 */
    uint64_t halvings = ((uint64_t)64 << LOG_BITS) - log2_of(chance);
    return (uint64_t)((wide)multiply_high(halvings, ln_2) * rate >> LOG_BITS);
}

/* exp(-ratio) in Q31, for a ratio in Q24 from 1 to SURE_RATIO. */
static uint64_t exp_of_minus(uint64_t ratio)
{
    uint64_t part = ratio << (EXP_BITS - RATIO_BITS) >> HALVINGS; /* of the ratio: below 1 */
    uint64_t result = 0, term = (uint64_t)1 << EXP_BITS;
    for (uint64_t i = 0; i < TERMS; i++) {
        result = i % 2 == 0 ? result + term : result - term;
        term = term * part / (i + 1) >> EXP_BITS;
    }
    for (unsigned i = 0; i < HALVINGS; i++)
        result = result * result >> EXP_BITS;
    return result;
}

/* 1 / (1 - exp(-x)) = 1/x + 1/2 + x/12 - x^3/720 + x^5/30240 - ..., for x up to 1. */
static uint64_t weight_of_small(uint64_t rate, uint64_t bytes)
{
    uint64_t x = (bytes << RATIO_BITS) / rate;
    uint64_t x2 = x * x >> RATIO_BITS;
    uint64_t x3 = x2 * x >> RATIO_BITS;
    uint64_t x5 = x3 * x2 >> RATIO_BITS;
    uint64_t tail = x / 12 - x3 / 720 + x5 / 30240;
    return (rate << POISSON_WEIGHT_BITS) / bytes + ((uint64_t)1 << (POISSON_WEIGHT_BITS - 1)) +
           (tail >> (RATIO_BITS - POISSON_WEIGHT_BITS));
}

uint64_t poisson_weight(uint64_t rate, uint64_t bytes)
{
    if (bytes <= rate)
        return weight_of_small(rate, bytes);
    if (bytes / rate >= SURE_RATIO)
        return (uint64_t)1 << POISSON_WEIGHT_BITS;
    uint64_t ratio = (uint64_t)(((wide)bytes << RATIO_BITS) / rate);
    return ((uint64_t)1 << (POISSON_WEIGHT_BITS + EXP_BITS)) /
           (((uint64_t)1 << EXP_BITS) - exp_of_minus(ratio));
}
