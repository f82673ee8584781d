/*
 * depot_tidy_sim_test.cpp: core/depot_tidy.c on a simulated OS.
 */
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "../heap_support.h"

extern "C" {
#include "calmalloc/calmalloc.h"
#include "core/purge_turn.h"
#include "os/sim/sim.h"
}

/* Seen to fail with a thread that waits for the turn, or for a depot, as a trim does. */
TEST(DepotTidySim, AThreadThatEndsWaitsForNobody)
{
    ASSERT_TRUE(heap_start());
    std::vector<void *> blocks;
    for (size_t i = 0; i < 1000; i++)
        blocks.push_back(calm_malloc(100));
    for (void *block : blocks)
        calm_free(block);
    std::atomic<int> step{0};
    std::thread holder([&] {
        ASSERT_TRUE(purge_turn_begin());
        step = 1;
        while (step != 2)
            std::this_thread::yield();
        purge_turn_end(true);
        depot_fork_lock(); /* every depot */
        step = 3;
        while (step != 4)
            std::this_thread::yield();
        depot_fork_unlock();
    });
    for (int held : {1, 3}) {
        while (step != held)
            std::this_thread::yield();
        uint64_t waits = sim_calls(SIM_WAIT);
        depot_tidy_all(false);
        EXPECT_EQ(sim_calls(SIM_WAIT), waits);
        step = held + 1;
    }
    holder.join();
}
