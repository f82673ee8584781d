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

calm_pool_limits limits_of(std::vector<size_t> sizes, unsigned flags)
{
    std::vector<uint32_t> shares(sizes.size(), uint32_t(100 / sizes.size()));
    shares[0] += 100 % uint32_t(sizes.size());
    PoolConfig config(std::move(sizes), shares, MiB, flags);
    calm_pool_limits limits;
    EXPECT_EQ(calm_pool_bound(config.get(), &limits), 0);
    return limits;
}

/* The figures themselves are held against the object code by the tests bound.*. */
TEST(Bound, EachFeatureOfAConfigurationAddsToTheCostOfWhatItChangesAndToNothingElse)
{
    const std::vector<size_t> many = {16,  32,  48,  64,  80,  96,  112, 128,
                                      144, 160, 176, 192, 208, 224, 240};
    const calm_pool_limits one = limits_of({64}, 0), two = limits_of({64, 128}, 0);
    if (one.cost_code == CALM_EUNCHECKED) {
        EXPECT_EQ(one.alloc.instructions, 0u); /* an instrumented build: bound.stamped has others */
        return;
    }
    const struct {
        const char *what;
        calm_pool_limits less, more;
        bool alloc, aligned, free, remote, drain;
    } steps[] = {
        {"a second class", one, two, false, false, true, true, false},
        {"a large class", two, limits_of({64, 8192}, 0), true, false, false, false, false},
        {"spill", two, limits_of({64, 128}, CALM_POOL_SPILL), true, true, false, false, false},
        {"many classes", two, limits_of(many, 0), true, true, true, false, true},
        {"lock", two, limits_of({64, 128}, CALM_POOL_LOCK), false, false, false, false, false},
        {"spill of one class", one, limits_of({64}, CALM_POOL_SPILL), false, false, false, false,
         false},
    };
    for (const auto &step : steps) {
        const calm_pool_cost *less[] = {&step.less.alloc, &step.less.alloc_aligned, &step.less.free,
                                        &step.less.free_remote, &step.less.drain};
        const calm_pool_cost *more[] = {&step.more.alloc, &step.more.alloc_aligned, &step.more.free,
                                        &step.more.free_remote, &step.more.drain};
        const bool adds[] = {step.alloc, step.aligned, step.free, step.remote, step.drain};
        for (size_t i = 0; i < 5; i++) {
            EXPECT_EQ(more[i]->instructions > less[i]->instructions, adds[i]) << step.what << i;
            EXPECT_GE(more[i]->lines, less[i]->lines) << step.what << i;
            EXPECT_GT(less[i]->instructions, less[i]->branches);
            EXPECT_GT(less[i]->lines, 0u);
        }
    }
}

} // namespace
