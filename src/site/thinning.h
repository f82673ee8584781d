/*
 * thinning.h: how much thinner a thread samples, so that its samples cost no more than a share of
 * its time.
 *
 * Samples are bought with credit, which comes with the ticks that pass and never exceeds a fixed
 * number of samples. The less is left, the longer the next interval is drawn. What the ticks count
 * is the caller's business; a sample's cost is in ticks, too, so their unit cancels out. Design:
 * docs/design/sampling.md
 */
#ifndef CALM_SITE_THINNING_H
#define CALM_SITE_THINNING_H

#include "base/attr.h"

enum {
    THINNING_COST_BITS = 3,
    THINNING_SHARE_LOG2 = 8, /* samples may take one tick in 256                        */
    THINNING_SHIFT_MAX = 12, /* intervals grow to so many doublings of the rate's       */
    THINNING_STEP = 6,       /* samples beyond what time has brought, for each doubling */
};

struct thinning {
    uint64_t last;   /* when credit was last added                                 */
    uint64_t cost;   /* of a sample, in ticks, as a mean of the last ones; Q3     */
    uint64_t credit; /* in samples, Q8                                 */
};

/* Full credit. */
void thinning_begin(struct thinning *self, uint64_t now);

/* Adds what the time since the last call or sample brought, one doubling's worth at most: so a
 * thread that did not run for a while gains little by it. */
void thinning_pass(struct thinning *self, uint64_t now);

/* Whether the time since then has brought a doubling's worth. */
ALWAYS_INLINE bool thinning_is_due(const struct thinning *self, uint64_t now)
{
    return (int64_t)(now - self->last) >
           (int64_t)(self->cost * THINNING_STEP << THINNING_SHARE_LOG2 >> THINNING_COST_BITS);
}

/* A sample was taken, from one tick to another. */
void thinning_spend(struct thinning *self, uint64_t from, uint64_t to);

/* How often the mean interval is to be doubled now. */
unsigned thinning_shift(const struct thinning *self);

#endif
