/*
 * policy_blind_test.cpp: hash, rr and random.
 */
#include <gtest/gtest.h>

#include "../policy_support.h"

using calm_test::Cores;

TEST(Hash, AKeyStaysOnItsCoreHoweverBusyThatIs)
{
    Cores machine("hash", 16);
    for (uint64_t key = 0; key < 100; key++) {
        uint32_t core = machine.choose(POLICY_NO_CLASS, key);
        machine.busy(core, 7);
        EXPECT_EQ(machine.choose(POLICY_NO_CLASS, key), core);
        machine.busy(core, 0);
    }
}

/* Seen to fail with the next core instead of a second hash. */
TEST(Hash, TheKeysOfAFullCoreSpreadOverAllOthers)
{
    Cores machine("hash", 16);
    machine.busy(5, machine.view.inbox_capacity);
    std::map<uint32_t, unsigned> taken;
    Cores empty("hash", 16);
    for (uint64_t key = 0; key < 3000; key++)
        if (empty.choose(POLICY_NO_CLASS, key) == 5)
            taken[machine.choose(POLICY_NO_CLASS, key)]++;
    EXPECT_EQ(taken.count(5), 0u);
    EXPECT_EQ(taken.size(), 15u);
}

TEST(RoundRobin, GoesAroundAndSkipsWhatIsInfeasible)
{
    Cores machine("rr", 4);
    machine.busy(2, machine.view.inbox_capacity);
    std::vector<uint32_t> order;
    for (unsigned i = 0; i < 6; i++)
        order.push_back(machine.choose());
    EXPECT_EQ(order, (std::vector<uint32_t>{0, 1, 3, 0, 1, 3}));
}
