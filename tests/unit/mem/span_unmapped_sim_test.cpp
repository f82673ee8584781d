/*
 * span_unmapped_sim_test.cpp: mem/span_unmapped.c: what serves a request when the kernel refuses
 * addresses. The oracle is the simulated kernel: what it counts as reserved, and that it stops
 * whoever touches or maps what is not there.
 */
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "span_support.h"

extern "C" {
#include "mem/span_parts.h"
#include "os/sim/sim.h"
}

class Unmapped : public testing::Test
{
  protected:
    enum { LENGTH = 800, COUNT = 10, MORE = LENGTH / 5 }; /* multiples of a page, too */

    void SetUp() override
    {
        start_spans();
        span_on_shortage = [](size_t) { return true; };
        span_end_shortage = [] {};
        for (size_t i = 0; i < COUNT; i++)
            spans_.push_back(span_acquire(LENGTH, 1, 0));
        take_rest();
        sim_limit_reserved(sim_reserved_bytes());
    }

    void TearDown() override
    {
        sim_recover();
        span_on_shortage = nullptr;
        for (struct span span : spans_)
            if (span.unit != 0)
                span_release(span.unit, span.units, false);
        for (struct span span : rest_)
            span_release(span.unit, span.units, false);
        while (span_purge(SIZE_MAX, SIZE_MAX) > 0)
            continue;
        EXPECT_STREQ(span_verify(), nullptr);
    }

    /* All that is free below the front. */
    void take_rest()
    {
        sim_limit_reserved(sim_reserved_bytes());
        for (size_t units = 16384; units >= region_granule_units(); units /= 2)
            for (struct span span; (span = span_acquire(units, 1, 0)).unit != 0;)
                rest_.push_back(span);
    }

    void release(size_t index)
    {
        span_release(spans_[index].unit, LENGTH, true);
        spans_[index].unit = 0;
    }

    static void fill(size_t unit, size_t units)
    {
        for (size_t i = 0; i < units; i++)
            *region_address(unit + i) = static_cast<char>(i % 100 + 1);
    }

    static bool is_filled(size_t unit, size_t units)
    {
        for (size_t i = 0; i < units; i++)
            if (*region_address(unit + i) != static_cast<char>(i % 100 + 1))
                return false;
        return true;
    }

    std::vector<struct span> spans_, rest_;
};

/* Seen to fail with span_unmap() left out of span_acquire(): there was none. */
TEST_F(Unmapped, FreeSpansThatLieApartServeALongerOne)
{
    for (size_t i = 1; i < 9; i += 2)
        release(i);
    size_t reserved = sim_reserved_bytes();
    struct span longer = span_acquire(3 * LENGTH, 1, 0);
    ASSERT_NE(longer.unit, 0u);
    EXPECT_TRUE(longer.is_zero);
    EXPECT_TRUE(calm_test::is_zero(region_address(longer.unit), 3 * LENGTH * UNIT_BYTES));
    EXPECT_LE(sim_reserved_bytes(), reserved);
    EXPECT_STREQ(span_verify(), nullptr);
    rest_.push_back(longer);
}

/* The middle one of the parts stays in use until the next longer span is there, which so has no
 * room beside it. Seen to fail with gone spans never taken: the front moved by a round's length
 * each round. */
TEST_F(Unmapped, TheFrontDoesNotMoveEachTimeTheLimitIsMet)
{
    for (size_t i = 1; i < COUNT; i += 2)
        release(i);
    size_t front = 0;
    struct span kept = {0, 0, false};
    for (unsigned round = 0; round < 20; round++) {
        struct span longer = span_acquire(3 * LENGTH, 1, 0);
        ASSERT_NE(longer.unit, 0u);
        fill(longer.unit, longer.units);
        if (kept.unit != 0)
            span_release(kept.unit, LENGTH, true);
        span_release(longer.unit, longer.units, false);
        while (span_purge(SIZE_MAX, SIZE_MAX) > 0)
            continue;
        std::vector<struct span> parts;
        for (struct span part; (part = span_acquire(LENGTH, 1, 0)).unit != 0;) {
            fill(part.unit, LENGTH);
            parts.push_back(part);
        }
        ASSERT_GE(parts.size(), 3u);
        std::sort(parts.begin(), parts.end(),
                  [](struct span a, struct span b) { return a.unit < b.unit; });
        kept = parts[parts.size() / 2];
        for (struct span part : parts)
            if (part.unit != kept.unit)
                span_release(part.unit, LENGTH, false);
        while (span_purge(SIZE_MAX, SIZE_MAX) > 0)
            continue;
        if (round == 4)
            front = region_units();
    }
    EXPECT_EQ(region_units(), front);
    span_release(kept.unit, LENGTH, true);
}

/* Seen to fail with what cannot be mapped again handed out. */
TEST_F(Unmapped, WhatTheKernelDoesNotMapAgainStaysFree)
{
    release(1);
    ASSERT_GE(span_unmap(LENGTH / 2), LENGTH / 2u);
    size_t gone = span_unmapped_units;
    sim_fail_kind(SIM_COMMIT, 1);
    EXPECT_EQ(span_take_unmapped(LENGTH / 2, 1, 0).unit, 0u);
    EXPECT_EQ(span_unmapped_units, gone);
    sim_recover();
    struct span span = span_take_unmapped(LENGTH / 2, 1, 0);
    ASSERT_NE(span.unit, 0u);
    fill(span.unit, span.units);
    EXPECT_EQ(span_unmapped_units, gone - span.units);
    rest_.push_back(span);
}

