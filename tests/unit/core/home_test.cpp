/*
 * home_test.cpp: core/home.c: blocks that share a cache line belong to threads of one home.
 */
#include <gtest/gtest.h>

#include <set>

#include "../heap_support.h"

static const unsigned homes = std::min(2u * std::max(1u, std::thread::hardware_concurrency()),
                                       static_cast<unsigned>(HOME_LIMIT));

/* Seen to fail with a table that adds the home for every class. */
TEST(Home, IsPartOfTheBinWhereBlocksShareLinesAndNowhereElse)
{
    ASSERT_TRUE(heap_start());
    for (unsigned home = 0; home < homes; home++) {
        home_enter(home);
        for (size_t bytes = 0; bytes <= MEDIUM_MAX; bytes++) {
            size_t block = class_facts[class_of(bytes)].bytes;
            bool shares = block < 128 && block % 64 != 0;
            unsigned bin = home_offset(bytes) / ENTRY_BYTES;
            ASSERT_EQ(bin_class(bin), class_of(bytes)) << bytes;
            ASSERT_EQ(bin_row(bin), shares ? home * COHORT_LIMIT : 0) << bytes;
            ASSERT_EQ(home_class_offset(class_of(bytes)), home_offset(bytes)) << bytes;
        }
    }
    home_enter(0);
}

/* Seen to fail with home_next() that always says 0. */
TEST(Home, ThreadsThatRunAtTheSameTimeGetDifferentOnes)
{
    ASSERT_TRUE(heap_start());
    std::set<unsigned> given;
    for (unsigned i = 0; i < homes; i++)
        given.insert(home_next());
    EXPECT_EQ(given.size(), homes);
    EXPECT_EQ(*given.rbegin(), homes - 1);
}

static std::set<uintptr_t> lines_of(const std::vector<void *> &blocks)
{
    std::set<uintptr_t> lines;
    for (void *block : blocks)
        lines.insert(reinterpret_cast<uintptr_t>(block) / CACHE_LINE_BYTES);
    return lines;
}

/* What `writer` gets after it freed `gifts`, allocated from a home of its own. */
static std::vector<void *> replaced(const std::vector<void *> &gifts, unsigned home, size_t bytes)
{
    std::vector<void *> mine;
    std::thread([&] {
        calm_free(calm_malloc(bytes)); /* has a cache, or its core's, and a home from now on */
        home_enter(home);
        for (void *gift : gifts)
            calm_free(gift);
        for (size_t i = 0; i < gifts.size(); i++)
            mine.push_back(calm_malloc(bytes));
    }).join();
    return mine;
}

/* Seen to fail with class_has_homes() that is false for all classes. */
TEST(Home, TwoThreadsThatFreeOneThreadsBlocksAndAllocateAgainShareNoLine)
{
    if (homes < 3)
        GTEST_SKIP() << "one CPU: nobody runs at the same time";
    for (size_t bytes : {8, 16, 32, 48, 80, 96, 112}) {
        home_enter(0);
        std::vector<void *> gifts[2];
        for (unsigned i = 0; i < 64; i++)
            gifts[i % 2].push_back(calm_malloc(bytes));
        std::vector<void *> one = replaced(gifts[0], 1, bytes), two = replaced(gifts[1], 2, bytes);
        std::set<uintptr_t> others = lines_of(two);
        for (uintptr_t line : lines_of(one))
            EXPECT_EQ(others.count(line), 0u) << bytes;
        for (const std::vector<void *> &blocks : {one, two})
            for (void *block : blocks)
                calm_free(block);
    }
    EXPECT_EQ(heap_verify(), nullptr);
}

/* Seen to fail with lender_for() that never asks another home. */
TEST(Home, FeedsAnotherOnceMostOfManySlabsLieFree)
{
    if (homes < 2)
        GTEST_SKIP() << "one CPU: one home";
    constexpr size_t BYTES = 112;
    const size_t a_slab = class_facts[class_of(BYTES)].capacity;
    home_enter(0);
    std::vector<void *> blocks;
    for (size_t i = 0; i < 100 * a_slab; i++)
        blocks.push_back(calm_malloc(BYTES));
    for (size_t i = 0; i < blocks.size(); i++)
        if (i % a_slab != 0)
            calm_free(blocks[i]);
    struct calm_stats before, after;
    calm_stats_read(&before);
    home_enter(1);
    std::vector<void *> others;
    for (size_t i = 0; i < 30 * a_slab; i++)
        others.push_back(calm_malloc(BYTES));
    calm_stats_read(&after);
    EXPECT_LT(after.active_bytes, before.active_bytes + 10 * CHUNK_BYTES);
    home_enter(0);
    for (size_t i = 0; i < blocks.size(); i += a_slab)
        calm_free(blocks[i]);
    for (void *block : others)
        calm_free(block);
    EXPECT_EQ(heap_verify(), nullptr);
}
