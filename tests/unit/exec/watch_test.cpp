/*
 * watch_test.cpp: the line by which a core tells how it is.
 */
#include <gtest/gtest.h>

#include "../policy_support.h"

/* Seen to fail with an addition in place of the comparison. */
TEST(Watch, AsManyPlacesAsThereAreAreTakenAndNoMore)
{
    watch_line line = {};
    for (unsigned i = 0; i < 3; i++)
        EXPECT_TRUE(watch_reserve(&line, 3));
    EXPECT_FALSE(watch_reserve(&line, 3));
    EXPECT_EQ(watch_count(&line), 3u);
    watch_arrived(&line);
    watch_left(&line);
    EXPECT_FALSE(watch_reserve(&line, 3));
    watch_left(&line);
    EXPECT_TRUE(watch_reserve(&line, 3));
}

TEST(Watch, TheServiceTimeFollowsWhatTheCoreServes)
{
    watch_line line = {};
    for (unsigned i = 0; i < 2000; i++)
        watch_served(&line, i < 1000 ? 500 : 2000, 9000);
    EXPECT_NEAR(line.service_ns, 2000, 40);
    EXPECT_NEAR(line.latency_ns, 9000, 40);
}

/* Seen to fail with WATCH_SAMPLE_MAX of 1000. */
TEST(Watch, OneTaskFiveHundredTimesAsLongHardlyMovesIt)
{
    watch_line line = {};
    for (unsigned i = 0; i < 300; i++)
        watch_served(&line, 1000, 1000);
    watch_served(&line, 500000, 500000);
    EXPECT_LT(line.service_ns, 1200u);
}

/* Seen to fail without WATCH_FIRST_MAX. */
TEST(Watch, ALongFirstTaskIsForgottenAfterADozen)
{
    watch_line line = {};
    watch_served(&line, 500000, 500000);
    for (unsigned i = 0; i < 12; i++)
        watch_served(&line, 1000, 1000);
    EXPECT_LT(line.service_ns, 3000u);
}

/* Seen to fail with steps that are small from the start: then the first weighs 64 times. */
TEST(Watch, TheFirstTasksCountAlike)
{
    watch_line line = {};
    for (unsigned i = 0; i < 15; i++)
        watch_served(&line, i % 2 == 0 ? 400 : 1600, 1000);
    EXPECT_NEAR(line.service_ns, 1000, 250);
}

/* Seen to fail with the comparison of moments as unsigned numbers. */
TEST(Watch, AnAgeIsRightAcrossTheWrapOfMoments)
{
    uint64_t wrap = (uint64_t)1 << (32 + WATCH_MOMENT_SHIFT);
    EXPECT_EQ(watch_age_ns(watch_moment(wrap - 800), wrap + 1600), 2400u);
    EXPECT_EQ(watch_age_ns(watch_moment(5000), 5000), 0u);
    EXPECT_EQ(watch_age_ns(watch_moment(6000), 5000), 0u) << "a moment that is still to come";
}
