/*
 * slab_test.cpp: core/slab.c against a set of free addresses.
 */
#include <gtest/gtest.h>

#include "../heap_support.h"

static const unsigned cohort_of_test = 61; /* no call site of this program needs so many */

/* A slab nobody else knows, entered in the map the way the depot that adopts it would. */
static struct slab *carved(unsigned number)
{
    unsigned bin = cohort_of_test * CLASS_LIMIT + number;
    struct slab *slab = heap_start() ? slab_carve(bin) : nullptr;
    if (slab != nullptr)
        region.map[slab->chunk].bin = static_cast<uint16_t>(bin);
    return slab;
}

static void retire(struct slab *slab)
{
    region.map[slab->chunk].limit = 0;
    region.map[slab->chunk].bin = NO_SLAB;
    slab_retire(slab);
}

/* One block at a time; false when it was free already. */
static bool Put(struct slab *slab, void *block)
{
    auto offset = static_cast<uint16_t>(reinterpret_cast<uintptr_t>(block));
    return slab_put(slab, class_block(bin_class(slab->bin), offset));
}

TEST(Slab, AFreshSlabHandsOutEveryBlockOnceInAddressOrder)
{
    for (unsigned number = 1; number < CLASS_COUNT; number++) {
        struct slab *slab = carved(number);
        ASSERT_NE(slab, nullptr);
        size_t bytes = class_facts[number].bytes, capacity = CHUNK_BYTES / bytes;
        ASSERT_EQ(slab_verify(slab), nullptr);
        std::vector<void *> blocks(capacity + 1);
        ASSERT_EQ(slab_alloc(slab, blocks.data(), capacity + 1), capacity);
        for (size_t i = 0; i < capacity; i++)
            ASSERT_EQ(blocks[i], slab_start(slab) + i * bytes);
        ASSERT_EQ(slab_alloc(slab, blocks.data(), 1), 0u);
        for (size_t i = 0; i < capacity; i++)
            ASSERT_TRUE(Put(slab, slab_start(slab) + i * bytes));
        ASSERT_EQ(slab->free_count, capacity);
        retire(slab);
    }
}

/* Whatever was in the unit before. Seen to fail with a limit that takes all for marked. */
TEST(Slab, WhatIsTakenIsMarkedAndFreeWithoutALookAndNothingElseIs)
{
    for (unsigned number = 1; number < CLASS_COUNT; number++) {
        struct slab *slab = carved(number);
        ASSERT_NE(slab, nullptr);
        std::vector<void *> blocks(slab->capacity);
        size_t taken = 0, bytes = class_facts[number].bytes;
        while (taken < slab->capacity) {
            size_t more = slab_alloc(slab, blocks.data(), 1 + slab->capacity / 5);
            for (size_t i = 0; i < more; i++)
                ASSERT_TRUE(CHECKS == 0 || block_is_marked(blocks[i]));
            taken += more;
            for (size_t offset = 0; offset < CHUNK_BYTES; offset++)
                ASSERT_EQ(class_accepts_free(number, slab->chunk, static_cast<uint16_t>(offset)),
                          offset % bytes == 0 && offset / bytes < taken)
                    << bytes << " " << offset;
        }
        slab_unmark_from(slab, slab->capacity / 2);
        for (size_t i = 0; i < slab->capacity; i++) {
            auto offset = static_cast<uint16_t>(i * bytes);
            ASSERT_EQ(class_accepts_free(number, slab->chunk, offset), i < slab->capacity / 2u);
            ASSERT_TRUE(Put(slab, slab_start(slab) + i * bytes));
        }
        retire(slab);
    }
}

