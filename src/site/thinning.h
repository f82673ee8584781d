/*
 * thinning.h: how much less often a thread samples, so that its samples cost no more than a share
 * of its time.
 *
 * Samples cost credit, which comes with the ticks that pass and never exceeds a fixed number of
 * samples. The less is left, the longer the next interval is drawn. The caller chooses the tick; a
 * sample's cost is in ticks, too, so the unit cancels out. Design: docs/design/sampling.md
 */
#ifndef CALM_SITE_THINNING_H
#define CALM_SITE_THINNING_H

#include "base/attr.h"

enum {
    THINNING_COST_BITS = 3,
    THINNING_SHARE_LOG2 = 8, /* samples may take one tick in 256                        */
    THINNING_SHIFT_MAX = 12, /* most doublings of the rate's interval                   */
    THINNING_STEP = 6,       /* samples beyond the earned credit, for each doubling */
};

struct thinning {
    uint64_t last;   /* when credit was last added                                 */
    uint64_t cost;   /* of a sample, in ticks, as a running mean; Q3              */
    uint64_t credit; /* in samples, Q8                                 */
};

/* Begins with full credit. */
void thinning_begin(struct thinning *self, uint64_t now);

/* Adds the credit for the time since the last call or sample, one doubling's worth at most: so a
 * thread that did not run for a while gains little. */
void thinning_pass(struct thinning *self, uint64_t now);

/* Whether the time since the last credit or sample has brought a doubling's worth. */
ALWAYS_INLINE bool thinning_is_due(const struct thinning *self, uint64_t now)
{
    return (int64_t)(now - self->last) >
           (int64_t)(self->cost * THINNING_STEP << THINNING_SHARE_LOG2 >> THINNING_COST_BITS);
}

/* Charges a sample that took from one tick to another. */
void thinning_spend(struct thinning *self, uint64_t from, uint64_t to);

/* Doublings of the mean interval for the next draw. */
unsigned thinning_shift(const struct thinning *self);

#endif
