/*
 * class_test.cpp: core/class.h and its tables, recomputed by brute force for every size, offset and
 * alignment.
 */
#include <gtest/gtest.h>

#include "../heap_support.h"

static size_t bytes_of(unsigned number)
{
    return class_facts[number].bytes;
}

/* The first class that holds `bytes`, by looking at all of them. */
static unsigned slow_class(size_t bytes)
{
    for (unsigned number = 1; number < CLASS_COUNT; number++)
        if (bytes_of(number) >= bytes)
            return number;
    return 0;
}

TEST(Class, SizesRiseFrom8To32KiBAndOnlyTheFirstIsNoMultipleOf16)
{
    EXPECT_EQ(bytes_of(1), 8u);
    EXPECT_EQ(bytes_of(CLASS_COUNT - 1), static_cast<size_t>(MEDIUM_MAX));
    for (unsigned number = 2; number < CLASS_COUNT; number++) {
        EXPECT_GT(bytes_of(number), bytes_of(number - 1));
        EXPECT_EQ(bytes_of(number) % 16, 0u);
    }
}

TEST(Class, EveryDoublingFrom128OnHasAtLeastFourClasses)
{
    for (size_t low = 128; low < MEDIUM_MAX; low *= 2) {
        unsigned count = 0;
        for (unsigned number = 1; number < CLASS_COUNT; number++)
            count += bytes_of(number) > low && bytes_of(number) <= 2 * low;
        EXPECT_GE(count, 4u) << low;
    }
}

/* Seen to fail with one entry of class_small raised by a class. */
TEST(Class, EverySizeFindsTheSmallestClassThatHoldsIt)
{
    for (size_t bytes = 0; bytes <= MEDIUM_MAX; bytes++)
        ASSERT_EQ(class_of(bytes), slow_class(bytes)) << bytes;
}

/* Seen to fail with a limit of one class raised by one product step. */
TEST(Class, ForEveryClassAndOffsetTheProductSaysWhatDivisionSays)
{
    for (unsigned number = 1; number < CLASS_COUNT; number++) {
        size_t bytes = bytes_of(number), capacity = class_facts[number].capacity;
        ASSERT_EQ(capacity, CHUNK_BYTES / bytes);
        for (size_t offset = 0; offset < CHUNK_BYTES; offset++) {
            bool begins = offset % bytes == 0 && offset / bytes < capacity;
            ASSERT_EQ(class_begins_block(number, static_cast<uint16_t>(offset)), begins)
                << bytes << " " << offset;
            ASSERT_EQ(class_block(number, static_cast<uint16_t>(offset)), offset / bytes)
                << bytes << " " << offset;
        }
    }
}

TEST(Class, NoOffsetBeginsABlockOfAClassThatDoesNotExist)
{
    for (unsigned number = 0; number < CLASS_LIMIT; number++) {
        if (number != 0 && number < CLASS_COUNT)
            continue;
        for (size_t offset = 0; offset < CHUNK_BYTES; offset++)
            ASSERT_FALSE(class_begins_block(number, static_cast<uint16_t>(offset)))
                << number << " " << offset;
    }
}

TEST(Class, AnAlignedRequestGetsTheSmallestClassThatFitsAndIsAligned)
{
    for (size_t align = 1; align <= 2 * MEDIUM_MAX; align *= 2) {
        for (size_t bytes = 0; bytes <= MEDIUM_MAX + 300; bytes += bytes < 2000 ? 1 : 97) {
            unsigned expected = 0;
            for (unsigned number = 1; number < CLASS_COUNT && expected == 0; number++)
                if (bytes_of(number) >= bytes && bytes_of(number) % align == 0)
                    expected = number;
            ASSERT_EQ(class_aligned(bytes, align), expected) << bytes << " aligned " << align;
        }
    }
    EXPECT_EQ(class_aligned(SIZE_MAX, 16), 0u);
    EXPECT_EQ(class_aligned(16, static_cast<size_t>(1) << 63), 0u);
}

/* Seen to fail with the `least` of 32 bytes raised by one. */
TEST(Class, AFreeMayBeToldWhatTheClassServesAndWhatShrinksInPlace)
{
    for (unsigned number = 0; number < CLASS_LIMIT; number++) {
        size_t have = number < CLASS_COUNT ? bytes_of(number) : 0;
        for (size_t told = 0; told <= have + 8; told++) {
            bool fits = have > 0 && told <= have &&
                        (told >= have / 2 || slow_class(told) == number);
            ASSERT_EQ(told - class_given.least[number] < class_given.count[number], fits)
                << have << " " << told;
        }
        ASSERT_GE(SIZE_MAX - class_given.least[number], class_given.count[number]);
    }
}

TEST(Class, ChunksWithoutASlabHaveClassZeroAndBinsKeepTheirParts)
{
    EXPECT_EQ(bin_class(NO_SLAB), 0u);
    for (unsigned row = 0; row < ROW_LIMIT; row++)
        for (unsigned number = 1; number < CLASS_COUNT; number++)
            ASSERT_EQ(bin_class(row * CLASS_LIMIT + number) +
                          bin_row(row * CLASS_LIMIT + number) * 64,
                      row * CLASS_LIMIT + number);
}

TEST(Class, BitmapsAndListsHaveRoomForEveryBlock)
{
    for (unsigned number = 1; number < CLASS_COUNT; number++) {
        const struct class_facts &facts = class_facts[number];
        EXPECT_EQ(facts.map_words, (facts.capacity + 63) / 64);
        EXPECT_GE(facts.cached, 1u);
        EXPECT_LT(facts.cached, 1u << SLOTS_LOG2_MAX);
        for (unsigned free_count = 1; free_count < facts.capacity; free_count++)
            ASSERT_LT((free_count - 1) >> facts.list_shift, static_cast<unsigned>(LIST_EMPTY))
                << facts.bytes;
    }
}
