/*
 * policy_two_test.cpp: two random choices.
 */
#include <gtest/gtest.h>

#include "../policy_support.h"

using calm_test::Cores;

/* Of 10 cores with 0 to 9 tasks the fuller of two different random ones is never taken: core i is
 * taken with chance 2 (9 - i) / 90. Seen to fail with the comparison turned round. */
TEST(TwoChoices, TakesTheEmptierOfTwoRandomCores)
{
    Cores machine("p2c", 10);
    machine.view.inbox_capacity = 100;
    for (uint32_t core = 0; core < 10; core++)
        machine.busy(core, core);
    std::map<uint32_t, unsigned> taken;
    for (unsigned i = 0; i < 45000; i++)
        taken[machine.choose()]++;
    for (uint32_t core = 0; core < 10; core++)
        EXPECT_NEAR(taken[core], 1000 * (9 - core), 300) << "core " << core;
}

TEST(TwoChoicesByOccupancy, TakesTheOneWithMoreFreeBlocksHoweverBusy)
{
    Cores machine("p2c-occupancy", 2);
    machine.free_all(1, 4);
    machine.lines[1].free_blocks[1] = 5;
    machine.busy(1, 6);
    for (unsigned i = 0; i < 50; i++)
        EXPECT_EQ(machine.choose(1), 1u);
    machine.free_all(1, 4);
    for (unsigned i = 0; i < 50; i++)
        EXPECT_EQ(machine.choose(1), 0u) << "as many blocks, less in flight";
}
