/*
 * pooled_test.cpp: core/pooled.c: the ordinary names take pools' blocks.
 */
#include <gtest/gtest.h>

#include "../heap_support.h"
#include "../pool_support.h"

using calm_test::Pool;
using calm_test::PoolConfig;

namespace
{

constexpr size_t MiB = 1 << 20;

struct PooledTest : testing::Test {
    Pool pool{{{64, 1024}, {50, 50}, MiB}};
    struct misuse_policy before = misuse_policy;

    void SetUp() override
    {
        ASSERT_EQ(pool.error, 0);
    }
    void TearDown() override
    {
        misuse_policy = before;
        calm_test::drain_all(pool);
        EXPECT_EQ(pool_verify(pool), nullptr);
    }
    uint32_t free_blocks(size_t index)
    {
        calm_test::drain_all(pool);
        return calm_pool_watch_free(calm_pool_watch(pool), index);
    }
};

TEST_F(PooledTest, FreeGivesTheBlockBackToItsPool)
{
    void *block = calm_pool_alloc(pool, 64), *second = calm_pool_alloc(pool, 64);
    EXPECT_EQ(free_blocks(0), pool.limits.blocks[0] - 2);
    calm_free(block);
    std::thread([&] { calm_free_sized(second, 64); }).join();
    EXPECT_EQ(free_blocks(0), pool.limits.blocks[0]);
}

TEST_F(PooledTest, UsableSizeIsThePools)
{
    void *block = calm_pool_alloc(pool, 100);
    EXPECT_EQ(calm_usable_size(block), 1024u);
    calm_free(block);
}

TEST_F(PooledTest, ReallocStaysOrMovesToTheHeap)
{
    auto *block = static_cast<char *>(calm_pool_alloc(pool, 1024));
    memset(block, 7, 1024);
    EXPECT_EQ(calm_realloc(block, 1000), block);
    EXPECT_EQ(calm_realloc(block, 10), block);
    auto *moved = static_cast<char *>(calm_realloc(block, 3000));
    ASSERT_NE(moved, nullptr);
    EXPECT_FALSE(calm_pool_owns(pool, moved));
    EXPECT_EQ(std::count(moved, moved + 1024, 7), 1024);
    EXPECT_EQ(free_blocks(1), pool.limits.blocks[1]);
    calm_free(moved);
    void *other = calm_pool_alloc(pool, 64);
    EXPECT_EQ(calm_realloc(other, SIZE_MAX), nullptr);
    EXPECT_EQ(calm_realloc(other, 0), nullptr);
    EXPECT_EQ(free_blocks(0), pool.limits.blocks[0]);
}

TEST_F(PooledTest, MisuseIsCountedOrFatal)
{
    auto *block = static_cast<char *>(calm_pool_alloc(pool, 64));
    misuse_policy.stops_on_misuse = false;
    uint64_t misuses = misuse_count();
    calm_free(block + 8);
    EXPECT_EQ(calm_usable_size(block + 1), 0u);
    EXPECT_EQ(calm_realloc(block + 8, 10), nullptr);
    calm_free(block);
    calm_free(block);
    EXPECT_EQ(calm_realloc(block, 2000), nullptr);
    EXPECT_EQ(misuse_count() - misuses, 5u);
}

TEST_F(PooledTest, MisuseStopsTheProgramWithItsSentence)
{
    auto *block = static_cast<char *>(calm_pool_alloc(pool, 64));
    misuse_policy.stops_on_misuse = true;
    EXPECT_DEATH(calm_free(block + 8), "calmalloc: free of 0x[0-9a-f]+, of a pool: the address is "
                                       "inside a block and not aligned");
    calm_free(block);
    EXPECT_DEATH(calm_free(block), "of a pool: the block is already free");
}

TEST_F(PooledTest, ADestroyedPoolsAddressesAreForeignAgain)
{
    misuse_policy.stops_on_foreign = false;
    void *block;
    {
        Pool gone({{64}, {100}, MiB});
        block = calm_pool_alloc(gone, 64);
    }
    uint64_t foreigns = misuse_foreign_count();
    calm_free(block);
    EXPECT_EQ(misuse_foreign_count() - foreigns, 1u);
}

/* A pool in memory of the heap's own: a slab's block, and a large one. */
TEST_F(PooledTest, APoolMayLieInABlockOfTheHeap)
{
    for (size_t bytes : {size_t{24} * 1024, MiB}) {
        PoolConfig config({64, 256}, {50, 50}, bytes);
        config.plain.memory = calm_aligned_alloc(64, bytes);
        {
            Pool inside(config);
            ASSERT_EQ(inside.error, 0);
            std::vector<void *> blocks;
            while (void *block = calm_pool_alloc(inside, 64))
                blocks.push_back(block);
            for (size_t i = 0; i < blocks.size(); i++) {
                EXPECT_EQ(calm_usable_size(blocks[i]), 64u);
                i % 2 ? calm_free(blocks[i]) : calm_free_sized(blocks[i], 64);
            }
            calm_test::drain_all(inside);
            EXPECT_EQ(calm_pool_watch_free(calm_pool_watch(inside), 0), blocks.size());
        }
        calm_free(config.plain.memory);
    }
    EXPECT_EQ(heap_verify(), nullptr);
}

} // namespace
