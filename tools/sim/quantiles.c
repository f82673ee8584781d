/*
 * quantiles.c: buckets by the highest bits of a value.
 */
#include "quantiles.h"

#include "base/bits.h"

static unsigned bucket_of(uint64_t value)
{
    if (value < QUANTILE_STEPS)
        return (unsigned)value;
    unsigned shift = bit_highest(value) - QUANTILE_STEP_LOG2;
    uint64_t bucket = ((uint64_t)(shift + 1) << QUANTILE_STEP_LOG2) + (value >> shift) -
                      QUANTILE_STEPS;
    return bucket < QUANTILE_BUCKETS ? (unsigned)bucket : QUANTILE_BUCKETS - 1u;
}

static double middle_of(unsigned bucket)
{
    if (bucket < QUANTILE_STEPS)
        return bucket;
    unsigned shift = (bucket >> QUANTILE_STEP_LOG2) - 1;
    uint64_t low = (uint64_t)(QUANTILE_STEPS + bucket % QUANTILE_STEPS) << shift;
    return (double)low + (double)((uint64_t)1 << shift) / 2 - 0.5;
}

void quantiles_add(struct quantiles *quantiles, uint64_t value)
{
    if (quantiles->count == 0 || value < quantiles->least)
        quantiles->least = value;
    if (value > quantiles->most)
        quantiles->most = value;
    quantiles->count++;
    quantiles->sum += (double)value;
    quantiles->buckets[bucket_of(value)]++;
}

double quantiles_at(const struct quantiles *quantiles, double share)
{
    double wanted = share * (double)quantiles->count;
    uint64_t below = 0;
    for (unsigned bucket = 0; bucket < QUANTILE_BUCKETS && quantiles->count > 0; bucket++) {
        below += quantiles->buckets[bucket];
        if (below == 0 || (double)below < wanted)
            continue;
        double value = middle_of(bucket);
        if (value < (double)quantiles->least)
            return (double)quantiles->least;
        return value < (double)quantiles->most ? value : (double)quantiles->most;
    }
    return 0;
}

double quantiles_mean(const struct quantiles *quantiles)
{
    return quantiles->count > 0 ? quantiles->sum / (double)quantiles->count : 0;
}
