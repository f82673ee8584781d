/*
 * policy_queue_test.cpp: jsq, jiq and jbsq.
 */
#include <gtest/gtest.h>

#include "../policy_support.h"

using calm_test::Cores;

TEST(ShortestQueue, IsFoundWhereverItIs)
{
    for (uint32_t cores : {2u, 17u, 1024u}) {
        Cores machine("jsq", cores);
        machine.busy_all(3);
        for (uint32_t core : {0u, cores - 1, cores / 2}) {
            machine.busy(core, 2);
            for (unsigned i = 0; i < 10; i++)
                ASSERT_EQ(machine.choose(), core);
            machine.busy(core, 3);
        }
    }
}

TEST(BoundedQueues, HoldTheTaskWhenEveryCoreHasItsNumber)
{
    for (uint32_t bound = 1; bound <= 4; bound++) {
        Cores machine(("jbsq" + std::to_string(bound)).c_str(), 8);
        machine.busy_all(bound);
        EXPECT_EQ(machine.choose(), POLICY_HOLD);
        machine.busy(6, bound - 1);
        EXPECT_EQ(machine.choose(), 6u);
    }
}

/* Seen to fail with idle cores taken from the end of the ring. */
TEST(IdleQueue, ServesIdleCoresInTheOrderInWhichTheySaidSo)
{
    Cores machine("jiq", 5);
    for (uint32_t core = 0; core < 5; core++) {
        EXPECT_EQ(machine.choose(), core) << "at the start all are idle";
        machine.busy(core, 1);
    }
    for (uint32_t core : {3u, 1u, 4u}) {
        machine.busy(core, 0);
        machine.policy->idle(machine.state, core);
        machine.policy->idle(machine.state, core);
    }
    for (uint32_t core : {3u, 1u, 4u}) {
        EXPECT_EQ(machine.choose(), core);
        machine.busy(core, 1);
    }
}

TEST(IdleQueue, ACoreThatIsBusyAgainIsNotTakenForIdle)
{
    Cores machine("jiq", 3);
    machine.busy(0, 2);
    machine.busy(1, 2);
    EXPECT_EQ(machine.choose(), 2u);
}

TEST(IdleQueue, WithoutIdleCoresTheTaskGoesToARandomOne)
{
    Cores machine("jiq", 6);
    machine.busy_all(2);
    std::set<uint32_t> taken;
    for (unsigned i = 0; i < 200; i++)
        taken.insert(machine.choose());
    EXPECT_EQ(taken.size(), 6u);
}
