/*
 * armed_test.cpp: core/armed.h: as many requests are served as blocks were armed, and nothing is
 * lost.
 */
#include <gtest/gtest.h>

#include <set>

#include "../heap_support.h"

extern "C" {
#include "core/armed.h"
}

enum { BYTES = 64 };

static const uint32_t armed_entry = COHORT_ARMED * COHORT_ENTRY_BYTES + class_offset(BYTES);
static const unsigned armed_bin = armed_entry / ENTRY_BYTES;
static const uint32_t other_entry = (COHORT_ARMED + 1) * COHORT_ENTRY_BYTES + class_offset(BYTES);

/* In a thread of its own, so that a cache begins empty. */
template <class Body> static void with_cache(Body body)
{
    ASSERT_TRUE(heap_start());
    std::thread([&] {
        heap_free(calm_test::alloc_in_cohort(100, 0));
        ASSERT_EQ(cache_own(), of_thread.cache);
        body(of_thread.cache, &of_thread.cache->armed[bin_class(armed_bin)].unarmed);
    }).join();
    EXPECT_EQ(heap_verify(), nullptr);
}

static void free_all(std::vector<void *> *blocks)
{
    for (void *block : *blocks)
        heap_free(block);
    blocks->clear();
}

/* Requests until the armed entry is empty; what they got. */
static std::vector<void *> until_empty()
{
    std::vector<void *> blocks;
    while (void *block = cache_pop(armed_entry))
        blocks.push_back(block);
    return blocks;
}

/* Seen to fail with more blocks armed than are to pass. */
TEST(Armed, AnEntryServesNoMoreRequestsThanAreToPass)
{
    with_cache([](struct cache *cache, uint64_t *unarmed) {
        for (uint64_t wanted : {0, 1, 7, 100, 3}) {
            *unarmed = wanted;
            void *first = armed_alloc(cache, armed_entry);
            ASSERT_NE(first, nullptr);
            EXPECT_EQ(bin_held(armed_bin), region_bin(region_chunk(first)));
            uint64_t armed = cache_count(cache, armed_bin);
            EXPECT_LE(armed, wanted);
            EXPECT_EQ(armed + *unarmed, wanted);
            EXPECT_TRUE(armed > 0 || wanted == 0);
            std::vector<void *> blocks = until_empty();
            EXPECT_EQ(blocks.size(), armed);
            heap_free(first);
            free_all(&blocks);
        }
    });
}

/* Seen to fail with more blocks armed than are to pass. */
TEST(Armed, ABlockThatGoesRoundUsesTheEntryUp)
{
    with_cache([](struct cache *cache, uint64_t *unarmed) {
        *unarmed = 100000;
        uint64_t served = 0, misses = 0;
        while (*unarmed > 0) {
            heap_free(armed_alloc(cache, armed_entry));
            for (void *block; (block = cache_pop(armed_entry)) != nullptr; served++)
                heap_free(block);
            misses++;
        }
        EXPECT_EQ(served, 100000u);
        EXPECT_LT(misses, 4000u);
    });
}

/* Seen to fail with cache_close_bin() that does not count what it gives back. */
TEST(Armed, WhatIsGivenBackIsStillToCome)
{
    with_cache([](struct cache *cache, uint64_t *unarmed) {
        *unarmed = 50;
        heap_free(armed_alloc(cache, armed_entry));
        std::vector<void *> blocks{cache_pop(armed_entry), cache_pop(armed_entry)};
        armed_drop(cache);
        EXPECT_EQ(*unarmed, 48u);
        EXPECT_EQ(cache_count(cache, armed_bin), 0u);
        free_all(&blocks);
    });
}

/* An entry that was armed once, and blocks in the bin's own entry, whose number is returned. */
static unsigned with_freed(struct cache *cache, uint64_t *unarmed)
{
    *unarmed = 1000;
    void *first = armed_alloc(cache, armed_entry);
    std::vector<void *> blocks = until_empty();
    for (unsigned times = 0; times < 20; times++) { /* so many that they are worth it */
        blocks.push_back(armed_alloc(cache, armed_entry));
        for (void *block : until_empty())
            blocks.push_back(block);
    }
    blocks.push_back(first);
    free_all(&blocks);
    return bin_held(armed_bin);
}

