/*
 * thinning.c: counts credit for samples, and derives the next interval.
 *
 * Owner: the thread that samples. Design: docs/design/sampling.md
 */
#include "site/thinning.h"

#include "base/bits.h"

enum { CREDIT_BITS = 8, COST_BITS = THINNING_COST_BITS, COST_STEP_MAX = 4, COST_FAR = 8 };

static const uint64_t step = (uint64_t)THINNING_STEP << CREDIT_BITS;
static const uint64_t full = (uint64_t)THINNING_STEP * THINNING_SHIFT_MAX << CREDIT_BITS;

void thinning_begin(struct thinning *self, uint64_t now)
{
    *self = (struct thinning){.last = now, .credit = full};
}

void thinning_pass(struct thinning *self, uint64_t now)
{
    int64_t ticks = (int64_t)(now - self->last);
    if (ticks <= 0 || self->cost == 0)
        return;
    self->last = now;
    uint64_t most = size_min(step, full - self->credit);
    bool is_enough = (uint64_t)ticks >> THINNING_SHARE_LOG2 >= most * self->cost >>
                     (CREDIT_BITS + COST_BITS);
    uint64_t units = (uint64_t)ticks << (CREDIT_BITS + COST_BITS) >> THINNING_SHARE_LOG2;
    self->credit += is_enough ? most : units / self->cost;
}

void thinning_spend(struct thinning *self, uint64_t from, uint64_t to)
{
    uint64_t mean = self->cost >> COST_BITS;
    uint64_t cost = (int64_t)(to - from) > 0 ? to - from : 1;
    if (self->cost == 0 || cost < mean / COST_FAR)
        self->cost = cost << COST_BITS; /* the mean was of an interrupted sample */
    else                                /* an interrupted sample counts for little */
        self->cost += size_min(cost, COST_STEP_MAX * mean + 1) - mean;
    self->last = to;
    uint64_t one = (uint64_t)1 << CREDIT_BITS;
    self->credit -= size_min(self->credit, one);
}

unsigned thinning_shift(const struct thinning *self)
{
    unsigned steps = (unsigned)((full - self->credit) / step);
    return (unsigned)size_min(steps, THINNING_SHIFT_MAX);
}
