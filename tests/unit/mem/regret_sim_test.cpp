/*
 * regret_sim_test.cpp: mem/regret.h counts what is taken again soon, by the simulated clock.
 */
#include <gtest/gtest.h>

extern "C" {
#include "mem/regret.h"
#include "os/sim/sim.h"
}

TEST(Regret, WhatIsTakenAgainWithinASecondWasPurgedInVainAndNoMoreThanWasPurged)
{
    struct regret regret = {};
    regret_note_taken(&regret, 5);
    EXPECT_EQ(regret.sum, 0u);
    regret_note_purged(&regret, 10);
    sim_clock_advance(REGRET_WINDOW_MS - 1);
    regret_note_taken(&regret, 4);
    EXPECT_EQ(regret.sum, 4u);
    regret_note_taken(&regret, 100);
    EXPECT_EQ(regret.sum, 10u);
}

/* Seen to fail with regret_note_taken() that does not look at the clock: a program that slept, as
 * nobody ends the window then. */
TEST(Regret, WhatIsTakenLaterIsNot)
{
    struct regret regret = {};
    regret_note_purged(&regret, 10);
    sim_clock_advance(REGRET_WINDOW_MS);
    regret_note_taken(&regret, 4);
    EXPECT_EQ(regret.sum, 0u);
    regret_note_taken(&regret, 4);
    EXPECT_EQ(regret.sum, 0u) << "nor is the rest of it";
    regret_note_purged(&regret, 3);
    regret_note_taken(&regret, 4);
    EXPECT_EQ(regret.sum, 3u);
}
