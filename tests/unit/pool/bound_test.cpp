/*
 * bound_test.cpp: pool/bound.c: what a configuration comes to, against the pool that it makes.
 */
#include <gtest/gtest.h>

#include "../pool_support.h"

using calm_test::PoolConfig;

namespace
{

constexpr size_t MiB = 1 << 20;

TEST(Bound, BytesAddUpAndLittleIsLost)
{
    for (size_t size : {16, 32, 64, 256, 1024, 4096}) {
        PoolConfig config({size}, {100}, 64 * MiB);
        calm_pool_limits limits;
        ASSERT_EQ(calm_pool_bound(config.get(), &limits), 0);
        EXPECT_EQ(limits.usable_bytes + limits.lost_bytes, 64 * MiB);
        EXPECT_EQ(limits.usable_bytes, limits.blocks[0] * size);
        EXPECT_LT(limits.lost_bytes, limits.usable_bytes * 2 / 100) << size;
        calm_test::Pool pool(config);
        EXPECT_EQ(calm_pool_watch_free(calm_pool_watch(pool), 0), limits.blocks[0]);
    }
}

TEST(Bound, AShareIsAShareOfTheBytes)
{
    PoolConfig config({64, 1024}, {25, 75}, 16 * MiB);
    calm_pool_limits limits;
    ASSERT_EQ(calm_pool_bound(config.get(), &limits), 0);
    EXPECT_NEAR(limits.blocks[0] * 64.0 / (16 * MiB), 0.25, 0.005);
    EXPECT_NEAR(limits.blocks[1] * 1024.0 / (16 * MiB), 0.75, 0.005);
}

/* The figures themselves are held against the object code by the tests bound.*. */
TEST(Bound, EachOperationHasACostThatNoConfigurationChanges)
{
    const size_t sizes[] = {8, 64, 4096};
    const uint32_t shares[] = {20, 30, 50};
    calm_pool_config plain = {sizes, shares, 3, 1 << 20, 0, nullptr, 0};
    calm_pool_config other = {sizes + 1, shares + 2, 1, 2 << 20, CALM_POOL_LAZY, nullptr, 128};
    const uint32_t all[] = {100};
    other.percent = all;
    calm_pool_limits limits, limits_other;
    ASSERT_EQ(calm_pool_bound(&plain, &limits), 0);
    ASSERT_EQ(calm_pool_bound(&other, &limits_other), 0);
    const calm_pool_cost *costs[] = {&limits.alloc, &limits.alloc_aligned, &limits.free,
                                     &limits.free_remote, &limits.drain};
    for (const calm_pool_cost *cost : costs) {
        EXPECT_GT(cost->instructions, cost->branches);
        EXPECT_GT(cost->lines, 0u);
        EXPECT_GT(cost->branches, 0u);
    }
    EXPECT_EQ(limits.alloc.instructions, limits_other.alloc.instructions);
    EXPECT_GE(limits.alloc_aligned.instructions, limits.drain.instructions);
}

} // namespace
