/*
 * remote_test.cpp: site/remote.c. The test writes what another process would, and then asks for
 * memory.
 *
 * Seen to fail with a stop that ends the program's own start, a lease that never ends, and a table
 * of sites that stays diverted.
 */
#include <gtest/gtest.h>

#include "../heap_support.h"

enum { RATE = 1, LEASE_MS = 3600 * 1000, LOOKS = 1000 };

static const void *const site = reinterpret_cast<const void *>(uintptr_t{0x123456});

static void divert()
{
    for (auto &entry : site_table)
        store(&entry, static_cast<uint16_t>(DIVERTED_OFFSET), RELAXED);
}

static bool is_diverted()
{
    return load(&site_table[site_index(site)], RELAXED) < OWN_OFFSET_FIRST;
}

static void request_memory()
{
    heap_free(front_alloc(100, site, nullptr));
}

/* As another process asks; the answer. */
static uint32_t ask(uint64_t rate, uint64_t lease_ms)
{
    store(&remote.rate_bytes, rate, RELAXED);
    store(&remote.lease_ms, lease_ms, RELAXED);
    store(&remote.asked, load(&remote.asked, RELAXED) + 1, RELEASE);
    divert();
    request_memory();
    EXPECT_EQ(load(&remote.answered, ACQUIRE), load(&remote.asked, RELAXED));
    return load(&remote.result, RELAXED);
}

class Remote : public testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_TRUE(heap_start());
        sample_stop();
        ASSERT_FALSE(sample_is_on());
    }
};

TEST_F(Remote, ARequestStartsTheProfilerAndAnotherStopsIt)
{
    EXPECT_EQ(ask(RATE, LEASE_MS), REMOTE_STARTED);
    EXPECT_TRUE(sample_is_on());
    EXPECT_TRUE(is_diverted());
    uint64_t samples = profile_facts().samples;
    request_memory();
    EXPECT_EQ(profile_facts().samples, samples + 1);
    EXPECT_EQ(ask(0, 0), REMOTE_STOPPED);
    EXPECT_FALSE(sample_is_on());
    request_memory();
    EXPECT_FALSE(is_diverted());
    EXPECT_EQ(profile_facts().samples, samples + 1);
}

TEST_F(Remote, EveryFormOfRequestFindsIt)
{
    void *block = front_alloc(100, site, nullptr);
    auto answered_by = [&](auto request) {
        store(&remote.rate_bytes, uint64_t{0}, RELAXED);
        store(&remote.asked, load(&remote.asked, RELAXED) + 1, RELEASE);
        divert();
        void *result = request();
        bool is_answered = load(&remote.answered, ACQUIRE) == load(&remote.asked, RELAXED);
        request_memory();
        EXPECT_FALSE(is_diverted());
        heap_free(result);
        return is_answered;
    };
    EXPECT_TRUE(answered_by([&] { return front_alloc(100, site, nullptr); }));
    EXPECT_TRUE(answered_by([&] { return front_alloc(10000, site, nullptr); }));
    EXPECT_TRUE(answered_by([&] { return front_alloc(100000, site, nullptr); }));
    EXPECT_TRUE(answered_by([&] { return front_zeroed(10, 10, site, nullptr); }));
    EXPECT_TRUE(answered_by([&] { return front_aligned(64, 100, site, nullptr); }));
    EXPECT_TRUE(answered_by([&] { return front_realloc(block, 5000, site, nullptr); }));
}

TEST_F(Remote, ALeaseThatNobodyProlongsEnds)
{
    EXPECT_EQ(ask(RATE, 1), REMOTE_STARTED);
    uint64_t begin = os_clock_ms();
    while (sample_is_on() && os_clock_ms() - begin < 60000)
        for (unsigned i = 0; i < LOOKS; i++)
            request_memory();
    EXPECT_FALSE(sample_is_on());
    EXPECT_FALSE(is_diverted());
}

TEST_F(Remote, ASecondRequestProlongsTheLease)
{
    EXPECT_EQ(ask(RATE, LEASE_MS / 2), REMOTE_STARTED);
    uint64_t until = load(&remote.until_ms, RELAXED);
    EXPECT_EQ(ask(RATE, LEASE_MS), REMOTE_STARTED);
    EXPECT_GE(load(&remote.until_ms, RELAXED), until + LEASE_MS / 2);
    EXPECT_EQ(ask(0, 0), REMOTE_STOPPED);
}

TEST_F(Remote, WhatTheProgramStartedGoesOn)
{
    ASSERT_EQ(sample_start(RATE, 1), SAMPLE_FINE);
    EXPECT_EQ(ask(RATE, 1), REMOTE_WAS_ON);
    EXPECT_EQ(ask(0, 0), REMOTE_STOPPED);
    EXPECT_TRUE(sample_is_on());
    EXPECT_TRUE(is_diverted());
    sample_stop();
    EXPECT_FALSE(is_diverted());
}

TEST_F(Remote, AStartByTheProgramAfterOursIsNotEndedByOurLease)
{
    EXPECT_EQ(ask(RATE, 1), REMOTE_STARTED);
    sample_stop();
    ASSERT_EQ(sample_start(RATE, 1), SAMPLE_FINE);
    uint64_t begin = os_clock_ms();
    while (load(&remote.until_ms, RELAXED) != 0 && os_clock_ms() - begin < 60000)
        for (unsigned i = 0; i < LOOKS; i++)
            request_memory();
    EXPECT_EQ(load(&remote.until_ms, RELAXED), 0u);
    EXPECT_TRUE(sample_is_on());
    sample_stop();
}

TEST_F(Remote, ARateThatIsTooHighIsRefusedAndTheTableIsMended)
{
    EXPECT_EQ(ask(UINT64_MAX, LEASE_MS), REMOTE_BAD_RATE);
    EXPECT_FALSE(sample_is_on());
    request_memory();
    EXPECT_FALSE(is_diverted());
}

/* The other process leaves a request behind, in case that it diverted the table too late. */
TEST_F(Remote, ATableThatWasDivertedAfterTheAnswerIsMendedByTheRequestLeftBehind)
{
    EXPECT_EQ(ask(RATE, LEASE_MS), REMOTE_STARTED);
    EXPECT_EQ(ask(0, 0), REMOTE_STOPPED);
    EXPECT_FALSE(is_diverted());
    divert();
    store(&remote.asked, load(&remote.asked, RELAXED) + 1, RELEASE);
    request_memory();
    EXPECT_FALSE(is_diverted());
}

TEST_F(Remote, ThreadsThatSeeOneRequestAnswerItOnce)
{
    for (unsigned round = 0; round < 200; round++) {
        store(&remote.rate_bytes, uint64_t{RATE}, RELAXED);
        store(&remote.lease_ms, uint64_t{LEASE_MS}, RELAXED);
        uint32_t starts = sample_starts();
        std::atomic<bool> is_go{false};
        std::vector<std::thread> threads;
        for (unsigned i = 0; i < 4; i++)
            threads.emplace_back([&] {
                while (!is_go)
                    std::this_thread::yield();
                request_memory();
            });
        store(&remote.asked, load(&remote.asked, RELAXED) + 1, RELEASE);
        divert();
        is_go = true;
        for (auto &thread : threads)
            thread.join();
        EXPECT_EQ(load(&remote.answered, RELAXED), load(&remote.asked, RELAXED));
        EXPECT_EQ(load(&remote.result, RELAXED), uint32_t{REMOTE_STARTED});
        EXPECT_EQ(sample_starts(), starts + 1);
        ASSERT_EQ(ask(0, 0), REMOTE_STOPPED);
    }
}