/* Seen to fail with the neighbour's addresses taken as if it were clean: what the kernel refused
 * was extended. */
TEST_F(Unmapped, ASpanIsExtendedIntoItsGoneNeighbour)
{
    ASSERT_EQ(spans_[1].unit, spans_[0].unit + LENGTH);
    release(1);
    ASSERT_GT(span_unmap(LENGTH), LENGTH / 2u);
    sim_fail_kind(SIM_COMMIT, 1);
    EXPECT_FALSE(span_extend(spans_[0].unit, LENGTH, LENGTH + MORE));
    EXPECT_STREQ(span_verify(), nullptr);
    sim_recover();
    ASSERT_TRUE(span_extend(spans_[0].unit, LENGTH, LENGTH + MORE));
    fill(spans_[0].unit, LENGTH + MORE);
    spans_[0].units = LENGTH + MORE;
    EXPECT_STREQ(span_verify(), nullptr);
}

/* Seen to fail with a second place that is mapped before the first one goes: there was none; and
 * with the old place left mapped. */
TEST_F(Unmapped, ABlockIsCarriedWhereThereIsNoRoomForTwo)
{
    release(9);
    fill(spans_[2].unit, LENGTH);
    size_t reserved = sim_reserved_bytes();
    size_t to = span_carry(spans_[2].unit, LENGTH, LENGTH + MORE);
    ASSERT_NE(to, 0u);
    EXPECT_LE(sim_reserved_bytes(), reserved);
    EXPECT_TRUE(is_filled(to, LENGTH));
    EXPECT_TRUE(calm_test::is_zero(region_address(to + LENGTH), MORE * UNIT_BYTES));
    span_release_unmapped(spans_[2].unit, LENGTH);
    spans_[2] = {to, LENGTH + MORE, false};
    EXPECT_STREQ(span_verify(), nullptr);
}

/* Twice each, as the first time may use up or leave gone spans, and so make other calls. Seen to
 * fail with a piece whose move is refused taken for moved. */
TEST_F(Unmapped, WhateverTheKernelRefusesABlockIsWhole)
{
    unsigned refused = 0, in_pieces = 0;
    for (uint64_t turn = 2; turn < 80; turn++) {
        if (spans_[9].unit != 0)
            release(9);
        fill(spans_[2].unit, spans_[2].units);
        sim_fail_nth(turn / 2);
        uint64_t moves = sim_calls(SIM_MOVE);
        size_t to = span_carry(spans_[2].unit, LENGTH, LENGTH + MORE);
        in_pieces += sim_calls(SIM_MOVE) > moves + 1;
        sim_recover();
        sim_limit_reserved(sim_reserved_bytes() + 2 * MORE * UNIT_BYTES);
        ASSERT_TRUE(is_filled(to == 0 ? spans_[2].unit : to, LENGTH));
        EXPECT_STREQ(span_verify(), nullptr);
        refused += to == 0;
        if (to == 0)
            continue;
        span_release_unmapped(spans_[2].unit, LENGTH);
        span_shrink(to, LENGTH + MORE, LENGTH, true);
        spans_[2].unit = to;
    }
    EXPECT_GT(refused, 3u);
    EXPECT_GT(in_pieces, 0u);
}

/* A page in the middle is a mapping of its own, and so no unit around it can be moved as one. Seen
 * to fail with what was moved before it left where it came: reading it ended the test. */
TEST_F(Unmapped, WhatCannotBeMovedAsAWholeStaysWhereItWas)
{
    release(9);
    struct os_facts facts;
    os_start(&facts);
    if (facts.page_bytes >= UNIT_BYTES)
        GTEST_SKIP() << "a page is a unit or more, which can be moved";
    char *odd = region_address(spans_[2].unit + LENGTH / 2) + facts.page_bytes;
    ASSERT_EQ(os_move(region_address(spans_[3].unit), odd, facts.page_bytes), 0);
    fill(spans_[2].unit, LENGTH);
    uint64_t calls = sim_calls(SIM_MOVE);
    EXPECT_EQ(span_carry(spans_[2].unit, LENGTH, LENGTH + MORE), 0u);
    EXPECT_GT(sim_calls(SIM_MOVE), calls + 5);
    EXPECT_TRUE(is_filled(spans_[2].unit, LENGTH));
    EXPECT_STREQ(span_verify(), nullptr);
}

/* Seen to fail where the ends of the part that is used have no tag ("a free span's ends disagree"),
 * and, at one unit a time, with a piece no longer than the request. */
TEST(UnmappedSpans, AHeapThatGrowsAgainMapsPieces)
{
    start_spans();
    struct span span = span_acquire(3 * 4096, 1, 0);
    ASSERT_NE(span.unit, 0u);
    span_release(span.unit, span.units, true);
    span_unmap_long(32 << 20);
    ASSERT_GE(span_unmapped_bytes(), 2 * 4096u * UNIT_BYTES);
    std::vector<struct span> spans;
    size_t unmapped = span_unmapped_bytes(), pieces = 0;
    for (size_t units = 0; units < 2 * 4096; units += span.units) {
        spans.push_back(span = span_acquire(CHUNK_UNITS, 1, 0));
        ASSERT_NE(span.unit, 0u);
        EXPECT_TRUE(span.is_zero);
        pieces += span_unmapped_bytes() != unmapped;
        unmapped = span_unmapped_bytes();
        ASSERT_STREQ(span_verify(), nullptr);
    }
    EXPECT_LE(pieces, 2 * 4096 / 256u + 1);
    for (struct span each : spans)
        span_release(each.unit, each.units, false);
    EXPECT_STREQ(span_verify(), nullptr);
}
