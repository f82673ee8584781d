/*
 * bits_test.cpp: base/bits.h against loops that count one at a time.
 */
#include <gtest/gtest.h>

#include "../support.h"

TEST(Bits, APowerOfTwoIsRecognisedAmongAllSmallNumbers)
{
    std::set<size_t> powers;
    for (size_t power = 1; power < 100000; power += power)
        powers.insert(power);
    for (size_t value = 0; value < 70000; value++)
        ASSERT_EQ(is_power_of_two(value), powers.count(value) == 1) << value;
    EXPECT_TRUE(is_power_of_two(static_cast<size_t>(1) << 63));
    EXPECT_FALSE(is_power_of_two(SIZE_MAX));
}

TEST(Bits, RoundingAgreesWithDivision)
{
    for (size_t align = 1; align <= 4096; align *= 2) {
        for (size_t value = 0; value < 10000; value += 7) {
            ASSERT_EQ(align_down(value, align), value / align * align);
            ASSERT_EQ(align_up(value, align), (value + align - 1) / align * align);
        }
    }
}

TEST(Bits, RoundingUpPastTheEndWrapsToZeroAsTheHeaderSays)
{
    EXPECT_EQ(align_up(SIZE_MAX, 4096), 0u);
    EXPECT_EQ(align_up(SIZE_MAX - 4095, 4096), SIZE_MAX - 4095);
}

TEST(Bits, IndicesAndCountsAgreeWithALoopOverAllBits)
{
    calm_test::Random random(1);
    for (unsigned round = 0; round < 10000; round++) {
        uint64_t value = random.next() >> random.below(64) << random.below(64);
        if (value == 0)
            continue;
        unsigned lowest = 64, highest = 0, count = 0;
        for (unsigned bit = 0; bit < 64; bit++) {
            if ((value >> bit & 1) == 0)
                continue;
            lowest = bit < lowest ? bit : lowest;
            highest = bit;
            count++;
        }
        ASSERT_EQ(bit_lowest(value), lowest);
        ASSERT_EQ(bit_highest(value), highest);
        ASSERT_EQ(bit_count(value), count);
    }
}

TEST(Bits, TheLesserAndTheGreaterOfTwoSizes)
{
    EXPECT_EQ(size_min(3, 4), 3u);
    EXPECT_EQ(size_min(SIZE_MAX, 0), 0u);
    EXPECT_EQ(size_max(3, 4), 4u);
    EXPECT_EQ(size_max(SIZE_MAX, 0), SIZE_MAX);
}
