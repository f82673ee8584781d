/*
 * engine_test.cpp: conservation, determinism, pools, delays, and that the walks can fail.
 */
#include <gtest/gtest.h>

#include "sim_support.h"

using calm_test::plain;
using calm_test::Simulation;

static std::vector<std::string> all_names()
{
    auto names = calm_test::policy_names();
    names.push_back("least-work");
    return names;
}

/* Everything at once: slow cores that move, tight pools, delays, sheds, a change of traffic. */
static engine_options everything(const char *policy, full_rule full, double delay_ns)
{
    engine_options options = plain(policy, 6, 0.9, SERVICE_EXPONENTIAL);
    options.then = SERVICE_BIMODAL;
    options.tasks = 30000;
    options.warmup = 5000;
    options.slow_cores = 2;
    options.slow_factor = 3;
    options.drift_tasks = 4000;
    options.blocks = 12;
    options.tight_cores = 3;
    options.tight_blocks = 4;
    options.inbox_capacity = 20;
    options.full = full;
    options.delay_ns = delay_ns;
    return options;
}

/* Seen to fail with a shed task that keeps its place in the line's count, with a stolen one that
 * does, and with a release that forgets the block. */
TEST(Engine, NothingIsLostUnderAnyPolicyWhateverHappens)
{
    for (const std::string &name : all_names())
        for (full_rule full : {FULL_REJECT, FULL_SHED, FULL_WAIT})
            for (double delay_ns : {0.0, 250.0}) {
                Simulation simulation(everything(name.c_str(), full, delay_ns));
                ASSERT_TRUE(simulation.is_started);
                ASSERT_EQ(simulation.run(97), nullptr) << name << full << delay_ns;
                const engine_counts &counts = simulation->counts;
                EXPECT_EQ(simulation->in_system, 0u);
                EXPECT_EQ(simulation->all_left, simulation->all_offered);
                EXPECT_EQ(counts.offered,
                          counts.done + counts.rejected + counts.shed + counts.failed);
                EXPECT_EQ(counts.offered, 25000u);
                EXPECT_EQ(simulation->sojourn.count, counts.done);
            }
}

TEST(Engine, EachRuleForFullCoresDoesWhatItSays)
{
    for (full_rule full : {FULL_REJECT, FULL_SHED, FULL_WAIT}) {
        auto options = plain("jsq", 4, 1.3, SERVICE_EXPONENTIAL);
        options.inbox_capacity = 16;
        options.full = full;
        options.tasks = 40000;
        options.warmup = 10000;
        options.deadline_ns = 20000;
        Simulation simulation(options);
        ASSERT_EQ(simulation.run(), nullptr);
        const engine_counts &counts = simulation->counts;
        double lost = static_cast<double>(counts.rejected + counts.shed);
        EXPECT_NEAR(lost / static_cast<double>(counts.offered), 1 - 1 / 1.3, 0.02);
        EXPECT_EQ(counts.shed > 0, full == FULL_SHED);
        double most = static_cast<double>(simulation->sojourn.most);
        if (full == FULL_WAIT)
            EXPECT_GT(quantiles_at(&simulation->sojourn, 0.5), 25000) << "they wait before, too";
        else
            EXPECT_LT(most, 60000);
    }
}

TEST(Engine, TheSameSeedGivesTheSameRunAndAnotherSeedAnother)
{
    for (const std::string &name : all_names()) {
        auto options = everything(name.c_str(), FULL_REJECT, 100);
        Simulation a(options), b(options);
        options.traffic.seed++;
        Simulation c(options);
        a.run();
        b.run();
        c.run();
        EXPECT_EQ(0, std::memcmp(&a->sojourn, &b->sojourn, sizeof a->sojourn)) << name;
        EXPECT_EQ(0, std::memcmp(&a->counts, &b->counts, sizeof a->counts)) << name;
        EXPECT_NE(0, std::memcmp(&a->sojourn, &c->sojourn, sizeof a->sojourn)) << name;
    }
}

