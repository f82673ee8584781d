/*
 * policy_steal_test.cpp: who is robbed, and who is not.
 */
#include <gtest/gtest.h>

#include "../policy_support.h"

using calm_test::Cores;

static uint32_t victim(Cores &machine, uint32_t thief)
{
    return machine.policy->steal(machine.state, &machine.view, thief);
}

TEST(Steal, NobodyIsRobbedOfTheTaskThatRuns)
{
    for (const char *name : {"steal", "learned"}) {
        Cores machine(name, 8);
        machine.busy_all(1);
        EXPECT_EQ(victim(machine, 3), POLICY_NOBODY);
    }
}

TEST(Steal, TheOnlyTaskThatWaitsIsFoundAmongAThousandCores)
{
    for (const char *name : {"steal", "learned"}) {
        Cores machine(name, 1024);
        machine.busy_all(1);
        machine.busy(777, 2);
        for (unsigned i = 0; i < 20; i++) {
            machine.busy(i, 0);
            EXPECT_EQ(victim(machine, i), 777u);
        }
    }
}

/* Seen to fail with a thief that looks all the same. */
TEST(Steal, NobodyIsRobbedWhereItIsKnownThatThereIsNoLoot)
{
    for (const char *name : {"steal", "learned"}) {
        Cores machine(name, 16);
        machine.busy_all(2);
        machine.busy(0, 0);
        EXPECT_NE(victim(machine, 0), POLICY_NOBODY);
        machine.view.has_no_loot = true;
        EXPECT_EQ(victim(machine, 0), POLICY_NOBODY);
    }
}

/* Seen to fail with the comparison of waiting times turned round. */
TEST(Steal, TheOldestTaskIsTakenFirst)
{
    for (const char *name : {"steal", "learned"}) {
        Cores machine(name, 16);
        machine.busy_all(2);
        for (uint32_t core = 0; core < 16; core++)
            watch_oldest(&machine.lines[core], 900000 - 1000 * ((core * 7) % 16));
        machine.busy(0, 0);
        EXPECT_EQ(victim(machine, 0), 9u) << "9 * 7 is 15 modulo 16";
    }
}

/* Between two tasks: what waits on the thief itself comes first unless another's is a service time
 * older. Seen to fail without the service time added to what the thief's own has waited. */
TEST(Steal, ACoreWithWorkTakesOnlyWhatHasWaitedAServiceTimeLonger)
{
    for (const char *name : {"steal", "learned"}) {
        Cores machine(name, 2);
        for (uint32_t core : {0u, 1u}) {
            machine.busy(core, 3);
            watch_served(&machine.lines[core], 10000, 10000);
        }
        watch_oldest(&machine.lines[0], 900000);
        watch_oldest(&machine.lines[1], 900000 - 9000);
        EXPECT_EQ(victim(machine, 0), POLICY_NOBODY);
        watch_oldest(&machine.lines[1], 900000 - 11000);
        EXPECT_EQ(victim(machine, 0), 1u);
        EXPECT_EQ(victim(machine, 1), POLICY_NOBODY);
    }
}

TEST(Steal, AnIdleCoreGetsTheTaskBeforeABusyOneWhoseTurnItIs)
{
    Cores machine("steal", 4);
    machine.busy_all(3);
    machine.busy(2, 0);
    unsigned idle = 0;
    for (unsigned i = 0; i < 400; i++)
        idle += machine.choose() == 2;
    EXPECT_GT(idle, 240u) << "four looks find one of four by 1 - 0.75^4";
}
