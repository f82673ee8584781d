/*
 * theory_test.cpp: the simulator against results that were proved on paper.
 *
 * Each comparison is with the 99.9 % interval of ten runs, and that interval must itself be small,
 * so that the test cannot pass by being vague. Seen to fail with service times 2 % longer than the
 * traffic says, and with inboxes served last come, first served (the second moment, not the mean).
 */
#include <gtest/gtest.h>

#include "sim_support.h"

using calm_test::Mean;
using calm_test::mean_of;
using calm_test::plain;

static double mean_sojourn(const engine &engine)
{
    return quantiles_mean(&engine.sojourn);
}

static void expect_close(Mean found, double wanted, double vague)
{
    EXPECT_LT(found.reach, vague * wanted) << "too vague to say anything";
    EXPECT_NEAR(found.value, wanted, found.reach + 0.004 * wanted);
}

static const unsigned runs = 10;

TEST(Theory, OneCoreWithExponentialTimesIsMM1)
{
    for (double load : {0.3, 0.7, 0.85}) {
        auto options = plain("jsq", 1, load, SERVICE_EXPONENTIAL);
        expect_close(mean_of(options, runs, mean_sojourn), 1000 / (1 - load), 0.08);
    }
}

/* The time in an M/M/1 system is exponential. */
TEST(Theory, QuantilesOfMM1AreThoseOfAnExponentialTime)
{
    auto options = plain("jsq", 1, 0.7, SERVICE_EXPONENTIAL);
    for (double share : {0.5, 0.99}) {
        double wanted = -std::log(1 - share) * 1000 / 0.3;
        expect_close(
            mean_of(options, runs,
                    [share](const engine &engine) { return quantiles_at(&engine.sojourn, share); }),
            wanted, 0.1);
    }
}

/* Pollaczek and Khinchine: waiting = load / (1 - load) * E[S^2] / (2 E[S]). */
TEST(Theory, OneCoreWithOtherTimesIsMG1)
{
    for (service_kind kind : {SERVICE_FIXED, SERVICE_BIMODAL}) {
        double load = kind == SERVICE_FIXED ? 0.8 : 0.5;
        auto options = plain("jsq", 1, load, kind);
        options.inbox_capacity = 60000;
        options.tasks = kind == SERVICE_FIXED ? 200000 : 1000000;
        double wanted = 1000 + 1000 * load / (1 - load) * traffic_second_moment(kind) / 2;
        expect_close(mean_of(options, runs, mean_sojourn), wanted,
                     kind == SERVICE_FIXED ? 0.05 : 0.25);
    }
}

static double erlang_c(unsigned cores, double offered)
{
    double term = 1, sum = 1;
    for (unsigned i = 1; i < cores; i++)
        sum += term *= offered / i;
    term *= offered / cores * cores / (cores - offered);
    return term / (sum + term);
}

/* jbsq1 without delay is one shared queue, and so is knowing all work. */
TEST(Theory, OneSharedQueueWaitsAsErlangSaid)
{
    for (const char *policy : {"jbsq1", "least-work"}) {
        for (unsigned cores : {2u, 16u}) {
            double load = 0.85;
            auto options = plain(policy, cores, load, SERVICE_EXPONENTIAL);
            double wanted = 1000 + erlang_c(cores, load * cores) * 1000 / (cores * (1 - load));
            expect_close(mean_of(options, runs, mean_sojourn), wanted, 0.06);
        }
    }
}

/* A core that is chosen by a random key sees Poisson arrivals: each is M/M/1. */
TEST(Theory, RandomPlacementIsManyIndependentQueues)
{
    auto options = plain("affine", 16, 0.7, SERVICE_EXPONENTIAL);
    options.traffic.keys = TRAFFIC_KEYS_MAX;
    expect_close(mean_of(options, runs, mean_sojourn), 1000 / 0.3, 0.05);
}

/* Mitzenmacher 2001, for many cores: the mean time is sum of load^((2^i - 2) / (2 - 1)). */
TEST(Theory, TwoChoicesComeCloseToTheirLimitForManyCores)
{
    double wanted = 0, load = 0.8;
    for (unsigned i = 1; i < 10; i++)
        wanted += 1000 * std::pow(load, std::pow(2, i) - 2);
    auto options = plain("p2c", 512, load, SERVICE_EXPONENTIAL);
    options.tasks = 400000;
    options.warmup = 200000;
    Mean found = mean_of(options, runs, mean_sojourn);
    EXPECT_NEAR(found.value, wanted, 0.02 * wanted);
}

/* Little: tasks in the system = their rate times their time there. */
TEST(Theory, LittlesLawHoldsForEveryPolicy)
{
    auto names = calm_test::policy_names();
    for (const std::string &name : names) {
        for (service_kind kind : {SERVICE_FIXED, SERVICE_EXPONENTIAL}) {
            auto options = plain(name.c_str(), 8, 0.6, kind);
            calm_test::Simulation simulation(options);
            ASSERT_EQ(simulation.run(), nullptr);
            const engine &engine = *simulation.all;
            double span = engine.ended_ns - engine.begun_ns;
            double rate = static_cast<double>(engine.counts.offered) / span;
            EXPECT_NEAR(engine.task_ns / span / (rate * mean_sojourn(engine)), 1, 0.01) << name;
        }
    }
}

/* Work that is not lost: what cores did per time is the load. */
TEST(Theory, ThroughputIsTheLoadBelowSaturationAndTheCapacityAbove)
{
    auto below = plain("jsq", 8, 0.6, SERVICE_EXPONENTIAL),
         above = plain("jsq", 8, 1.5, SERVICE_EXPONENTIAL);
    above.inbox_capacity = 32;
    auto rate = [](const engine &engine) {
        return static_cast<double>(engine.counts.done) / (engine.ended_ns - engine.begun_ns) * 1000;
    };
    expect_close(mean_of(below, runs, rate), 0.6 * 8, 0.02);
    expect_close(mean_of(above, runs, rate), 8, 0.02);
}