TEST(Engine, HowOftenItIsLookedAtDoesNotMatter)
{
    auto options = everything("steal", FULL_SHED, 100);
    Simulation a(options), b(options);
    a.run(1);
    b.run(1 << 30);
    EXPECT_EQ(0, std::memcmp(&a->sojourn, &b->sojourn, sizeof a->sojourn));
}

/* Positive control of engine_verify(). */
TEST(Engine, TheWalkFindsALostTaskALostBlockAndAWrongCount)
{
    Simulation simulation(everything("jsq", FULL_REJECT, 0));
    engine_run(simulation.all.get(), 20000);
    ASSERT_EQ(engine_verify(simulation.all.get()), nullptr);
    simulation->all_left++;
    EXPECT_NE(engine_verify(simulation.all.get()), nullptr);
    simulation->all_left--;
    simulation->parts->cores[1].backlog[2]++;
    EXPECT_NE(engine_verify(simulation.all.get()), nullptr);
    simulation->parts->cores[1].backlog[2]--;
    watch_arrived(&simulation->parts->lines[3]);
    EXPECT_NE(engine_verify(simulation.all.get()), nullptr);
    watch_left(&simulation->parts->lines[3]);
    ASSERT_EQ(engine_verify(simulation.all.get()), nullptr);
}

/* On an idle machine a task takes its time, and twice the delay when it is stolen: once is its way.
 */
TEST(Engine, ADelayIsPaidOnTheWay)
{
    auto options = plain("jsq", 16, 0.02, SERVICE_FIXED);
    options.delay_ns = 300;
    Simulation simulation(options);
    simulation.run();
    EXPECT_NEAR(quantiles_at(&simulation->sojourn, 0.5), 1300, 6);
}

TEST(Engine, SlowCoresTakeTheirFactor)
{
    auto options = plain("jsq", 4, 0.01, SERVICE_FIXED);
    options.slow_cores = 1;
    options.slow_factor = 5;
    Simulation simulation(options);
    simulation.run();
    EXPECT_NEAR(quantiles_at(&simulation->sojourn, 0.70), 1000, 5);
    EXPECT_NEAR(quantiles_at(&simulation->sojourn, 0.80), 5000, 25);
}

/* A pool of one class that is always wanted is a loss system: of `blocks` places, each kept for the
 * task and the hold time, Erlang's formula B gives the share that finds none. One core with many
 * blocks and next to no service time comes close to it. Seen to fail with blocks freed at the end
 * of the task. */
TEST(Engine, ABlockIsKeptForItsHoldTime)
{
    auto options = plain("jsq", 1, 0.02, SERVICE_FIXED);
    options.blocks = 8;
    options.traffic.classes = 1;
    options.traffic.remote = 0;
    options.traffic.hold_ns = 250000; /* 5 blocks kept on average */
    options.full = FULL_REJECT;
    options.tasks = 400000;
    double offered = 0.02 / 1000 * (250000 + 1000), blocking = 1;
    for (unsigned i = 1; i <= 8; i++)
        blocking = offered * blocking / (i + offered * blocking);
    Simulation simulation(options);
    ASSERT_EQ(simulation.run(), nullptr);
    const engine_counts &counts = simulation->counts;
    double lost = static_cast<double>(counts.rejected + counts.failed);
    EXPECT_NEAR(lost / static_cast<double>(counts.offered), blocking, 0.06 * blocking);
}

TEST(Engine, TheOracleKnowsMoreThanAnyPolicyOnEqualCores)
{
    auto p99 = [](const char *policy) {
        Simulation simulation(plain(policy, 8, 0.8, SERVICE_BIMODAL));
        simulation.run();
        return quantiles_mean(&simulation->sojourn);
    };
    double oracle = p99("least-work");
    for (const char *policy : {"affine", "p2c", "jsq", "prequal"})
        EXPECT_LT(oracle, 0.9 * p99(policy)) << policy;
}

TEST(Engine, AStolenTaskMovesFromOneCountToAnother)
{
    Simulation simulation(plain("steal", 8, 0.9, SERVICE_EXPONENTIAL));
    ASSERT_EQ(simulation.run(13), nullptr);
    EXPECT_GT(simulation->counts.steals, simulation->counts.offered / 10);
}

/* Two cores that steal, and tasks as they come here; core 0 has one block of the class, core 1 two.
 * Blocks are freed by others. */
