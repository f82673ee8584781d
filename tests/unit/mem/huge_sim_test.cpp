/*
 * huge_sim_test.cpp: when mem/huge.c has huge pages made, and what of them comes back. The oracle
 * is the simulated kernel, which keeps a mark for each page.
 */
#include <gtest/gtest.h>

extern "C" {
#include "os/sim/sim.h"
}

#include "../support.h"

enum {
    REFUSED_MS = 1000,
    CREDIT_MS = 128,
    GROWN_CHUNKS = 16,
    SHARE = 32,
    NS_A_MS = 1000 * 1000,
    PAGES = 20,
    HUGE_CHUNKS = HUGE_UNITS / CHUNK_UNITS
};

/* One region is enough for a process: each test begins with no dirty unit, and no huge page. */
class Huge : public testing::Test
{
  protected:
    void SetUp() override
    {
        if (region.base == nullptr) {
            struct os_facts facts;
            os_start(&facts);
            ASSERT_NE(facts.huge_pages, OS_HUGE_NEVER);
            ASSERT_EQ(region_start(&facts), 0);
            span_acquire(CHUNK_UNITS, CHUNK_UNITS, 0);
        }
        huge_from = 1;
        sim_clock_advance(2 * REFUSED_MS);
        ASSERT_EQ(sim_huge_bytes(), 0u);
    }

    void TearDown() override
    {
        sim_recover();
        sim_touch_takes(0);
        span_limit(0);
        for (struct span span : used_)
            span_release(span.unit, span.units, span.is_zero);
        while (span_purge(SIZE_MAX, SIZE_MAX) > 0)
            continue;
        huge_from = SIZE_MAX;
        huge_for_blocks = false;
    }

    struct span take(size_t chunks = 1)
    {
        used_.push_back(span_acquire(chunks * CHUNK_UNITS, CHUNK_UNITS, 0));
        return used_.back();
    }

    /* As a slab is taken. */
    struct span take_slab()
    {
        if (huge_is_wanted())
            huge_provide();
        return take();
    }

    /* As the last of many. */
    struct span take_chunk()
    {
        for (unsigned i = 0; i <= GROWN_CHUNKS && huge_is_wanted(); i++)
            huge_provide();
        return take();
    }

    /* All of one huge page. */
    void take_huge()
    {
        take_chunk();
        while (span_dirty_bytes() > 0)
            take();
    }

    std::vector<struct span> used_;
};

/* Seen to fail with units that are given back as clean, and with a page that is not aligned. */
TEST_F(Huge, ChunksComeFromOneHugePageUntilItIsUsedUp)
{
    for (size_t i = 0; i < size_t{PAGES} * HUGE_CHUNKS; i++) {
        ASSERT_NE(take_chunk().unit, 0u);
        EXPECT_EQ(sim_huge_bytes(), (i / HUGE_CHUNKS + 1) * SIM_HUGE_BYTES) << i;
    }
    EXPECT_EQ(span_dirty_bytes(), 0u);
    EXPECT_EQ(span_verify(), nullptr);
}

/* Seen to fail without each of the comparisons in huge_is_wanted(). */
TEST_F(Huge, NoneIsMadeInASmallHeapOrALimitedOneOrBesideDirtyUnits)
{
    take(100);
    huge_from = (span_charged_bytes() >> UNIT_SHIFT) + 1;
    EXPECT_FALSE(huge_is_wanted());
    huge_from--;
    EXPECT_TRUE(huge_is_wanted());
    span_limit(size_t{1} << 30);
    EXPECT_FALSE(huge_is_wanted());
    span_limit(0);
    huge_from = SIZE_MAX;
    EXPECT_FALSE(huge_is_wanted());
    huge_from = 1;
    struct span span = take();
    used_.pop_back();
    span_release(span.unit, CHUNK_UNITS, false);
    EXPECT_FALSE(huge_is_wanted());
    EXPECT_EQ(sim_huge_bytes(), 0u);
}

/* 16 MiB a second, and 1 MiB at once. Seen to fail without note_growth(), and where a slow growth
 * adds up. */
TEST_F(Huge, AHeapThatTakesASlabNowAndThenGetsNone)
{
    for (unsigned i = 0; i < 100; i++) {
        sim_clock_advance(5);
        EXPECT_TRUE(take_slab().is_zero);
    }
    EXPECT_EQ(sim_huge_bytes(), 0u);
    for (unsigned i = 0; i < GROWN_CHUNKS - 1; i++)
        EXPECT_TRUE(take_slab().is_zero);
    sim_clock_advance(4);
    EXPECT_TRUE(take_slab().is_zero);
    EXPECT_FALSE(take_slab().is_zero);
    EXPECT_EQ(sim_huge_bytes(), size_t{SIM_HUGE_BYTES});
}

/* Seen to fail without a limit of what is counted. */
TEST_F(Huge, AHundredMillisecondsAfterFastGrowthASlabGetsNone)
{
    for (unsigned i = 0; i < 2 * PAGES; i++)
        take_huge();
    EXPECT_EQ(sim_huge_bytes(), 2u * PAGES * SIM_HUGE_BYTES);
    sim_clock_advance(100);
    EXPECT_TRUE(take_slab().is_zero);
    EXPECT_EQ(sim_huge_bytes(), 2u * PAGES * SIM_HUGE_BYTES);
}

/* Else the kernel keeps the whole page. Seen to fail with a huge_note() that notes nothing. */
TEST_F(Huge, APageOfWhichAPartIsGivenBackIsPartedFirst)
{
    size_t first = take_chunk().unit;
    ASSERT_EQ(sim_huge_bytes(), size_t{SIM_HUGE_BYTES});
    while (span_dirty_bytes() > 0)
        take();
    EXPECT_EQ(region_purge(region_address(first + CHUNK_UNITS), 2 * CHUNK_BYTES), 0);
    EXPECT_EQ(sim_huge_bytes(), 0u);
    EXPECT_TRUE(calm_test::is_zero(region_address(first + CHUNK_UNITS), 2 * CHUNK_BYTES));
}

