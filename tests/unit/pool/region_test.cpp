/*
 * region_test.cpp: pool/region.c: blocks, marks, and what is refused.
 */
#include <gtest/gtest.h>

#include "../pool_support.h"

namespace
{

struct RegionTest : testing::Test {
    alignas(64) char memory[1000];
    calm_region region;

    void SetUp() override
    {
        ASSERT_EQ(calm_region_init(&region, memory, sizeof memory), 0);
    }
};

TEST_F(RegionTest, BlocksAreAlignedInsideAndApart)
{
    char *last = memory;
    for (size_t align = 1; align <= 64; align *= 2) {
        auto *block = static_cast<char *>(calm_region_alloc(&region, 10, align));
        ASSERT_NE(block, nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % align, 0u);
        EXPECT_GE(block, last);
        last = block + 10;
    }
    EXPECT_LE(last, memory + sizeof memory);
}

TEST_F(RegionTest, AllOfItCanBeUsedAndNoMore)
{
    EXPECT_NE(calm_region_alloc(&region, 1000, 1), nullptr);
    EXPECT_EQ(calm_region_alloc(&region, 1, 1), nullptr);
    EXPECT_NE(calm_region_alloc(&region, 0, 1), nullptr);
    EXPECT_EQ(calm_region_release(&region, 0), 0);
    EXPECT_EQ(calm_region_alloc(&region, 1001, 1), nullptr);
    EXPECT_EQ(calm_region_alloc(&region, SIZE_MAX, 1), nullptr);
    EXPECT_EQ(calm_region_alloc(&region, SIZE_MAX - 10, 64), nullptr);
}

TEST_F(RegionTest, AnAlignmentThatIsNoPowerOfTwoGivesNull)
{
    EXPECT_EQ(calm_region_alloc(&region, 1, 0), nullptr);
    EXPECT_EQ(calm_region_alloc(&region, 1, 24), nullptr);
    EXPECT_EQ(calm_region_alloc(&region, 1, static_cast<size_t>(1) << 63), nullptr);
    EXPECT_EQ(region.used_bytes, 0u);
}

TEST_F(RegionTest, AMarkGivesBackWhatCameAfterIt)
{
    calm_region_alloc(&region, 100, 1);
    calm_region_mark mark = calm_region_top(&region);
    void *block = calm_region_alloc(&region, 200, 1);
    EXPECT_EQ(calm_region_release(&region, mark), 0);
    EXPECT_EQ(calm_region_alloc(&region, 200, 1), block);
    EXPECT_EQ(region.most_bytes, 300u);
}

TEST_F(RegionTest, AMarkAboveTheTopIsRefused)
{
    calm_region_alloc(&region, 100, 1);
    calm_region_mark mark = calm_region_top(&region);
    ASSERT_EQ(calm_region_release(&region, 0), 0);
    EXPECT_EQ(calm_region_release(&region, mark), CALM_EMARK);
    EXPECT_EQ(region.used_bytes, 0u);
}

TEST_F(RegionTest, BadMemoryIsRefused)
{
    calm_region other;
    EXPECT_EQ(calm_region_init(nullptr, memory, 10), CALM_ENULL);
    EXPECT_EQ(calm_region_init(&other, nullptr, 10), CALM_ENULL);
    EXPECT_EQ(calm_region_init(&other, memory, SIZE_MAX), CALM_EMEMORY_END);
}

TEST_F(RegionTest, LivesInAPoolsBlock)
{
    calm_test::Pool pool({{4096}, {100}, 1 << 20});
    ASSERT_EQ(pool.error, 0);
    void *block = calm_pool_alloc(pool, 4096);
    ASSERT_EQ(calm_region_init(&region, block, 4096), 0);
    EXPECT_EQ(calm_region_alloc(&region, 4096, 4096), block);
    EXPECT_EQ(calm_pool_free(pool, block), 0);
}

} // namespace
