/*
 * watch_test.cpp: the line by which a core tells how it is.
 */
#include <gtest/gtest.h>

#include "../policy_support.h"

TEST(Watch, CountAndPredictedWorkOfWhatIsInFlightAreOneWord)
{
    watch_line line = {};
    watch_submitted(&line, 700);
    watch_submitted(&line, 0);
    watch_submitted(&line, 300);
    EXPECT_EQ(watch_count(&line), 3u);
    EXPECT_EQ(load_work_ns(line.load), 768u + 512u) << "each rounded up to 256 ns";
    watch_left(&line, 300);
    EXPECT_EQ(watch_count(&line), 2u);
    EXPECT_EQ(load_work_ns(line.load), 768u);
}

/* Seen to fail with 40 bits of work in ns, where 1,024 such tasks reached the count. */
TEST(Watch, ThePredictionsOfTwiceAnInboxDoNotReachTheCount)
{
    watch_line line = {};
    unsigned tasks = 2 * CALM_EXEC_INBOX_MAX - 1;
    for (unsigned i = 0; i < tasks; i++)
        watch_submitted(&line, UINT32_MAX);
    EXPECT_EQ(watch_count(&line), tasks);
    EXPECT_EQ(load_work_ns(line.load), uint64_t{tasks} * WATCH_WORK_MAX_NS);
    for (unsigned i = 0; i < tasks; i++)
        watch_left(&line, UINT32_MAX);
    EXPECT_EQ(line.load, 0u);
}

TEST(Watch, TheServiceTimeFollowsWhatTheCoreServes)
{
    watch_line line = {};
    for (unsigned i = 0; i < 2000; i++)
        watch_served(&line, i < 1000 ? 500 : 2000, 9000);
    EXPECT_NEAR(line.service_ns, 2000, 40);
    EXPECT_NEAR(line.drift_ns, 0, 40);
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

TEST(Watch, TheDriftIsPositiveWhileACoreBecomesSlower)
{
    watch_line line = {};
    for (unsigned i = 0; i < 100; i++)
        watch_served(&line, 1000, 1000);
    EXPECT_NEAR(line.drift_ns, 0, 10);
    for (unsigned i = 0; i < 16; i++)
        watch_served(&line, 2000, 2000);
    EXPECT_GT(line.drift_ns, 100);
    for (unsigned i = 0; i < 400; i++)
        watch_served(&line, 2000, 2000);
    EXPECT_NEAR(line.drift_ns, 0, 40);
}

/* Seen to fail with the comparison of moments as unsigned numbers. */
TEST(Watch, AnAgeIsRightAcrossTheWrapOfMoments)
{
    uint64_t wrap = (uint64_t)1 << (32 + WATCH_MOMENT_SHIFT);
    EXPECT_EQ(watch_age_ns(watch_moment(wrap - 800), wrap + 1600), 2400u);
    EXPECT_EQ(watch_age_ns(watch_moment(5000), 5000), 0u);
    EXPECT_EQ(watch_age_ns(watch_moment(6000), 5000), 0u) << "a moment that is still to come";
}
