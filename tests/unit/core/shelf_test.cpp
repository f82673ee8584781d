/*
 * shelf_test.cpp: core/shelf.c keeps a bounded number of large blocks and gives all of them back.
 */
#include <gtest/gtest.h>

#include "../heap_support.h"

TEST(Shelf, ABlockThatWasGivenIsTakenAgain)
{
    ASSERT_TRUE(heap_start());
    shelf_drain(true);
    void *block = shelf_take(5, 0);
    ASSERT_NE(block, nullptr);
    EXPECT_FALSE(shelf_holds(5, block));
    shelf_give(5, &block, 1);
    EXPECT_TRUE(shelf_holds(5, block));
    EXPECT_FALSE(shelf_holds(6, block));
    EXPECT_EQ(shelf_bytes(), 5u * UNIT_BYTES);
    EXPECT_EQ(shelf_take(5, 0), block);
    EXPECT_EQ(shelf_bytes(), 0u);
    large_release(block);
}

/* Seen to fail with shelf_take() that looks at its own shelf only, and at all longer ones. */
TEST(Shelf, WhereItsOwnIsEmptyTheNextLongerOneServesUpToHalfAsLongAgain)
{
    ASSERT_TRUE(heap_start());
    large_release(large_acquire(1000, 1, 0, nullptr)); /* so that the region need not grow */
    shelf_drain(true);
    void *twelve = large_acquire(12, 1, 0, nullptr), *eleven = large_acquire(11, 1, 0, nullptr);
    shelf_give(12, &twelve, 1);
    shelf_give(11, &eleven, 1);
    void *seven = shelf_take(7, 0); /* is given 10 units at most */
    EXPECT_NE(seven, eleven);
    EXPECT_EQ(large_usable(seven), 7u * UNIT_BYTES);
    EXPECT_EQ(shelf_take(8, 0), eleven);
    EXPECT_EQ(shelf_take(8, 0), twelve);
    EXPECT_EQ(large_usable(twelve), 8u * UNIT_BYTES);
    EXPECT_EQ(large_length(twelve), 12u);
    EXPECT_EQ(shelf_bytes(), 0u);
    for (void *block : {seven, eleven, twelve})
        large_release(block);
    EXPECT_EQ(span_verify(), nullptr);
}

/* Seen to fail with reserve() that always returns `count`. */
TEST(Shelf, WhatAllShelvesHoldIsBoundedAndADrainEmptiesThem)
{
    ASSERT_TRUE(heap_start());
    size_t count_before = large_count(), most = 0;
    for (size_t units = 1; units <= SPAN_UNITS_MAX; units++) {
        void *blocks[40];
        for (void *&block : blocks)
            ASSERT_NE(block = large_acquire(units, 1, 0, nullptr), nullptr);
        shelf_give(units, blocks, 40);
        most = std::max(most, shelf_bytes());
    }
    EXPECT_LE(most, static_cast<size_t>(128) << 20);
    EXPECT_GT(most, static_cast<size_t>(8) << 20);
    EXPECT_GT(large_count(), count_before);
    shelf_drain(true);
    EXPECT_EQ(shelf_bytes(), 0u);
    EXPECT_EQ(large_count(), count_before);
    EXPECT_EQ(span_verify(), nullptr);
}

/* With nothing on the shelves, and nobody who empties them meanwhile. */
static void start_without_purges()
{
    ASSERT_TRUE(heap_start());
    purge_settings.is_idle_wanted = false;
    calm_trim();
}

TEST(Shelf, ADrainOfWhatIsIdleLeavesWhatWasTouchedSinceTheLastOne)
{
    start_without_purges();
    void *busy = large_acquire(7, 1, 0, nullptr), *idle = large_acquire(8, 1, 0, nullptr);
    shelf_give(8, &idle, 1);
    shelf_drain(false);
    shelf_give(7, &busy, 1);
    EXPECT_EQ(shelf_drain(false), 1u);
    EXPECT_TRUE(shelf_holds(7, busy));
    EXPECT_FALSE(shelf_holds(8, idle));
    EXPECT_EQ(shelf_drain(false), 1u);
    EXPECT_EQ(shelf_bytes(), 0u);
}

/* Takes blocks of so many units until the region has grown. */
static void move_front(std::vector<void *> &taken, size_t units)
{
    for (size_t front = region.units; region.units == front;)
        taken.push_back(large_acquire(units, 1, 0, nullptr));
}

/* Seen to fail with a heap that sets no span_on_growth, and with one that drains whatever there is.
 */
TEST(Shelf, WhatIsMuchBesideTheRegionGoesBackBeforeTheRegionGrows)
{
    start_without_purges();
    std::vector<void *> units, eights(24);
    for (void *&block : eights)
        ASSERT_NE(block = large_acquire(8, 1, 0, nullptr), nullptr);
    move_front(units, 1);
    shelf_give(1, &units.back(), 1);
    units.pop_back();
    move_front(units, 1);
    EXPECT_EQ(shelf_bytes(), UNIT_BYTES) << "so little stays for who asks for it";
    shelf_give(8, eights.data(), eights.size());
    ASSERT_GE(shelf_bytes() >> UNIT_SHIFT, region.units / 4);
    size_t front = region.units;
    for (size_t taken = 0; shelf_bytes() > 0 && taken < 2 * front; taken++)
        units.push_back(large_acquire(1, 1, 0, nullptr));
    EXPECT_EQ(shelf_bytes(), 0u);
    EXPECT_EQ(region.units, front) << "what lay on the shelves was enough";
    for (void *unit : units)
        large_release(unit);
    EXPECT_EQ(span_verify(), nullptr);
}

/* Seen to fail where the shelves are asked for slabs alone. */
TEST(Shelf, BlocksThatLieSideBySideMakeALongerSpanBeforeTheRegionGrows)
{
    start_without_purges();
    std::vector<void *> longs, eights(24);
    move_front(longs, 16);
    for (void *&block : eights)
        ASSERT_NE(block = large_acquire(8, 1, 0, nullptr), nullptr);
    move_front(longs, 16);
    shelf_give(8, eights.data(), eights.size());
    ASSERT_GE(shelf_bytes() >> UNIT_SHIFT, region.units / 16);
    size_t front = region.units;
    for (size_t taken = 0; shelf_bytes() > 0 && taken < front; taken++)
        longs.push_back(large_acquire(16, 1, 0, nullptr));
    EXPECT_EQ(shelf_bytes(), 0u);
    EXPECT_EQ(region.units, front) << "two neighbours of 8 units are as good as 16 new ones";
    for (void *block : longs)
        large_release(block);
    EXPECT_EQ(span_verify(), nullptr);
}

TEST(Shelf, ThreadsThatTakeAndGiveNeverShareABlock)
{
    ASSERT_TRUE(heap_start());
    std::atomic<bool> is_shared{false};
    std::vector<std::thread> threads;
    for (size_t t = 1; t <= 4; t++) {
        threads.emplace_back([&, t] {
            calm_test::Random random(70 + t);
            std::vector<void *> mine;
            for (unsigned step = 0; step < 5000; step++) {
                if (mine.size() < 20 && random.below(2) == 0) {
                    mine.push_back(shelf_take(3, 0));
                    *static_cast<size_t *>(mine.back()) = t;
                } else if (!mine.empty()) {
                    if (*static_cast<size_t *>(mine.back()) != t)
                        is_shared = true;
                    shelf_give(3, &mine.back(), 1);
                    mine.pop_back();
                }
            }
            shelf_give(3, mine.data(), mine.size());
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_FALSE(is_shared);
    shelf_drain(true);
    EXPECT_EQ(span_verify(), nullptr);
}
