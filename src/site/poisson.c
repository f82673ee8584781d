/*
 * poisson.c: computes the logarithm and the exponential by their series.
 *
 * Owner: nobody; no state. Numbers are fixed point: Q62 has 62 fraction bits. Design:
 * docs/design/sampling.md
 */
#include "site/poisson.h"

enum {
    LOG_BITS = 62,
    DISTANCE_BITS = 57,
    HALVINGS = 6,
    EXP_BITS = 31,
    RATIO_BITS = 24,
    TERMS = 10
};

/* A request of this many times the rate is almost surely sampled. */
enum { SURE_RATIO = 40 };

#define ONE ((uint64_t)1 << LOG_BITS)
static const uint64_t ln_2 = 0xB17217F7D1CF79AB;   /* Q64 */
static const uint64_t root_2 = 0x5A827999FCEF3242; /* Q62 */

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

/* Natural logarithm of a number from 1 to 2 in Q62, in Q62. For r, the root of 2, and s = (x - r) /
 * (x + r), it is ln r + 2 (s + s^3/3 + s^5/5 + ...); s is at most 0.172 either way. */
static uint64_t log_of(uint64_t value)
{
    static const uint64_t inverse_of_odd[] = {ONE / 19, ONE / 17, ONE / 15, ONE / 13, ONE / 11,
                                              ONE / 9,  ONE / 7,  ONE / 5,  ONE / 3,  ONE};
    bool is_below = value < root_2;
    uint64_t gap = is_below ? root_2 - value : value - root_2, sum = 0;
    uint64_t s = (uint64_t)(((wide)gap << LOG_BITS) / (value + root_2));
    uint64_t square = multiply_high(s << 2, s << 2); /* Q64 */
    UNROLLED
    for (unsigned i = 0; i < sizeof inverse_of_odd / sizeof inverse_of_odd[0]; i++)
        sum = inverse_of_odd[i] + multiply_high(sum, square);
    uint64_t rest = 2 * multiply_high(s << 2, sum);
    return is_below ? (ln_2 >> 3) - rest : (ln_2 >> 3) + rest;
}

uint64_t poisson_distance(uint64_t rate, uint64_t random)
{
    uint64_t chance = random != 0 ? random : 1; /* of 2^64 */
    unsigned shift = (unsigned)__builtin_clzll(chance);
    uint64_t part = log_of(chance << shift >> 1) >> (LOG_BITS - DISTANCE_BITS);
    uint64_t all = (shift + 1) * (ln_2 >> (64 - DISTANCE_BITS));
    return all < part ? 0 : (uint64_t)((wide)(all - part) * rate >> DISTANCE_BITS);
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
