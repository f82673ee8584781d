/*
 * thinning_test.cpp: site/thinning.c: samples that come thick end up at their share of the time,
 * and seldom ones are left alone.
 */
#include <gtest/gtest.h>

#include <algorithm>

extern "C" {
#include "site/thinning.h"
}

enum { COST = 2000 };

/* Has samples taken whose intervals are `apart` ticks at the rate asked for. The ticks that passed
 * between the last `count`, each. */
static double run(struct thinning *self, uint64_t *now, uint64_t apart, unsigned count)
{
    uint64_t passed = 0;
    for (unsigned i = 0; i < count; i++) {
        uint64_t interval = apart << thinning_shift(self);
        *now += interval;
        passed += interval;
        thinning_pass(self, *now);
        thinning_spend(self, *now, *now + COST);
        *now += COST;
    }
    return static_cast<double>(passed) / count;
}

TEST(Thinning, SeldomSamplesAreLeftAlone)
{
    struct thinning self;
    uint64_t now = 1000;
    thinning_begin(&self, now);
    for (unsigned i = 0; i < 1000; i++) {
        run(&self, &now, COST << THINNING_SHARE_LOG2, 1);
        ASSERT_EQ(thinning_shift(&self), 0u);
    }
}

/* Seen to fail with credit that is not spent. */
TEST(Thinning, ThickOnesEndUpAtTheirShare)
{
    for (uint64_t apart : {100, 1000, 10000, 100000}) {
        struct thinning self;
        uint64_t now = 1000;
        thinning_begin(&self, now);
        run(&self, &now, apart, 200);
        double interval = run(&self, &now, apart, 1000);
        double most = static_cast<double>(apart << THINNING_SHIFT_MAX);
        double wanted = std::min(static_cast<double>(COST << THINNING_SHARE_LOG2), most);
        EXPECT_GT(interval, wanted * 0.7) << apart;
        EXPECT_LT(interval, wanted * 2.1) << apart;
    }
}

/* Seen to fail with a gain that has no limit. */
TEST(Thinning, APauseBringsOneDoublingBack)
{
    struct thinning self;
    uint64_t now = 1000;
    thinning_begin(&self, now);
    run(&self, &now, 100, 200);
    unsigned shift = thinning_shift(&self);
    ASSERT_GT(shift, 4u);
    EXPECT_FALSE(thinning_is_due(&self, now + COST));
    while (shift-- > 0) {
        now += uint64_t{1} << 40;
        ASSERT_TRUE(thinning_is_due(&self, now));
        thinning_pass(&self, now);
        EXPECT_EQ(thinning_shift(&self), shift);
    }
}

TEST(Thinning, ASampleThatWasInterruptedCountsForLittle)
{
    struct thinning self;
    uint64_t now = 1000;
    thinning_begin(&self, now);
    run(&self, &now, 100, 20);
    uint64_t cost = self.cost;
    thinning_spend(&self, now, now + 1000 * COST);
    EXPECT_LT(self.cost, 2 * cost);
    thinning_pass(&self, now); /* a clock that went back */
    EXPECT_LT(self.cost, 2 * cost);
}
