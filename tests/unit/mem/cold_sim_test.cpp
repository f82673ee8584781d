/*
 * cold_sim_test.cpp: mem/cold.c sends out the units that are not touched. The oracle is the
 * simulated kernel, which has a list of the pages in swap, and is told of touches.
 */
#include <gtest/gtest.h>

#include <string.h>

extern "C" {
#include "mem/cold.h"
#include "os/sim/sim.h"
}

#include "../support.h"

namespace
{

const size_t units = 200;

class Cold : public testing::Test
{
  protected:
    void SetUp() override
    {
        struct os_facts facts;
        os_start(&facts);
        page_bytes_ = std::min<size_t>(facts.page_bytes, UNIT_BYTES);
        meta_start(64 << 20, facts.page_bytes);
        ASSERT_EQ(region_start(&facts), 0);
        span_ = span_acquire(units, 1, 0);
        ASSERT_NE(span_.unit, 0u);
        memset(start(0), 7, units << UNIT_SHIFT);
        for (size_t i = 0; i < units; i++)
            store(&region.map[span_.unit + i].kind, i == 0 ? UNIT_HEAD : UNIT_BODY, RELAXED);
        sim_swap(true);
    }

    void TearDown() override
    {
        sim_recover();
    }

    char *start(size_t unit) const
    {
        return region_address(span_.unit + unit);
    }

    void touch(size_t unit) const
    {
        for (size_t at = 0; at < UNIT_BYTES; at += page_bytes_)
            sim_touch(start(unit) + at);
    }

    /* A whole pass, if one is due; the bytes that left. */
    size_t pass(uint64_t now, uint64_t age)
    {
        size_t left = 0, parts = 0;
        for (bool goes_on = cold_begin(now, age, page_bytes_); goes_on;
             goes_on = cold_begin(0, UINT64_MAX, page_bytes_)) {
            size_t calls = sim_calls(SIM_PAGE_OUT), part = cold_some(now);
            EXPECT_LE(sim_calls(SIM_PAGE_OUT) - calls, 64u) << "a part is bounded";
            EXPECT_LE(part, 4 * UNIT_BYTES + 64 * page_bytes_);
            left += part;
            if (++parts > 10000) {
                ADD_FAILURE() << "the pass does not end";
                break;
            }
        }
        return left;
    }