/* Seen to fail without a limit of the credit, and with a pause that is not the cost of what was
 * slow. */
TEST_F(Huge, SlowOnesPauseForThirtyTwoTimesWhatTheyLost)
{
    const int64_t cost_ms = (int64_t{3 * NS_A_MS} - HUGE_SMALL_NS) * SHARE / NS_A_MS;
    sim_touch_takes(3 * NS_A_MS);
    size_t made = 0;
    for (int64_t left = CREDIT_MS; left >= 0; left -= cost_ms) {
        take_huge();
        made++;
    }
    EXPECT_EQ(sim_huge_bytes(), made * SIM_HUGE_BYTES);
    sim_touch_takes(0);
    sim_clock_advance((uint64_t)(cost_ms * (int64_t)made - CREDIT_MS - 1));
    EXPECT_TRUE(take_chunk().is_zero);
    sim_clock_advance(1);
    EXPECT_FALSE(take_chunk().is_zero);
    EXPECT_EQ(sim_huge_bytes(), (made + 1) * SIM_HUGE_BYTES);
}

/* Seen to fail with fast pages that earn nothing. */
TEST_F(Huge, OneSlowOneInTenPausesNothing)
{
    for (size_t i = 1; i <= PAGES; i++) {
        sim_touch_takes(i % 10 == 5 ? 4 * NS_A_MS : NS_A_MS / 10);
        take_huge();
        EXPECT_EQ(sim_huge_bytes(), i * SIM_HUGE_BYTES);
    }
}

/* The thread waited for a processor. Seen to fail with the whole time as its cost. */
TEST_F(Huge, WhatTookVeryLongCostsFiveMilliseconds)
{
    sim_touch_takes(uint64_t{100} * NS_A_MS);
    take_huge();
    sim_touch_takes(0);
    sim_clock_advance((5 * NS_A_MS - HUGE_SMALL_NS) * uint64_t{SHARE} / NS_A_MS - CREDIT_MS);
    take_huge();
    EXPECT_EQ(sim_huge_bytes(), 2u * SIM_HUGE_BYTES);
}

/* Seen to fail with units that are dirty all the same, and with a lease that ends at once. */
TEST_F(Huge, WhereTheKernelMakesNoneUnitsStayCleanAndASecondPasses)
{
    sim_fail_kind(SIM_HUGE, 1);
    EXPECT_TRUE(take_chunk().is_zero);
    EXPECT_EQ(sim_failures(), 1u);
    sim_recover();
    sim_clock_advance(REFUSED_MS - CREDIT_MS - 1);
    EXPECT_TRUE(take_chunk().is_zero);
    EXPECT_EQ(sim_huge_bytes(), 0u);
    sim_clock_advance(1);
    EXPECT_FALSE(take_chunk().is_zero);
    EXPECT_EQ(sim_huge_bytes(), size_t{SIM_HUGE_BYTES});
}

/* Seen to fail without each of the comparisons in huge_allow(). */
TEST_F(Huge, LargeBlocksHaveThemWhereTheyAreAlwaysOn)
{
    struct span span = take(4 * HUGE_CHUNKS);
    const size_t units = 2 * HUGE_UNITS;
    EXPECT_FALSE(huge_allow(span.unit, units, true));
    huge_for_blocks = true;
    span_limit(size_t{1} << 30);
    EXPECT_FALSE(huge_allow(span.unit, units, true));
    span_limit(0);
    EXPECT_EQ(sim_huge_bytes(), 0u);
    EXPECT_TRUE(huge_allow(span.unit, units, true));
    EXPECT_GE(sim_huge_bytes(), size_t{SIM_HUGE_BYTES});
    huge_refuse(span.unit, units);
    sim_fail_kind(SIM_HUGE, 1);
    EXPECT_FALSE(huge_allow(span.unit, units, true));
}

/* Half of a huge page is not given back beside half of the next. Seen to fail with pieces that
 * begin where a span begins, in each of the two places; and with a huge_allow() that notes nothing.
 */
TEST_F(Huge, WhatIsPurgedInPiecesGoesBackInWholePages)
{
    enum { PAGES_LONG = 8 };
    huge_for_blocks = true;
    struct span span = span_acquire((PAGES_LONG + 1) * HUGE_UNITS, HUGE_UNITS, 0);
    size_t first = span.unit + HUGE_UNITS / 2, units = PAGES_LONG * HUGE_UNITS;
    span_release(span.unit, HUGE_UNITS / 2, true);
    span_release(first + units, HUGE_UNITS / 2, true);
    ASSERT_TRUE(huge_allow(first, units, true));
    ASSERT_EQ(sim_huge_bytes(), (PAGES_LONG - 1) * SIM_HUGE_BYTES);
    span_release(first, units, false);
    size_t left = units;
    for (size_t pages = PAGES_LONG - 2; pages > 0; pages--) {
        left -= span_purge(SIM_HUGE_BYTES, SIM_HUGE_BYTES) >> UNIT_SHIFT;
        EXPECT_EQ(sim_huge_bytes(), pages * SIM_HUGE_BYTES);
        EXPECT_EQ(left, pages * HUGE_UNITS + HUGE_UNITS / 2);
    }
    EXPECT_EQ(region_purge(region_address(first), left << UNIT_SHIFT), 0);
    EXPECT_EQ(sim_huge_bytes(), 0u);
    EXPECT_TRUE(calm_test::is_zero(region_address(first), left << UNIT_SHIFT));
}
