/*
 * stats_test.cpp: pool/stats.c: figures, and that each invariant's walk finds it broken.
 */
#include <gtest/gtest.h>

#include "../pool_support.h"

using calm_test::Pool;

namespace
{

TEST(Stats, SayWhatHappened)
{
    Pool pool({{20, 4096}, {50, 50}, 1 << 20, CALM_POOL_SPILL});
    void *first = calm_pool_alloc(pool, 20), *second = calm_pool_alloc(pool, 20);
    ASSERT_EQ(calm_pool_free(pool, first), 0);
    ASSERT_EQ(calm_pool_free_remote(pool, second), 0);
    EXPECT_EQ(calm_pool_free(pool, second), CALM_EDOUBLE);
    EXPECT_EQ(calm_pool_free_remote(pool, second), CALM_EDOUBLE);
    EXPECT_EQ(calm_pool_alloc(pool, 5000), nullptr);
    calm_test::drain_all(pool);
    calm_pool_stats stats;
    calm_pool_stats_read(pool, &stats);
    EXPECT_EQ(stats.classes, 2u);
    EXPECT_EQ(stats.failed, 1u);
    EXPECT_EQ(stats.misuses, 2u);
    EXPECT_EQ(stats.spills, 0u);
    EXPECT_EQ(stats.by_class[0].block_bytes, 20u);
    EXPECT_EQ(stats.by_class[0].stride_bytes, 24u);
    EXPECT_EQ(stats.by_class[0].blocks, pool.limits.blocks[0]);
    EXPECT_EQ(stats.by_class[0].free_blocks, pool.limits.blocks[0]);
    EXPECT_EQ(stats.by_class[0].least_free, pool.limits.blocks[0] - 2);
    EXPECT_EQ(stats.by_class[0].allocs, 2u);
    EXPECT_EQ(stats.by_class[0].remote_frees, 1u);
    EXPECT_EQ(stats.by_class[1].allocs, 0u);
}

TEST(Verify, FindsEachInvariantBroken)
{
    Pool owner({{64}, {100}, 1 << 20});
    calm_pool *pool = owner;
    struct pool_class *one = &pool->classes[0];
    pool_word *last = &one->free[class_words(one) - 1];
    ASSERT_NE(one->blocks % 64, 0u);
    std::vector<void *> blocks;
    while (void *block = calm_pool_alloc(pool, 64))
        blocks.push_back(block);
    for (void *block : blocks)
        ASSERT_EQ(calm_pool_free(pool, block), 0);
    calm_pool_alloc(pool, 64);
    ASSERT_EQ(pool_verify(pool), nullptr);
    auto broken = [&] { return std::string(pool_verify(pool)).substr(0, 2); };

    uint32_t begun = load(&one->begun, RELAXED);
    for (uint32_t wrong : {begun - 1, begun + 1}) {
        store(&one->begun, wrong, RELAXED);
        EXPECT_EQ(broken(), "P0");
    }
    store(&one->begun, begun, RELAXED);

    uint64_t beyond = uint64_t(1) << 63;
    for (pool_word *word : {last, word_freed(one, last)}) {
        store(word, load(word, RELAXED) ^ beyond, RELAXED);
        EXPECT_EQ(broken(), "P1");
        store(word, load(word, RELAXED) ^ beyond, RELAXED);
    }

    uint64_t free = load(&one->free[5], RELAXED);
    store(&one->free[5], uint64_t(0), RELAXED);
    EXPECT_EQ(broken(), "P2");
    store(&one->free[5], free, RELAXED);
    one->near[0] ^= 32;
    EXPECT_EQ(broken(), "P2");
    one->near[0] ^= 32;

    pool->watch.known.blocks[0]--;
    EXPECT_EQ(broken(), "P3");
    pool->watch.known.blocks[0] += 2;
    EXPECT_EQ(broken(), "P3");
    pool->watch.known.blocks[0]--;

    one->hot = 1;
    EXPECT_EQ(broken(), "P4");
    one->hot = 0;
    one->hot_word++;
    EXPECT_EQ(broken(), "P4");
    one->hot_word--;
    one->hot_start += 64;
    EXPECT_EQ(broken(), "P4");
    one->hot_start -= 64;

    one->root ^= 1;
    EXPECT_EQ(broken(), "L1");
    one->root ^= 1;

    pool->latest.word ^= 4;
    EXPECT_EQ(broken(), "P6");
    pool->latest.word ^= 4;
    EXPECT_EQ(pool_verify(pool), nullptr);
    ASSERT_EQ(calm_pool_free(pool, pool->latest.block), 0);
    ASSERT_EQ(pool_verify(pool), nullptr);
    pool->latest.back = blocks[1];
    EXPECT_EQ(broken(), "P6");
}

TEST(Verify, FindsACodedWatchLineThatSaysMoreThanIsFree)
{
    std::vector<size_t> sizes;
    for (size_t i = 0; i < 20; i++)
        sizes.push_back(16 + 16 * i);
    Pool made({sizes, std::vector<uint32_t>(20, 5), 1 << 20});
    struct calm_pool *pool = made;
    ASSERT_EQ(pool_verify(pool), nullptr);
    pool->watch.known.code[0]++;
    ASSERT_NE(pool_verify(pool), nullptr);
    EXPECT_EQ(std::string(pool_verify(pool)).substr(0, 2), "P5");
    pool->watch.known.code[0]--;
    EXPECT_EQ(pool_verify(pool), nullptr);
}

} // namespace
