/*
 * quantiles.h: a bounded histogram of times, and quantiles from it.
 *
 * 128 buckets a doubling: a value and the middle of its bucket differ by at most 0.4 % (a value
 * below 128 is exact). 48 doublings, above a day of nanoseconds; more counts as that. Least and
 * largest are exact.
 */
#ifndef CALM_SIM_QUANTILES_H
#define CALM_SIM_QUANTILES_H

#include <stdint.h>

enum {
    QUANTILE_STEP_LOG2 = 7,
    QUANTILE_STEPS = 1 << QUANTILE_STEP_LOG2,
    QUANTILE_BUCKETS = 48 << QUANTILE_STEP_LOG2,
};

struct quantiles {
    uint64_t count;
    uint64_t least, most;
    double sum;
    uint64_t buckets[QUANTILE_BUCKETS];
};

void quantiles_add(struct quantiles *quantiles, uint64_t value);

/* The value that `share` (0 to 1) of the values do not exceed; 0 when there are none. */
double quantiles_at(const struct quantiles *quantiles, double share);

double quantiles_mean(const struct quantiles *quantiles);

#endif
