/*
 * owners_test.cpp: a build with CALM_CHECKS=2 stops where two threads use a pool as its owner at
 * once, and nowhere else.
 */
#include <calmalloc/pool.h>

#include <csignal>
#include <gtest/gtest.h>
#include <mutex>
#include <thread>

namespace
{

calm_pool *made()
{
    const size_t sizes[] = {64};
    const uint32_t blocks[] = {1000};
    calm_pool_config config = {};
    config.block_bytes = sizes;
    config.blocks = blocks;
    config.classes = 1;
    calm_pool *pool = nullptr;
    EXPECT_EQ(calm_pool_create(&config, &pool), 0);
    return pool;
}

void use(calm_pool *pool, std::mutex *one_at_a_time)
{
    for (unsigned i = 0; i < 200000; i++) {
        if (one_at_a_time != nullptr)
            one_at_a_time->lock();
        void *block = calm_pool_alloc(pool, 64);
        if (i % 1000 == 0)
            calm_pool_drain(pool);
        calm_pool_free(pool, block);
        if (one_at_a_time != nullptr)
            one_at_a_time->unlock();
    }
}

void use_from_two(std::mutex *one_at_a_time)
{
    calm_pool *pool = made();
    std::thread other([&] { use(pool, one_at_a_time); });
    use(pool, one_at_a_time);
    other.join();
    calm_pool_destroy(pool);
}

/* Seen to fail with an owner_leave() that does nothing, and with a remote free taken for an owner's
 * call. */
TEST(Owners, WhoSynchroniseAndWhoFreesRemotelyGoOn)
{
    std::mutex one_at_a_time;
    use_from_two(&one_at_a_time);
    calm_pool *pool = made();
    void *blocks[500];
    for (void *&block : blocks)
        block = calm_pool_alloc(pool, 64);
    std::thread other([&] {
        for (void *block : blocks)
            EXPECT_EQ(calm_pool_free_remote(pool, block), 0);
    });
    use(pool, nullptr);
    other.join();
    calm_pool_destroy(pool);
}

/* Seen to fail with CALM_CHECKS=1. */
TEST(OwnersDeathTest, TwoAtOnceStopTheProgramWithASentence)
{
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_EXIT(use_from_two(nullptr), testing::KilledBySignal(SIGABRT),
                "^calmalloc: two threads allocate from one pool, or free as its owner, at once; "
                "give each a pool, or free by calm_pool_free_remote\n");
}

} // namespace
