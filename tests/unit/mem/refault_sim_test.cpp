/*
 * refault_sim_test.cpp: mem/refault.h counts what is taken again soon, by the simulated clock.
 */
#include <gtest/gtest.h>

extern "C" {
#include "mem/refault.h"
#include "os/sim/sim.h"
}

static void take(struct refault_meter *meter, size_t count)
{
    refault_note_taken(meter, count);
    refault_settle(meter);
}

TEST(Refault, WhatIsTakenAgainWithinASecondWasPurgedInVainAndNoMoreThanWasPurged)
{
    struct refault_meter meter = {};
    take(&meter, 5);
    EXPECT_EQ(meter.sum, 0u);
    refault_note_purged(&meter, 10);
    sim_clock_advance(REFAULT_WINDOW_MS - 1);
    take(&meter, 4);
    EXPECT_EQ(meter.sum, 4u);
    take(&meter, 100);
    EXPECT_EQ(meter.sum, 10u);
}

/* Seen to fail with refault_settle() that does not look at the clock: a program that slept, as
 * nobody ends the window then. */
TEST(Refault, WhatIsTakenLaterIsNot)
{
    struct refault_meter meter = {};
    refault_note_purged(&meter, 10);
    sim_clock_advance(REFAULT_WINDOW_MS);
    take(&meter, 4);
    EXPECT_EQ(meter.sum, 0u);
    take(&meter, 4);
    EXPECT_EQ(meter.sum, 0u) << "nor is the rest of it";
    refault_note_purged(&meter, 3);
    take(&meter, 4);
    EXPECT_EQ(meter.sum, 3u);
}
