/*
 * ring_test.cpp: exec/ring.h: order, bounds, closing, and nothing lost or doubled among threads.
 */
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

extern "C" {
#include "exec/ring.h"
}

namespace
{

struct Ring {
    explicit Ring(uint32_t capacity) : places(capacity)
    {
        ring_start(&ring, places.data(), capacity);
    }

    ring_result put(uint64_t number)
    {
        return ring_put(&ring, number);
    }

    ring_result get(uint64_t *number)
    {
        return ring_take(&ring, number);
    }

    std::vector<ring_place> places;
    struct ring ring;
};

} // namespace

/* Seen to fail with a take that gives the place the next position instead of the next lap's. */
TEST(Ring, KeepsOrderOverManyLaps)
{
    Ring ring(8);
    uint64_t number = 0, next = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        ASSERT_EQ(ring.put(i), RING_DONE);
        if (i % 3 == 2) {
            while (ring.get(&number) == RING_DONE)
                ASSERT_EQ(number, next++);
        }
    }
    EXPECT_EQ(next, 999u);
    EXPECT_EQ(ring_total(&ring.ring), 1000u);
}

TEST(Ring, IsFullAtItsCapacityAndEmptyAtItsEnd)
{
    Ring ring(4);
    uint64_t number;
    EXPECT_EQ(ring.get(&number), RING_EMPTY);
    for (uint64_t i = 0; i < 4; i++)
        ASSERT_EQ(ring.put(i), RING_DONE);
    EXPECT_EQ(ring.put(4), RING_FULL);
    ASSERT_EQ(ring.get(&number), RING_DONE);
    EXPECT_EQ(ring.put(4), RING_DONE);
}

TEST(Ring, OnceClosedItTakesNothingAndGivesWhatItHas)
{
    Ring ring(4);
    uint64_t number;
    EXPECT_FALSE(ring_is_ready(&ring.ring));
    ASSERT_EQ(ring.put(7), RING_DONE);
    EXPECT_TRUE(ring_is_ready(&ring.ring));
    ring_close(&ring.ring);
    EXPECT_TRUE(ring_is_closed(&ring.ring));
    EXPECT_EQ(ring.put(8), RING_IS_CLOSED);
    EXPECT_EQ(ring.get(&number), RING_DONE);
    EXPECT_EQ(number, 7u);
    EXPECT_EQ(ring.get(&number), RING_IS_CLOSED);
}

/* Seen to fail with a take that stores the head instead of comparing it. */
TEST(Ring, AmongThreadsEachNumberComesOutOnceAndInItsFillersOrder)
{
    enum { FILLERS = 3, TAKERS = 2, EACH = 60000 };
    Ring ring(64);
    std::vector<std::thread> threads;
    std::vector<std::vector<uint64_t>> taken(TAKERS);
    std::atomic<unsigned> filled{0};
    for (uint64_t f = 0; f < FILLERS; f++)
        threads.emplace_back([&, f] {
            for (uint64_t i = 0; i < EACH;)
                if (ring.put(f * EACH + i) == RING_DONE)
                    i++;
                else
                    std::this_thread::yield();
            if (++filled == FILLERS)
                ring_close(&ring.ring);
        });
    for (auto &own : taken)
        threads.emplace_back([&] {
            uint64_t number;
            for (ring_result result; (result = ring.get(&number)) != RING_IS_CLOSED;)
                if (result == RING_DONE)
                    own.push_back(number);
                else
                    std::this_thread::yield();
        });
    for (std::thread &thread : threads)
        thread.join();
    std::vector<unsigned> seen(FILLERS * EACH);
    for (const auto &own : taken) {
        std::vector<uint64_t> last(FILLERS, 0);
        for (uint64_t number : own) {
            seen[number]++;
            ASSERT_GE(number % EACH + 1, last[number / EACH]);
            last[number / EACH] = number % EACH + 1;
        }
    }
    for (unsigned count : seen)
        ASSERT_EQ(count, 1u);
}
