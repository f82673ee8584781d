/*
 * region_sim_test.cpp: mem/region.c moves pages on a kernel that refuses, that knows several
 * mappings, and that leaves holes.
 */
#include <gtest/gtest.h>

#include "../support.h"

extern "C" {
#include "os/sim/sim.h"
}

class RegionMove : public testing::Test
{
  protected:
    enum { UNITS = 1600, PART = 720 };

    void SetUp() override
    {
        struct os_facts facts;
        os_start(&facts);
        ASSERT_TRUE(region.base != nullptr || region_start(&facts) == 0);
        size_t count;
        ASSERT_EQ(region_grow(3 * UNITS, false, &first_, &count), 0);
        from_ = region_address(first_);
        to_ = region_address(first_ + UNITS);
        third_ = region_address(first_ + 2 * UNITS);
    }

    void TearDown() override
    {
        sim_recover();
        sim_make_holes(false);
    }

    /* Each unit but every seventh has its number. */
    void fill()
    {
        for (size_t i = 0; i < UNITS; i++)
            if (i % 7 != 0)
                from_[i << UNIT_SHIFT] = static_cast<char>(i + 1);
    }

    static bool is_filled(const char *start)
    {
        for (size_t i = 0; i < UNITS; i++)
            if (start[i << UNIT_SHIFT] != static_cast<char>(i % 7 != 0 ? i + 1 : 0))
                return false;
        return true;
    }

    int move(char *from, char *to)
    {
        return region_move(region_unit(from), region_unit(to), UNITS, false, &is_zero_);
    }

    size_t first_ = 0;
    char *from_ = nullptr, *to_ = nullptr, *third_ = nullptr;
    bool is_zero_ = false;
};

TEST_F(RegionMove, PagesComeToTheTargetAndTheSourceReadsAsZero)
{
    fill();
    ASSERT_EQ(move(from_, to_), 0);
    EXPECT_TRUE(is_zero_);
    EXPECT_TRUE(is_filled(to_));
    EXPECT_TRUE(calm_test::is_zero(from_, static_cast<size_t>(UNITS) << UNIT_SHIFT));
}

/* Seen to fail with any refusal taken for an end of the move. */
TEST_F(RegionMove, WhatTheKernelRefusesIsCopiedAndNothingIsResidentTwice)
{
    fill();
    size_t resident = sim_resident_bytes();
    sim_fail_kind(SIM_MOVE, 1);
    ASSERT_EQ(move(from_, to_), 0);
    EXPECT_TRUE(is_zero_);
    EXPECT_LE(sim_resident_bytes(), resident + (static_cast<size_t>(UNITS) << UNIT_SHIFT));
    EXPECT_TRUE(is_filled(to_));
    EXPECT_TRUE(calm_test::is_zero(from_, static_cast<size_t>(UNITS) << UNIT_SHIFT));
}

/* Seen to fail with the first parts' units counted for the whole. */
TEST_F(RegionMove, ABlockOfSeveralMappingsMovesAPartAtATime)
{
    fill();
    ASSERT_EQ(region_move(first_, region_unit(to_), PART, false, &is_zero_), 0);
    for (size_t i = PART; i < UNITS; i++) /* as it grew where it was moved to */
        if (i % 7 != 0)
            to_[i << UNIT_SHIFT] = static_cast<char>(i + 1);
    uint64_t moves = sim_calls(SIM_MOVE);
    ASSERT_EQ(move(to_, third_), 0);
    EXPECT_TRUE(is_filled(third_));
    EXPECT_GE(sim_calls(SIM_MOVE), moves + 2);
    EXPECT_LE(sim_calls(SIM_MOVE), moves + 12);
}

/* Seen to fail with what was moved left at the target. */
TEST_F(RegionMove, AHoleInTheTargetTakesNothingOfTheSource)
{
    fill();
    ASSERT_EQ(region_move(first_, region_unit(to_), PART, false, &is_zero_), 0);
    for (size_t i = PART; i < UNITS; i++)
        if (i % 7 != 0)
            to_[i << UNIT_SHIFT] = static_cast<char>(i + 1);
    sim_make_holes(true);
    sim_fail_kind(SIM_MOVE, 4); /* two are refused, as they cross an end; the third moves */
    EXPECT_EQ(move(to_, third_), OS_HOLE);
    EXPECT_TRUE(is_filled(to_));
}

/* Seen to fail with all of it copied. */
TEST_F(RegionMove, WhatNobodyHasWrittenStaysWithoutMemoryWhereItIsCopied)
{
    from_[17 << UNIT_SHIFT] = 1;
    size_t resident = sim_resident_bytes();
    ASSERT_EQ(region_move(first_, region_unit(to_), UNITS, true, &is_zero_), 0);
    EXPECT_TRUE(is_zero_);
    EXPECT_LE(sim_resident_bytes(), resident + 2 * region.granule);
    EXPECT_EQ(to_[17 << UNIT_SHIFT], 1);
}

TEST_F(RegionMove, PagesThatCannotBeDroppedAreNotCalledZero)
{
    fill();
    sim_fail_kind(SIM_MOVE, 1);
    sim_fail_kind(SIM_PURGE, 1);
    ASSERT_EQ(move(from_, to_), 0);
    EXPECT_TRUE(is_filled(to_));
    EXPECT_FALSE(is_zero_);
}
