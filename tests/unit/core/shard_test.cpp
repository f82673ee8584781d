/*
 * shard_test.cpp: core/shard.c: few CPUs are one shard, and a CPU belongs to one.
 */
#include <gtest/gtest.h>

#include "../heap_support.h"

#include "shard_support.h"

TEST(Shard, AProcessOfFewCpusHasOneWhateverTheMachineIs)
{
    for (unsigned cpus = 1; cpus < 2 * SHARD_CPUS_MIN; cpus++) {
        shard_start(0, cpus);
        EXPECT_EQ(shard_count, 1u);
    }
}

/* Seen to fail where the number asked for is taken for the CPU's own. */
TEST(Shard, AnOptionSpreadsCpusByTheirNumbers)
{
    for (unsigned count : {1u, 2u, 3u, 16u}) {
        calm_test::Shards shards(count);
        ASSERT_EQ(shard_count, count);
        for (unsigned cpu : {0u, 1u, 7u, 100u, SHARD_CPUS_MAPPED - 1u}) {
            shards.run_on(cpu);
            EXPECT_EQ(shard_here(), cpu % count);
        }
        shards.run_on(SHARD_CPUS_MAPPED);
        EXPECT_EQ(shard_here(), 0u);
        shards.run_on(UINT32_MAX); /* an area that the kernel keeps no more */
        EXPECT_EQ(shard_here(), 0u);
    }
}

TEST(Shard, AThreadWithoutAnAreaIsInOneToo)
{
    calm_test::Shards shards(2);
    std::thread([] {
        area_joined = nullptr;
        EXPECT_LT(shard_here(), 2u);
    }).join();
}

TEST(Shard, TheNextOnesGoRound)
{
    calm_test::Shards shards(5);
    for (unsigned first = 0; first < 5; first++)
        for (unsigned steps = 0; steps < 5; steps++)
            EXPECT_EQ(shard_after(first, steps), (first + steps) % 5);
}
