/*
 * lock_test.cpp: os/lock.h excludes, sleeps instead of spinning, and loses no wake-up.
 */
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <time.h>

#include "../support.h"

static uint64_t cpu_ms()
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<uint64_t>(used.tv_sec) * 1000 +
           static_cast<uint64_t>(used.tv_nsec / 1000000);
}

/*
 * Two plain words that only the lock keeps equal. Seen to fail with a wait that takes a held lock,
 * and to hang with a release that wakes nobody.
 */
TEST(Lock, ManyThreadsSeeEachOthersWritesWholeAndNoneSleepsForEver)
{
    struct lock lock = {};
    uint64_t left = 0, right = 0;
    std::atomic<bool> is_torn{false};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 6; t++) {
        threads.emplace_back([&] {
            for (unsigned i = 0; i < 20000; i++) {
                lock_acquire(&lock, RANK_SPAN);
                if (left != right)
                    is_torn = true;
                left++;
                if (i % 64 == 0)
                    std::this_thread::yield(); /* lose the processor while holding it: others must
                                                  sleep */
                right++;
                lock_release(&lock, RANK_SPAN);
            }
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_FALSE(is_torn);
    EXPECT_EQ(left, 6u * 20000u);
    EXPECT_EQ(right, left);
    EXPECT_EQ(lock.state, static_cast<uint32_t>(LOCK_FREE));
}

TEST(Lock, ATryTakesAFreeLockAndRefusesAHeldOne)
{
    struct lock lock = {};
    ASSERT_TRUE(lock_try(&lock, RANK_SPAN));
    std::thread([&] { EXPECT_FALSE(lock_try(&lock, RANK_SPAN)); }).join();
    lock_release(&lock, RANK_SPAN);
    ASSERT_TRUE(lock_try(&lock, RANK_SPAN));
    lock_release(&lock, RANK_SPAN);
}

/* Seen to fail with two thousand million looks: the waiter used 300 ms of processor time. */
TEST(Lock, AWaiterSleepsWhileTheHolderIsAway)
{
    struct lock lock = {};
    lock_acquire(&lock, RANK_SPAN);
    uint64_t before = cpu_ms();
    std::thread waiter([&] {
        lock_acquire(&lock, RANK_SPAN);
        lock_release(&lock, RANK_SPAN);
    });
    struct timespec pause = {0, 300000000};
    nanosleep(&pause, nullptr);
    EXPECT_EQ(load(&lock.state, RELAXED), static_cast<uint32_t>(LOCK_WAITED));
    lock_release(&lock, RANK_SPAN);
    waiter.join();
    EXPECT_LT(cpu_ms() - before, 100u);
}

TEST(Lock, AResetFreesALockWhoseHolderDoesNotExistAnyMore)
{
    struct lock lock = {};
    lock_acquire(&lock, RANK_SPAN);
    lock_reset(&lock);
    lock_ranks_held = 0;
    EXPECT_TRUE(lock_try(&lock, RANK_SPAN));
    lock_release(&lock, RANK_SPAN);
}

TEST(LockDeathTest, TakingLocksAgainstTheirRankStopsWithChecks2)
{
    if (CHECKS < 2)
        GTEST_SKIP() << "ranks are kept by CHECKS 2 only";
    struct lock outer = {}, inner = {};
    EXPECT_EXIT(
        {
            lock_acquire(&inner, RANK_SPAN);
            lock_acquire(&outer, RANK_PURGE);
        },
        testing::KilledBySignal(SIGABRT), "internal error");
    lock_acquire(&outer, RANK_PURGE);
    lock_acquire(&inner, RANK_SPAN);
    lock_release(&inner, RANK_SPAN);
    lock_release(&outer, RANK_PURGE);
}
