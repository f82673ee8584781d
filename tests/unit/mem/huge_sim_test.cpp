/*
 * huge_sim_test.cpp: in which part of the region mem/huge.c asks for huge pages. The oracle is the
 * simulated kernel, which keeps a mark for each page.
 */
#include <gtest/gtest.h>

extern "C" {
#include "os/sim/sim.h"
}

#include "../support.h"

enum { GROWTHS = 30 };

/* One region is enough for a process: the tests go on where the last one ended, with the window
 * closed, and ask from the front on. */
class Huge : public testing::Test
{
  protected:
    void SetUp() override
    {
        if (region.base == nullptr) {
            struct os_facts facts;
            os_start(&facts);
            ASSERT_EQ(region_start(&facts), 0);
        }
        huge_from = SIZE_MAX;
        grow();
        huge_from = 1;
        huge_leave(SIZE_MAX);
        huge_from = first_ + count_;
        ASSERT_EQ(sim_huge_bytes(), 0u);
    }

    void TearDown() override
    {
        sim_recover();
        sim_touch_takes(0);
        huge_from = SIZE_MAX;
    }

    void grow(size_t units = 1)
    {
        ASSERT_EQ(region_grow(units, &first_, &count_), 0);
        huge_follow_front(first_, first_ + count_, true);
    }

    size_t last_bytes() const
    {
        return count_ << UNIT_SHIFT;
    }

    size_t first_ = 0, count_ = 0;
};

/* Seen to fail with a window that does not move, and with one that is refused up to the front. */
TEST_F(Huge, TheyAreAskedForWhereTheFrontHasJustPassedAndNowhereElse)
{
    for (unsigned i = 0; i < GROWTHS; i++) {
        grow();
        EXPECT_EQ(sim_huge_bytes(), last_bytes()) << i;
    }
}

TEST_F(Huge, NobodyAsksBelowThePlaceTheOptionNames)
{
    huge_from += 70;
    size_t asked_from = huge_from;
    for (unsigned i = 0; i < GROWTHS; i++) {
        grow();
        size_t end = first_ + count_;
        EXPECT_EQ(sim_huge_bytes(), (end - std::max(std::min(end, asked_from), first_))
                                        << UNIT_SHIFT)
            << i;
    }
    EXPECT_GT(sim_huge_bytes(), 0u);
}

/* Seen to fail with a huge_leave() that does nothing. */
TEST_F(Huge, WhatIsGivenBackLeavesNoneThatTheKernelCouldFill)
{
    size_t below = first_;
    grow();
    ASSERT_GT(sim_huge_bytes(), 0u);
    EXPECT_EQ(region_purge(region_address(below), UNIT_BYTES), 0);
    EXPECT_EQ(sim_huge_bytes(), last_bytes()) << "that was below the window";
    EXPECT_EQ(region_purge(region_address(first_ + 3), 2 * UNIT_BYTES), 0);
    EXPECT_EQ(sim_huge_bytes(), 0u);
    EXPECT_TRUE(calm_test::is_zero(region_address(first_ + 3), 2 * UNIT_BYTES));
    grow();
    EXPECT_EQ(sim_huge_bytes(), last_bytes()) << "the next growth asks again";
    EXPECT_EQ(region_renew(first_ + count_ - 1, 1), 0);
    EXPECT_EQ(sim_huge_bytes(), 0u);
}

/* Seen to fail with spans that ask whatever the front moves for, and with those that extend one. */
TEST_F(Huge, TheFrontMovesForSlabsWithThemAndForLargeBlocksWithout)
{
    auto take_until_the_front_moves = [] {
        for (size_t units = region.units; region.units == units;)
            ASSERT_NE(span_acquire(1, 1, 0).unit, 0u);
    };
    take_until_the_front_moves();
    EXPECT_GT(sim_huge_bytes(), 0u);
    struct span large = span_acquire(region.units, 1, 0);
    EXPECT_EQ(large.unit + large.units, region.units);
    EXPECT_EQ(sim_huge_bytes(), 0u);
    take_until_the_front_moves();
    EXPECT_GT(sim_huge_bytes(), 0u);
    large = span_acquire(region.units, 1, 0);
    ASSERT_TRUE(span_extend(large.unit, large.units, large.units + 1));
    EXPECT_EQ(sim_huge_bytes(), 0u);
}

/* A touch that takes as long as three pages may: none in the next 24. Seen to fail without the
 * comparison with huge_ns_max, and without that with `again`. */
TEST_F(Huge, WhereTheFirstTouchTakesLongThereAreNoneForEightTimesAsLong)
{
    sim_touch_takes(3 * huge_ns_max);
    grow();
    EXPECT_EQ(sim_huge_bytes(), 0u);
    size_t from = first_ + count_ + size_t{24} * HUGE_UNITS;
    sim_touch_takes(huge_ns_max);
    while (region.units < from) {
        grow();
        EXPECT_EQ(sim_huge_bytes(), first_ < from ? 0 : last_bytes());
    }
    grow();
    EXPECT_EQ(sim_huge_bytes(), last_bytes());
}

/* A thread that was stopped before it asked, while others moved the front twice. Seen to fail
 * without the look at the window after asking. */
TEST_F(Huge, WhoAsksTooLateRefusesAgain)
{
    grow();
    size_t first = first_, end = first_ + count_;
    grow();
    ASSERT_EQ(sim_huge_bytes(), last_bytes());
    huge_follow_front(first, end, true);
    EXPECT_EQ(sim_huge_bytes(), last_bytes());
    huge_leave(SIZE_MAX);
    huge_follow_front(first_, first_ + count_, true);
    EXPECT_EQ(sim_huge_bytes(), 0u) << "the same after something was given back";
}

TEST_F(Huge, TheHeapGrowsAndGivesBackWhetherOrNotTheKernelDoesAsItIsAsked)
{
    for (unsigned nth = 1; nth <= 6; nth++) {
        sim_fail_kind(SIM_HUGE, nth);
        grow();
        grow();
        memset(region_address(first_), 0xAA, UNIT_BYTES);
        EXPECT_EQ(region_purge(region_address(first_), UNIT_BYTES), 0);
        EXPECT_TRUE(calm_test::is_zero(region_address(first_), UNIT_BYTES));
        sim_recover();
    }
    EXPECT_GT(sim_failures(), 0u);
}
