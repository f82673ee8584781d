/*
 * cache_edits_test.cpp: core/cache.c: whenever a cache says that nobody changes its arrays, each
 * piece of its arena is one array's or lies free once, at any instruction: a fork's child relies on
 * it. The processor stops after each instruction, and a handler looks.
 */
#include <gtest/gtest.h>

#include <csignal>

#include "../heap_support.h"

#include "core/cache_arrays.h"

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

#include "../../support/step.h"

static volatile size_t steps, looks, gaps;

/* Bytes of all arrays of the cache, used or free. */
static size_t bytes_in_arrays(struct cache *cache)
{
    size_t bytes = 0;
    for (unsigned row = used_row(cache, 0); row < ROW_LIMIT; row = used_row(cache, row + 1))
        for (uint64_t bins = cache->rows[row].used_bins; bins != 0; bins &= bins - 1) {
            unsigned bin = row * CLASS_LIMIT + bit_lowest(bins);
            bytes += static_cast<size_t>(SLOT_BYTES) << array_of(cache->entries[bin].limit).log2;
        }
    for (unsigned log2 = 0; log2 <= SLOTS_LOG2_MAX; log2++)
        for (uint32_t at = cache->free_arrays[log2]; at != 0;) {
            bytes += static_cast<size_t>(SLOT_BYTES) << log2;
            at = static_cast<uint32_t>(
                reinterpret_cast<uintptr_t>(load(cache_slot(cache, at), RELAXED)));
        }
    return bytes;
}

static void on_step(int)
{
    struct cache *cache = of_thread.cache;
    steps = steps + 1;
    if (cache == &cache_none || load(&cache->edits, RELAXED) != 0)
        return;
    looks = looks + 1;
    if (bytes_in_arrays(cache) != cache->arena_used - offsetof(struct cache, arena))
        gaps = gaps + 1;
}

/* Arrays are made, grow, and are given back. */
static void use_arrays(unsigned cohort)
{
    std::vector<void *> blocks;
    blocks.reserve(1000);
    step(true);
    for (size_t bytes = 16; bytes <= 4096; bytes *= 4)
        for (unsigned i = 0; i < 60; i++)
            blocks.push_back(calm_test::alloc_in_cohort(bytes, cohort));
    for (void *block : blocks)
        heap_free(block);
    step(false);
}

/* Seen to fail where the piece for an array is taken before the change begins. */
TEST(CacheEdits, OutsideOfAChangeEachPieceOfTheArenaIsInOnePlace)
{
    ASSERT_TRUE(heap_start());
    std::thread([] {
        struct sigaction on = {}, before = {};
        on.sa_handler = on_step;
        heap_free(calm_test::alloc_in_cohort(100, 0));
        ASSERT_EQ(sigaction(SIGTRAP, &on, &before), 0);
        for (unsigned cohort = 30; cohort < 33; cohort++)
            use_arrays(cohort);
        sigaction(SIGTRAP, &before, nullptr);
    }).join();
    EXPECT_GT(looks, 10000u);
    EXPECT_LT(looks, steps);
    EXPECT_EQ(gaps, 0u);
}

#endif
