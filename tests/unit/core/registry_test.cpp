/*
 * registry_test.cpp: core/registry.c makes caches, knows them all, and makes them usable again.
 */
#include <gtest/gtest.h>

#include "../heap_support.h"

static size_t times_known(const struct cache *wanted)
{
    size_t times = 0;
    for (const struct cache *cache = registry_newest(); cache != nullptr; cache = cache->below)
        times += cache == wanted;
    return times;
}

TEST(Registry, ANewCacheIsEmptyOwnedAndKnown)
{
    ASSERT_TRUE(heap_start());
    for (bool is_for_cores : {false, true}) {
        struct cache *cache = registry_make(is_for_cores);
        ASSERT_NE(cache, nullptr);
        EXPECT_EQ(cache->is_for_cores, is_for_cores);
        EXPECT_GE(cache->state, static_cast<unsigned>(CACHE_OWNED));
        EXPECT_FALSE(cache_has_arrays(cache));
        EXPECT_EQ(times_known(cache), 1u);
    }
}

/* Seen to fail with numbers that are not counted up. */
TEST(Registry, CachesThatAreMadeAtTheSameTimeAreAllKnownByDifferentNumbers)
{
    enum { THREADS = 4, EACH = 200 };
    ASSERT_TRUE(heap_start());
    std::vector<struct cache *> made(THREADS * EACH);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < THREADS; t++)
        threads.emplace_back([&, t] {
            for (size_t i = 0; i < EACH; i++)
                made[t * EACH + i] = registry_make(true);
        });
    for (std::thread &thread : threads)
        thread.join();
    std::set<const struct cache *> known;
    std::set<uint32_t> numbers;
    for (const struct cache *cache = registry_newest(); cache != nullptr; cache = cache->below) {
        known.insert(cache);
        numbers.insert(cache->number);
    }
    for (const struct cache *cache : made)
        ASSERT_EQ(known.count(cache), 1u);
    EXPECT_EQ(numbers.size(), known.size());
}

/* Seen to fail with a registry_adopt() that never abandons. */
TEST(Registry, AnAdoptedCacheKeepsItsBlocksUnlessItsOwnerWasChangingItsArrays)
{
    ASSERT_TRUE(heap_start());
    for (unsigned edits : {0u, 1u})
        std::thread([=] {
            heap_free(calm_test::alloc_in_cohort(100, 0));
            struct cache *cache = of_thread.cache;
            ASSERT_NE(cache, &cache_none);
            ASSERT_TRUE(cache_has_arrays(cache));
            cache->edits = edits;
            registry_adopt(cache);
            EXPECT_EQ(cache_has_arrays(cache), edits == 0);
            EXPECT_EQ(cache->edits, 0u);
        }).join();
    registry_recount();
}

/* Seen to fail with a recount that leaves the newest cache out. */
TEST(Registry, ARecountSumsWhatAllCachesMayHold)
{
    ASSERT_TRUE(heap_start());
    heap_free(calm_test::alloc_in_cohort(100, 0));
    size_t right = caches_budget.in_use;
    EXPECT_GT(right, 0u);
    caches_budget.in_use = 12345;
    registry_recount();
    EXPECT_EQ(caches_budget.in_use, right);
}