    struct span span_;
    size_t page_bytes_ = 0;
};

const size_t all_bytes = units << UNIT_SHIFT;

/* Seen to fail with units sent out by the first pass. */
TEST_F(Cold, WhatIsNotTouchedBetweenTwoPassesGoesAndTheRestStays)
{
    EXPECT_EQ(pass(1000, 100), units * page_bytes_) << "a page of each is on trial";
    for (size_t unit = 0; unit < units; unit += 4)
        touch(unit);
    EXPECT_EQ(pass(1099, 100), 0u) << "too soon";
    pass(1100, 100);
    /* Those that were touched have a page on trial. */
    EXPECT_EQ(sim_swapped_bytes(), all_bytes - units / 4 * (UNIT_BYTES - page_bytes_));
}

/* Seen to fail with an age that counts from the begin of a pass. */
TEST_F(Cold, TheAgeCountsFromTheEndOfThePassBefore)
{
    ASSERT_TRUE(cold_begin(1000, 100, page_bytes_));
    cold_some(1000);
    pass(1090, 100); /* the same one */
    size_t calls = sim_calls(SIM_PRESENT);
    EXPECT_EQ(pass(1189, 100), 0u);
    EXPECT_EQ(sim_calls(SIM_PRESENT), calls);
    pass(1190, 100);
    EXPECT_GT(sim_calls(SIM_PRESENT), calls);
    EXPECT_EQ(sim_swapped_bytes(), all_bytes);
}

/* Seen to fail with the same page on trial each time. */
TEST_F(Cold, EachTrialIsAnotherPages)
{
    std::set<size_t> tried;
    for (uint64_t turn = 0; turn < UNIT_BYTES / page_bytes_; turn++) {
        pass(1000 + turn * 100, 100);
        for (size_t at = 0; at < UNIT_BYTES; at += page_bytes_) {
            uint8_t is_present;
            ASSERT_EQ(os_present(start(5) + at, page_bytes_, &is_present), 0);
            if (is_present == 0)
                tried.insert(at);
        }
        for (size_t unit = 0; unit < units; unit++)
            touch(unit);
    }
    EXPECT_EQ(tried.size(), UNIT_BYTES / page_bytes_);
}

/* Seen to fail with units judged cold for ever. */
TEST_F(Cold, PagesThatCameBackAreOnTrialOneByOne)
{
    pass(1000, 100);
    pass(1100, 100);
    ASSERT_EQ(sim_swapped_bytes(), all_bytes);
    char *first = start(3) + UNIT_BYTES / 2, *last = start(3) + UNIT_BYTES - page_bytes_;
    sim_touch(first);
    sim_touch(last);
    EXPECT_EQ(pass(1200, 100), page_bytes_);
    sim_touch(first);
    sim_touch(last);
    EXPECT_EQ(pass(1300, 100), page_bytes_);
    pass(1400, 100);
    EXPECT_EQ(sim_swapped_bytes(), all_bytes) << "untouched since";
}

/* Seen to fail with free units sent out, and with 0 taken for a trial. */
TEST_F(Cold, AnAgeOfZeroSendsAllThatIsUsedAtOnce)
{
    for (size_t unit = 100; unit < units; unit++)
        store(&region.map[span_.unit + unit].kind, UNIT_FREE, RELAXED);
    EXPECT_EQ(pass(5, 0), all_bytes / 2);
    EXPECT_EQ(sim_swapped_bytes(), all_bytes / 2);
    EXPECT_EQ(pass(5, 0), 0u);
}

/* Seen to fail without the call for it. */
TEST_F(Cold, WithoutSwapUnitsAreMarkedForTheKernel)
{
    sim_swap(false);
    EXPECT_EQ(pass(1000, 100), 0u);
    EXPECT_EQ(pass(1100, 100), 0u);
    EXPECT_EQ(sim_cooled_bytes(), 2 * all_bytes);
    EXPECT_EQ(sim_swapped_bytes(), 0u);
}

/* Seen to fail where a unit that could not be looked at counts as cold. */
TEST_F(Cold, WhicheverCallFailsNothingInUseIsSentOut)
{
    for (enum sim_call kind : {SIM_PAGE_OUT, SIM_COOL, SIM_PRESENT}) {
        for (uint64_t nth = 1; nth < 3 * units; nth += 7) {
            sim_fail_kind(kind, nth);
            pass(1000, 0);
            pass(1000, 1);
            sim_recover();
        }
    }
    for (uint64_t nth = 1; nth < 3 * units; nth += 11) {
        for (size_t unit = 0; unit < units; unit++)
            touch(unit);
        sim_fail_nth(nth);
        uint64_t now = 2000 + nth * 1000;
        pass(now, 500);
        EXPECT_LE(sim_swapped_bytes(), units * page_bytes_);
        for (size_t unit = 0; unit < units; unit++)
            touch(unit);
        pass(now + 500, 500);
        EXPECT_LE(sim_swapped_bytes(), units * page_bytes_);
        sim_recover();
    }
    pass(UINT32_MAX, 0);
    EXPECT_EQ(sim_swapped_bytes(), all_bytes) << "and everything still works";
}

/* Seen to fail with trials that are forgotten when room is made for more. */
TEST_F(Cold, UnitsThatCameLaterAreJudgedToo)
{
    pass(1000, 100);
    struct span more = span_acquire(6000, 1, 0);
    ASSERT_NE(more.unit, 0u);
    memset(region_address(more.unit + 5999), 1, UNIT_BYTES);
    store(&region.map[more.unit + 5999].kind, UNIT_BODY, RELAXED);
    pass(1100, 100);
    EXPECT_EQ(sim_swapped_bytes(), all_bytes + page_bytes_);
    pass(1200, 100);
    EXPECT_EQ(sim_swapped_bytes(), all_bytes + UNIT_BYTES);
}

} // namespace
