/*
 * policy_queue_test.cpp: jsq and jbsq.
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
    for (uint32_t bound = 1; bound <= 2; bound++) {
        Cores machine(("jbsq" + std::to_string(bound)).c_str(), 8);
        machine.busy_all(bound);
        EXPECT_EQ(machine.choose(), POLICY_HOLD);
        machine.busy(6, bound - 1);
        EXPECT_EQ(machine.choose(), 6u);
    }
}

/* The task that runs or waits there may take the block that is seen. Seen to fail with a core whose
 * one free block is enough whatever it has to do. */
TEST(BoundedQueues, PlaceATaskWhereABlockIsLeftForIt)
{
    Cores machine("jbsq2", 4);
    machine.free_all(0, 1);
    machine.busy_all(1);
    EXPECT_EQ(machine.choose(0), POLICY_HOLD);
    EXPECT_LT(machine.choose(), 4u) << "one that wants no block";
    machine.lines[2].free_blocks[0] = 2;
    EXPECT_EQ(machine.choose(0), 2u);
}
