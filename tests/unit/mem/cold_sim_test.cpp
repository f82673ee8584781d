/*
 * cold_sim_test.cpp: mem/cold.c sends out the chunks that are not touched. The oracle is the
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

const size_t chunks = 200;

class Cold : public testing::Test
{
  protected:
    void SetUp() override
    {
        struct os_facts facts;
        os_start(&facts);
        page_bytes_ = std::min<size_t>(facts.page_bytes, CHUNK_BYTES);
        meta_start(64 << 20, facts.page_bytes);
        ASSERT_EQ(region_start(&facts), 0);
        span_ = span_acquire(chunks * CHUNK_UNITS, CHUNK_UNITS, 0);
        ASSERT_NE(span_.unit, 0u);
        memset(start(0), 7, chunks << CHUNK_SHIFT);
        for (size_t i = 0; i < chunks / 2; i++) /* slabs, and then a large block */
            store(&region.map[span_.unit / CHUNK_UNITS + i].bin, 1, RELAXED);
        make_large(span_.unit + chunks / 2 * CHUNK_UNITS, chunks / 2);
        sim_swap(true);
    }

    void TearDown() override
    {
        sim_recover();
    }

    static void make_large(size_t unit, size_t length)
    {
        store(&region.tags[unit].asked, static_cast<uint32_t>(length * CHUNK_UNITS), RELAXED);
        store(&region.tags[unit].is_large, length > 0, RELAXED);
    }

    char *start(size_t chunk) const
    {
        return region_address(span_.unit) + (chunk << CHUNK_SHIFT);
    }

    void touch(size_t chunk) const
    {
        for (size_t at = 0; at < CHUNK_BYTES; at += page_bytes_)
            sim_touch(start(chunk) + at);
    }

    /* A whole pass, if one is due; the bytes that left. */
    size_t pass(uint64_t now, uint64_t age)
    {
        size_t left = 0, parts = 0;
        for (bool goes_on = cold_begin(now, age, page_bytes_); goes_on;
             goes_on = cold_begin(0, UINT64_MAX, page_bytes_)) {
            size_t calls = sim_calls(SIM_PAGE_OUT), part = cold_step(now);
            EXPECT_LE(sim_calls(SIM_PAGE_OUT) - calls, 64u) << "a part is bounded";
            EXPECT_LE(part, 4 * CHUNK_BYTES + 64 * page_bytes_);
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

const size_t all_bytes = chunks << CHUNK_SHIFT;

/* Seen to fail with chunks sent out by the first pass. */
TEST_F(Cold, WhatIsNotTouchedBetweenTwoPassesGoesAndTheRestStays)
{
    EXPECT_EQ(pass(1000, 100), chunks * page_bytes_) << "a page of each is on trial";
    for (size_t chunk = 0; chunk < chunks; chunk += 4)
        touch(chunk);
    EXPECT_EQ(pass(1099, 100), 0u) << "too soon";
    pass(1100, 100);
    /* Those that were touched have a page on trial. */
    EXPECT_EQ(sim_swapped_bytes(), all_bytes - chunks / 4 * (CHUNK_BYTES - page_bytes_));
}

/* Seen to fail with an age that counts from the begin of a pass. */
TEST_F(Cold, TheAgeCountsFromTheEndOfThePassBefore)
{
    ASSERT_TRUE(cold_begin(1000, 100, page_bytes_));
    cold_step(1000);
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
    for (uint64_t turn = 0; turn < CHUNK_BYTES / page_bytes_; turn++) {
        pass(1000 + turn * 100, 100);
        for (size_t at = 0; at < CHUNK_BYTES; at += page_bytes_) {
            uint8_t is_present;
            ASSERT_EQ(os_present(start(5) + at, page_bytes_, &is_present), 0);
            if (is_present == 0)
                tried.insert(at);
        }
        for (size_t chunk = 0; chunk < chunks; chunk++)
            touch(chunk);
    }
    EXPECT_EQ(tried.size(), CHUNK_BYTES / page_bytes_);
}

/* Seen to fail with chunks judged cold for ever. */
TEST_F(Cold, PagesThatCameBackAreOnTrialOneByOne)
{
    pass(1000, 100);
    pass(1100, 100);
    ASSERT_EQ(sim_swapped_bytes(), all_bytes);
    char *first = start(3) + CHUNK_BYTES / 2, *last = start(3) + CHUNK_BYTES - page_bytes_;
    sim_touch(first);
    sim_touch(last);
    EXPECT_EQ(pass(1200, 100), page_bytes_);
    sim_touch(first);
    sim_touch(last);
    EXPECT_EQ(pass(1300, 100), page_bytes_);
    pass(1400, 100);
    EXPECT_EQ(sim_swapped_bytes(), all_bytes) << "untouched since";
}

/* Seen to fail with free chunks sent out, and with 0 taken for a trial. */
TEST_F(Cold, AnAgeOfZeroSendsAllThatIsUsedAtOnce)
{
    make_large(span_.unit + chunks / 2 * CHUNK_UNITS, 0);
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

/* Seen to fail where a chunk that could not be looked at counts as cold. */
TEST_F(Cold, WhicheverCallFailsNothingInUseIsSentOut)
{
    for (enum sim_call kind : {SIM_PAGE_OUT, SIM_COOL, SIM_PRESENT}) {
        for (uint64_t nth = 1; nth < 3 * chunks; nth += 7) {
            sim_fail_kind(kind, nth);
            pass(1000, 0);
            pass(1000, 1);
            sim_recover();
        }
    }
    for (uint64_t nth = 1; nth < 3 * chunks; nth += 11) {
        for (size_t chunk = 0; chunk < chunks; chunk++)
            touch(chunk);
        sim_fail_nth(nth);
        uint64_t now = 2000 + nth * 1000;
        pass(now, 500);
        EXPECT_LE(sim_swapped_bytes(), chunks * page_bytes_);
        for (size_t chunk = 0; chunk < chunks; chunk++)
            touch(chunk);
        pass(now + 500, 500);
        EXPECT_LE(sim_swapped_bytes(), chunks * page_bytes_);
        sim_recover();
    }
    pass(UINT32_MAX, 0);
    EXPECT_EQ(sim_swapped_bytes(), all_bytes) << "and everything still works";
}

/* Seen to fail with trials that are forgotten when room is made for more. */
TEST_F(Cold, UnitsThatCameLaterAreJudgedToo)
{
    pass(1000, 100);
    struct span more = span_acquire(6000 * CHUNK_UNITS, CHUNK_UNITS, 0);
    ASSERT_NE(more.unit, 0u);
    size_t last = more.unit + 5999 * CHUNK_UNITS;
    memset(region_address(last), 1, CHUNK_BYTES);
    make_large(last, 1);
    pass(1100, 100);
    EXPECT_EQ(sim_swapped_bytes(), all_bytes + page_bytes_);
    pass(1200, 100);
    EXPECT_EQ(sim_swapped_bytes(), all_bytes + CHUNK_BYTES);
}

} // namespace
