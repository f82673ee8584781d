/*
 * pool_threads_test.cpp: pool/pool.c with several threads: nothing is lost, nothing is handed out
 * twice, and of two frees at once one is told.
 */
#include <gtest/gtest.h>

#include "../pool_support.h"

using calm_test::Pool;
using calm_test::PoolConfig;

namespace
{

/* The owner hands out blocks, threads take them from slots, check what is written in them, and free
 * them. Each block carries a number that only its holder knows. */
TEST(PoolThreads, RemoteFreesLoseNothingAndGiveNothingTwice)
{
    constexpr size_t freers = 3, remote_wanted = 30000;
    Pool pool({{16, 64, 200}, {30, 30, 40}, 64 * 1024});
    std::vector<void *> mail(64); /* blocks on their way to whoever frees them */
    std::atomic<bool> is_done{false};
    std::atomic<size_t> freed{0};
    std::vector<std::thread> threads;
    for (size_t t = 0; t < freers; t++)
        threads.emplace_back([&, t] {
            calm_test::Random random(t);
            while (!is_done) {
                void *block = exchange(&mail[random.below(mail.size())],
                                       static_cast<void *>(nullptr), ACQ_REL);
                if (block == nullptr)
                    continue;
                auto *words = static_cast<uintptr_t *>(block);
                EXPECT_EQ(words[0], reinterpret_cast<uintptr_t>(block));
                EXPECT_EQ(words[1], ~words[0]);
                words[0] = words[1] = 0;
                EXPECT_EQ(calm_pool_free_remote(pool, block), 0);
                freed++;
            }
        });
    calm_test::Random random(99);
    while (freed < remote_wanted) {
        auto *words = static_cast<uintptr_t *>(calm_pool_alloc(pool, 16 + random.below(180)));
        if (words == nullptr)
            continue;
        words[0] = reinterpret_cast<uintptr_t>(words);
        words[1] = ~words[0];
        void *before = exchange(&mail[random.below(mail.size())], static_cast<void *>(words),
                                ACQ_REL);
        if (before != nullptr) {
            ASSERT_EQ(calm_pool_free(pool, before), 0);
        }
    }
    is_done = true;
    for (std::thread &thread : threads)
        thread.join();
    for (void *block : mail)
        EXPECT_EQ(calm_pool_free(pool, block), 0);
    calm_test::drain_all(pool);
    EXPECT_EQ(pool_verify(pool), nullptr);
    for (size_t i = 0; i < 3; i++)
        EXPECT_EQ(calm_pool_watch_free(calm_pool_watch(pool), i), pool.limits.blocks[i]);
}

/* Two threads free the same blocks in the same order; for each block exactly one succeeds. */
void free_all_twice(bool is_owner_one_of_them)
{
    Pool pool({{32}, {100}, 512 * 1024});
    std::vector<void *> blocks;
    while (void *block = calm_pool_alloc(pool, 32))
        blocks.push_back(block);
    EXPECT_EQ(calm_pool_free_remote(pool, nullptr), 0); /* announced: the first frees count, too */
    std::atomic<int> ready{0};
    std::atomic<size_t> freed{0}, told{0};
    auto run = [&](int (*release)(calm_pool *, void *)) {
        ready++;
        while (ready < 2)
            std::this_thread::yield();
        for (void *block : blocks) {
            int error = release(pool, block);
            EXPECT_TRUE(error == 0 || error == CALM_EDOUBLE);
            (error == 0 ? freed : told)++;
        }
    };
    std::thread other(run, calm_pool_free_remote);
    run(is_owner_one_of_them ? calm_pool_free : calm_pool_free_remote);
    other.join();
    EXPECT_EQ(freed, blocks.size());
    EXPECT_EQ(told, blocks.size());
    calm_test::drain_all(pool);
    EXPECT_EQ(pool_verify(pool), nullptr);
    EXPECT_EQ(calm_pool_watch_free(calm_pool_watch(pool), 0), blocks.size());
}

TEST(PoolThreads, OfTwoRemoteFreesOfABlockOneIsTold)
{
    free_all_twice(false);
}

TEST(PoolThreads, OfARemoteAndTheOwnersFreeOneIsTold)
{
    free_all_twice(true);
}

TEST(PoolThreads, TheWatchNeverSaysMoreThanThereIs)
{
    Pool pool({{64}, {100}, 64 * 1024});
    const calm_pool_occupancy *watch = calm_pool_watch(pool);
    std::atomic<bool> is_done{false};
    std::thread reader([&] {
        while (!is_done) {
            EXPECT_LE(calm_pool_watch_free(watch, 0), pool.limits.blocks[0]);
            EXPECT_LE(calm_pool_watch_bytes(watch), pool.limits.blocks[0] * 64ull);
            EXPECT_EQ(calm_pool_watch_bytes(watch) % 64, 0u);
        }
    });
    for (int round = 0; round < 100; round++) {
        std::vector<void *> blocks;
        while (void *block = calm_pool_alloc(pool, 64))
            blocks.push_back(block);
        for (void *block : blocks) {
            ASSERT_EQ(calm_pool_free(pool, block), 0);
        }
    }
    is_done = true;
    reader.join();
}

} // namespace
