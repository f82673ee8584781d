/*
 * poisson.h: the arithmetic of sampling by bytes: the distance to the next sample, and a sample's
 * weight. In integers, without a mathematics library; docs/design/sampling.md derives it.
 */
#ifndef CALM_SITE_POISSON_H
#define CALM_SITE_POISSON_H

#include "base/attr.h"

enum { POISSON_RATE_LOG2_MAX = 38, POISSON_WEIGHT_BITS = 20 };

/* Upper half of the product. */
uint64_t multiply_high(uint64_t a, uint64_t b);

/* Next of a sequence of random numbers (SplitMix64). */
uint64_t poisson_random(uint64_t *state);

/*
 * Whole bytes before the next sample, exponentially distributed with mean `rate`, from one random
 * number. Pre: 1 <= rate <= 2^POISSON_RATE_LOG2_MAX. At most 45 times the rate.
 */
uint64_t poisson_distance(uint64_t rate, uint64_t random);

/* Requests of `bytes` >= 1 that a sampled one stands for: 1 / (1 - exp(-bytes / rate)), with
 * POISSON_WEIGHT_BITS fraction bits. */
uint64_t poisson_weight(uint64_t rate, uint64_t bytes);

#endif