/* Seen to fail with slab_alloc starting at the second word. */
TEST(Slab, ATakeGivesTheLowestFreeAddressesAndAPutIsRefusedTheSecondTime)
{
    calm_test::Random random(5);
    for (unsigned number : {1u, 4u, 9u, 20u, 33u, 45u, 53u}) {
        struct slab *slab = carved(number);
        ASSERT_NE(slab, nullptr);
        std::set<void *> free_blocks, live;
        for (size_t i = 0; i < slab->capacity; i++)
            free_blocks.insert(slab_start(slab) + i * class_facts[number].bytes);
        for (unsigned step = 0; step < 3000; step++) {
            if (random.below(2) == 0) {
                void *out[64];
                size_t want = 1 + random.below(64), expected = std::min(want, free_blocks.size());
                ASSERT_EQ(slab_alloc(slab, out, want), expected);
                for (size_t i = 0; i < expected; i++) {
                    ASSERT_EQ(out[i], *free_blocks.begin());
                    live.insert(out[i]);
                    free_blocks.erase(free_blocks.begin());
                }
            } else if (!live.empty()) {
                auto it = std::next(live.begin(), static_cast<long>(random.below(live.size())));
                ASSERT_TRUE(Put(slab, *it));
                ASSERT_FALSE(Put(slab, *it)) << "free twice";
                free_blocks.insert(*it);
                live.erase(it);
            }
            ASSERT_EQ(slab->free_count, free_blocks.size());
            ASSERT_EQ(slab_verify(slab), nullptr);
        }
        for (void *block : live)
            ASSERT_TRUE(Put(slab, block));
        retire(slab);
    }
}

/* Seen to fail with bits_below() of one more. */
TEST(Slab, ARunIsPutAsItsBlocksWouldBeOrNotAtAll)
{
    struct slab *slab = carved(8);
    ASSERT_NE(slab, nullptr);
    std::vector<void *> blocks(slab->capacity);
    ASSERT_EQ(slab_alloc(slab, blocks.data(), blocks.size()), blocks.size());
    for (size_t count = 1; count <= 64; count++)
        for (unsigned lowest : {64u, 64u + 64u - static_cast<unsigned>(count)}) {
            ASSERT_TRUE(slab_put_run(slab, lowest, count));
            EXPECT_FALSE(slab_put_run(slab, lowest, count)) << "free twice";
            EXPECT_FALSE(slab_put(slab, lowest + static_cast<unsigned>(count) - 1));
            ASSERT_EQ(slab_verify(slab), nullptr);
            for (unsigned block = 0; block < slab->capacity; block++)
                ASSERT_EQ(slab_is_free(slab, block), block - lowest < count) << block;
            ASSERT_EQ(slab_alloc(slab, blocks.data(), count), count);
        }
    slab_put_run(slab, 70, 1);
    EXPECT_FALSE(slab_put_run(slab, 68, 4)) << "one of them is free";
    EXPECT_EQ(slab->free_count, 1u);
    slab_alloc(slab, blocks.data(), 1);
    for (unsigned block = 0; block < slab->capacity; block++)
        slab_put(slab, block);
    retire(slab);
}

TEST(Slab, TheWalkSeesAWrongCountAndAWrongBin)
{
    struct slab *slab = carved(4);
    ASSERT_NE(slab, nullptr);
    slab->free_map[0] ^= 1;
    EXPECT_NE(slab_verify(slab), nullptr);
    slab->free_map[0] ^= 1;
    EXPECT_EQ(slab_verify(slab), nullptr);
    region.map[slab->chunk].bin = static_cast<uint16_t>(slab->bin + 1);
    EXPECT_NE(slab_verify(slab), nullptr);
    region.map[slab->chunk].bin = slab->bin;
    retire(slab);
}

TEST(Slab, PagesCountAsDroppedUntilABlockOnThemIsTaken)
{
    heap_trim(); /* the spans are clean: a fresh slab reads as zero */
    struct slab *slab = carved(4);
    ASSERT_NE(slab, nullptr);
    ASSERT_EQ(slab->dropped & 0xFFFFu, 0xFFFFu);
    EXPECT_TRUE(calm_test::is_zero(slab_start(slab), CHUNK_BYTES));
    void *blocks[128];
    size_t taken = slab_alloc(slab, blocks, 100); /* 48-byte blocks: 4800 bytes, so pages 0 and 1 */
    EXPECT_EQ(slab->dropped & 0xFFFFu, 0xFFFCu);
    for (size_t i = 0; i < taken; i++)
        Put(slab, blocks[i]);
    retire(slab);
    EXPECT_EQ(span_verify(), nullptr);
}
