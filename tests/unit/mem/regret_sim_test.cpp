/*
 * regret_sim_test.cpp: mem/regret.h counts what is taken again soon, by the simulated clock.
 */
#include <gtest/gtest.h>

extern "C" {
#include "mem/regret.h"
#include "os/sim/sim.h"
}

static void take(struct regret *regret, size_t count)
{
    regret_note_taken(regret, count);
    regret_settle(regret);
}

TEST(Regret, WhatIsTakenAgainWithinASecondWasPurgedInVainAndNoMoreThanWasPurged)
{
    struct regret regret = {};
    take(&regret, 5);
    EXPECT_EQ(regret.sum, 0u);
    regret_note_purged(&regret, 10);
    sim_clock_advance(REGRET_WINDOW_MS - 1);
    take(&regret, 4);
    EXPECT_EQ(regret.sum, 4u);
    take(&regret, 100);
    EXPECT_EQ(regret.sum, 10u);
}

/* Seen to fail with regret_settle() that does not look at the clock: a program that slept, as
 * nobody ends the window then. */
TEST(Regret, WhatIsTakenLaterIsNot)
{
    struct regret regret = {};
    regret_note_purged(&regret, 10);
    sim_clock_advance(REGRET_WINDOW_MS);
    take(&regret, 4);
    EXPECT_EQ(regret.sum, 0u);
    take(&regret, 4);
    EXPECT_EQ(regret.sum, 0u) << "nor is the rest of it";
    regret_note_purged(&regret, 3);
    take(&regret, 4);
    EXPECT_EQ(regret.sum, 3u);
}