/* Seen to fail with nothing taken off, and with blocks that only change places. */
TEST(Armed, WhatWasFreedIsArmedAtOnceAndCounted)
{
    with_cache([](struct cache *cache, uint64_t *unarmed) {
        unsigned own = with_freed(cache, unarmed);
        size_t freed = cache_count(cache, own);
        *unarmed = freed;
        ASSERT_TRUE(armed_counts_quick(cache, armed_entry, own * ENTRY_BYTES));
        EXPECT_EQ(*unarmed, 0u);
        std::vector<void *> blocks{armed_swap(cache, armed_entry, own * ENTRY_BYTES)};
        EXPECT_EQ(cache_count(cache, own), 0u);
        EXPECT_EQ(cache_count(cache, armed_bin), freed - 1);
        for (void *block : until_empty())
            blocks.push_back(block);
        EXPECT_EQ(std::set<void *>(blocks.begin(), blocks.end()).size(), freed);
        free_all(&blocks);
        EXPECT_EQ(cache_count(cache, own), freed);
        *unarmed = freed - 1;
        EXPECT_FALSE(armed_counts_quick(cache, armed_entry, own * ENTRY_BYTES));
        EXPECT_EQ(*unarmed, freed - 1);
    });
}

/* Seen to fail with numbers of blocks without a sign. */
TEST(Armed, AnEntryWithoutAnArrayIsNotArmedQuickly)
{
    with_cache([](struct cache *cache, uint64_t *unarmed) {
        unsigned own = with_freed(cache, unarmed);
        armed_drop(cache);
        ASSERT_GT(cache_count(cache, own), 0u);
        *unarmed = UINT64_MAX;
        EXPECT_FALSE(armed_counts_quick(cache, armed_entry, own * ENTRY_BYTES));
        EXPECT_EQ(armed_refill(cache, armed_entry, own * ENTRY_BYTES), nullptr);
    });
}

/* It begins elsewhere than the one before. Seen to fail with array_resize() that leaves what is
 * worth it. */
TEST(Armed, ABinThatHasAnotherArrayIsLookedAt)
{
    with_cache([](struct cache *cache, uint64_t *unarmed) {
        unsigned own = with_freed(cache, unarmed);
        void *block = cache_pop(own * ENTRY_BYTES);
        cache_close_bin(cache, own);
        cache->armed[bin_class(own)].worth = 0;
        heap_free(block);
        ASSERT_EQ(cache_count(cache, own), 1u);
        EXPECT_EQ(cache->armed[bin_class(own)].worth, ARMED_NEVER);
    });
}

/* A thread that writes the site table may be late, after the other armed cohort was used. Seen to
 * fail with numbers of blocks without a sign. */
TEST(Armed, AnEntryOfTheCohortBeforeIsNotArmedInTheTurnOfTheOther)
{
    with_cache([](struct cache *cache, uint64_t *unarmed) {
        unsigned own = with_freed(cache, unarmed);
        ASSERT_GT(cache_count(cache, own), 0u);
        *unarmed = UINT64_MAX;
        EXPECT_FALSE(armed_counts_quick(cache, other_entry, own * ENTRY_BYTES));
        EXPECT_EQ(armed_refill(cache, other_entry, own * ENTRY_BYTES), nullptr);
        EXPECT_EQ(*unarmed, UINT64_MAX);
    });
}

/* Where caches run dry. Seen to fail with a refill that is not taken off. */
TEST(Armed, WhatAMissBringsIsArmedAndCounted)
{
    with_cache([](struct cache *cache, uint64_t *unarmed) {
        unsigned own = with_freed(cache, unarmed);
        std::vector<void *> blocks;
        while (void *block = cache_pop(own * ENTRY_BYTES))
            blocks.push_back(block);
        *unarmed = 100000;
        void *first = armed_refill(cache, armed_entry, own * ENTRY_BYTES);
        ASSERT_NE(first, nullptr);
        EXPECT_EQ(bin_held(armed_bin), region_bin(region_chunk(first)));
        size_t armed = cache_count(cache, armed_bin);
        EXPECT_GT(armed, 0u);
        EXPECT_EQ(cache_count(cache, own), 0u);
        EXPECT_EQ(*unarmed, 100000 - 1 - armed);
        blocks.push_back(first);
        for (void *block : until_empty())
            blocks.push_back(block);
        free_all(&blocks);
    });
}

/* Its free is looked for in the cache, then in its depot. */
TEST(Armed, ABlockThatIsArmedIsKnownToBeFree)
{
    with_cache([](struct cache *cache, uint64_t *unarmed) {
        *unarmed = 1000;
        void *block = armed_alloc(cache, armed_entry);
        std::vector<void *> blocks = until_empty();
        heap_free(block);
        free_all(&blocks);
        heap_free(armed_alloc(cache, armed_entry));
        ASSERT_TRUE(cache_holds(cache, armed_bin, block) ||
                    cache_holds(cache, bin_held(armed_bin), block));
        EXPECT_DEATH(heap_free(block), "double free of");
        cache_empty(cache);
        EXPECT_EQ(cache_count(cache, armed_bin), 0u);
        EXPECT_DEATH(heap_free(block), "double free of");
    });
}
