/*
 * forecast_test.cpp: blocks that come and go by a known rule.
 */
#include <gtest/gtest.h>

#include "../policy_support.h"

using calm_test::Cores;

/* A core where in each period a fifth of what is in use comes back and each waiting task takes one.
 */
static forecast_error watched(unsigned periods, float *weights)
{
    Cores machine("random", 1);
    forecast oracle;
    forecast_start(&oracle);
    uint64_t random = 3;
    double free = 50;
    for (unsigned i = 0; i < periods; i++) {
        double waiting = static_cast<double>(policy_draw(&random) % 12);
        machine.lines[0].free_blocks[0] = static_cast<uint16_t>(free + 0.5);
        float now = machine.lines[0].free_blocks[0];
        forecast_pending pending = {};
        pending.due_ns = machine.view.now_ns + 1000;
        pending.was = now;
        forecast_features(pending.x, now, 100, static_cast<float>(waiting), 0);
        pending.said = forecast_free(&oracle, pending.x, now, 100);
        forecast_keep(&oracle, &pending);
        free += 0.2 * (100 - free) - waiting;
        free = free < 0 ? 0 : free;
        machine.lines[0].free_blocks[0] = static_cast<uint16_t>(free + 0.5);
        machine.view.now_ns += 1000;
        for (unsigned k = 0; k < FORECAST_PENDING_MAX; k++)
            forecast_check(&oracle, &machine.view);
        if (i + 1 == periods / 2)
            oracle.error = {};
    }
    std::copy(oracle.weights, oracle.weights + FORECAST_WEIGHTS, weights);
    return oracle.error;
}

/* Seen to fail with a step of 0. */
TEST(Forecast, LearnsHowBlocksComeBackAndBeatsTheGuessThatNothingChanges)
{
    float weights[FORECAST_WEIGHTS];
    forecast_error error = watched(20000, weights);
    EXPECT_EQ(error.count, 10000u);
    EXPECT_LT(error.absolute, 0.4 * error.absolute_still);
    EXPECT_NEAR(weights[1], 0.2, 0.1);
    EXPECT_NEAR(weights[2], -1, 0.2);
}

TEST(Forecast, IsNeverBelowNoneNorAboveTheMostSeen)
{
    forecast oracle;
    forecast_start(&oracle);
    float x[FORECAST_WEIGHTS];
    forecast_features(x, 3, 10, 100, 0);
    EXPECT_EQ(forecast_free(&oracle, x, 3, 10), 0);
    oracle.weights[1] = 4;
    forecast_features(x, 3, 10, 0, 0);
    EXPECT_EQ(forecast_free(&oracle, x, 3, 10), 10);
}

TEST(Forecast, IsNotJudgedBeforeItIsDue)
{
    Cores machine("random", 1);
    forecast oracle;
    forecast_start(&oracle);
    forecast_pending pending = {};
    pending.due_ns = machine.view.now_ns + 1;
    forecast_keep(&oracle, &pending);
    for (unsigned i = 0; i < 2 * FORECAST_PENDING_MAX; i++)
        forecast_check(&oracle, &machine.view);
    EXPECT_EQ(oracle.error.count, 0u);
    machine.view.now_ns++;
    for (unsigned i = 0; i < 2 * FORECAST_PENDING_MAX; i++)
        forecast_check(&oracle, &machine.view);
    EXPECT_EQ(oracle.error.count, 1u);
}