static engine_options traced(const std::vector<traffic_task> &tasks)
{
    engine_options options = plain("steal", 2, 0.5, SERVICE_FIXED);
    options.traffic.trace = tasks.data();
    options.tasks = tasks.size();
    options.warmup = 0;
    options.blocks = 2;
    options.tight_cores = 1;
    options.tight_blocks = 1;
    return options;
}

/* When core 0 has done its two tasks, its one block is among those that it has not taken back. What
 * waits for a block at core 1 since 100 has then waited longest. Seen to fail, by the service time
 * of the task that core 0 would begin instead, with a look at free blocks alone. */
TEST(Engine, AThiefCountsAndTakesBackWhatOthersFreed)
{
    const uint32_t none = POLICY_NO_CLASS;
    const std::vector<traffic_task> tasks = {
        {0, 1000, 0, 0, 500},     /* on core 0: its block comes back at 1,500 */
        {1, 10000, 0, none, 0},   /* on core 1                                */
        {100, 20000, 0, 0, 100},  /* waits there: core 0 has no block         */
        {200, 2000, 0, none, 0},  /* on core 0, from 1,000 to 3,000           */
        {2850, 100, 0, none, 0},  /* waits on core 1                          */
        {2900, 1000, 0, none, 0}, /* waits on core 0                          */
    };
    Simulation simulation(traced(tasks));
    ASSERT_EQ(simulation.run(1), nullptr);
    EXPECT_EQ(simulation->counts.done, tasks.size());
    EXPECT_EQ(simulation->sojourn.most, 3000u + 20000 - 100);
}

/* Core 0 is idle from 3,000 on and has no block; what waits at core 1 keeps its order. Seen to fail
 * with a thief that takes what it cannot run, and puts it back as the youngest. */
TEST(Engine, AThiefLeavesWhatItHasNoBlockForWhereItIs)
{
    const uint32_t none = POLICY_NO_CLASS;
    const std::vector<traffic_task> tasks = {
        {0, 1000, 0, 0, 1000000}, /* on core 0: its block stays away */
        {1, 10000, 0, none, 0},   /* on core 1                       */
        {100, 20000, 0, 0, 100},  /* waits there                     */
        {200, 2000, 0, none, 0},  /* on core 0                       */
        {300, 100, 0, 0, 100},    /* waits on core 1                 */
    };
    Simulation simulation(traced(tasks));
    ASSERT_EQ(simulation.run(1), nullptr);
    EXPECT_EQ(simulation->counts.done, tasks.size());
    EXPECT_EQ(simulation->counts.steals, 0u);
    EXPECT_EQ(simulation->sojourn.most, 10001u + 20000 - 100);
}

/* As `steal`, but holds what a thief is told beforehand against a look at every core. */
static unsigned told_none, told_some, told_wrong;

static uint32_t steal_and_look(void *state, const struct policy_view *view, uint32_t thief)
{
    bool is_there = false;
    for (uint32_t core = 0; core < view->cores; core++)
        is_there = is_there || (core != thief && view->has_loot(view->loot, core));
    told_none += view->has_no_loot;
    told_some += !view->has_no_loot;
    told_wrong += view->has_no_loot == is_there;
    return policy_steal.steal(state, view, thief);
}

/* Where many tasks wait that no idle core has a block for, looking in vain at a thousand cores at
 * each event took three quarters of the time. Seen to fail: with a count that keeps a class as long
 * as anything waits, and with the thief's own oldest task taken for loot. */
TEST(Engine, AThiefKnowsBeforehandWhetherThereIsAnythingToTake)
{
    for (double delay_ns : {0.0, 250.0}) {
        struct policy looking = policy_steal;
        looking.steal = steal_and_look;
        auto options = everything("steal", FULL_SHED, delay_ns);
        options.policy = &looking;
        told_none = told_some = told_wrong = 0;
        Simulation simulation(options);
        ASSERT_EQ(simulation.run(97), nullptr);
        EXPECT_EQ(told_wrong, 0u);
        EXPECT_GT(told_none, 1000u);
        EXPECT_GT(told_some, 1000u);
    }
}
