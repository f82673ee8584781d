/*
 * extent_sim_test.cpp: what mem/extent.c reserves where the kernel chooses the place.
 */
#include <gtest/gtest.h>

extern "C" {
#include "mem/extent.h"
#include "os/sim/sim.h"
}

enum : size_t { MIB = 1024 * 1024, ROOM = 4096 * MIB };

/* The process has `space` bytes to reserve. */
static size_t most_within(size_t space)
{
    struct extent extent;
    struct extent_plan plan = {65536, MIB, 2 * ROOM, ROOM, true, nullptr};
    sim_fail_nth(1); /* no place with room behind it */
    sim_limit_reserved(space);
    int error = extent_make(&extent, &plan);
    sim_recover();
    if (error != 0)
        return 0;
    size_t most = extent.most;
    EXPECT_GE(extent.committed, MIB);
    extent_release(&extent);
    return most;
}

/* As for a second copy of the heap, and for stacks of threads. Seen to fail with one that took the
 * most it could have: 3.2 of 4 GiB under an emulator, where no thread could be made any more. */
TEST(ExtentInLittleSpace, TakesHalfOfWhatCanBeHad)
{
    EXPECT_EQ(most_within(SIZE_MAX), ROOM);
    EXPECT_EQ(most_within(ROOM - MIB), ROOM / 4);
    EXPECT_EQ(most_within(1000 * MIB), 256 * MIB);
    EXPECT_EQ(most_within(2 * MIB), MIB) << "what is needed at first";
    EXPECT_EQ(most_within(MIB / 2), 0u);
}
