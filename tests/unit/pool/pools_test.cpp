/*
 * pools_test.cpp: pool/pools.c: addresses find their pool, while it is there.
 */
#include <gtest/gtest.h>

#include "../pool_support.h"

using calm_test::Pool;
using calm_test::PoolConfig;

namespace
{

TEST(Pools, AnAddressFindsItsPoolWhileItIsThere)
{
    PoolConfig config({64}, {100}, 256 * 1024);
    Pool first(config);
    void *gone;
    {
        Pool second(config), third(config);
        void *block = calm_pool_alloc(second, 64);
        gone = calm_pool_alloc(third, 64);
        EXPECT_EQ(pools_find(block), static_cast<calm_pool *>(second));
        EXPECT_EQ(pools_find(gone), static_cast<calm_pool *>(third));
        EXPECT_EQ(pools_find(calm_pool_alloc(first, 64)), static_cast<calm_pool *>(first));
        EXPECT_EQ(pools_find(&gone), nullptr);
        EXPECT_EQ(pools_find(static_cast<calm_pool *>(first)), nullptr); /* bookkeeping */
    }
    EXPECT_EQ(pools_find(gone), nullptr);
    EXPECT_EQ(pools_find(nullptr), nullptr);
}

TEST(Pools, PlacesAreUsedAgain)
{
    uint32_t used = 0;
    for (int i = 0; i < 1000; i++) {
        Pool pool({{64}, {100}, 64 * 1024});
        ASSERT_EQ(pool.error, 0);
        ASSERT_EQ(pools_find(calm_pool_alloc(pool, 64)), static_cast<calm_pool *>(pool));
        used = i == 0 ? load(&pools_used, RELAXED) : used;
    }
    EXPECT_EQ(load(&pools_used, RELAXED), used);
}

/* One thread's pool is found all the time while another makes and destroys its own. */
TEST(Pools, ChangesOfOthersHideNothing)
{
    Pool pool({{64}, {100}, 64 * 1024});
    void *block = calm_pool_alloc(pool, 64);
    int on_stack;
    std::atomic<bool> is_done{false};
    std::thread other([&] {
        for (int i = 0; i < 2000; i++) {
            Pool mine({{64}, {100}, 64 * 1024});
            EXPECT_EQ(mine.error, 0);
        }
        is_done = true;
    });
    while (!is_done) {
        EXPECT_EQ(pools_find(block), static_cast<calm_pool *>(pool));
        EXPECT_EQ(pools_find(&on_stack), nullptr);
    }
    other.join();
}

} // namespace
