/*
 * poisson_test.cpp: the integers of site/poisson.c against the mathematics library.
 */
#include <gtest/gtest.h>

#include <cmath>

#include "../heap_support.h"

static const uint64_t rates[] = {
    1, 2, 7, 64, 1000, 524288, 1000003, 1ull << 30, 1ull << POISSON_RATE_LOG2_MAX};

static void expect_distance(uint64_t rate, uint64_t random)
{
    long double chance = static_cast<long double>(random != 0 ? random : 1) / std::exp2(64.0L);
    long double wanted = -std::log(chance) * static_cast<long double>(rate);
    long double got = static_cast<long double>(poisson_distance(rate, random));
    ASSERT_LE(std::fabs(got - std::floor(wanted)), 1 + wanted * 1e-12L)
        << "rate " << rate << ", random " << random;
}

/* Seen to fail with the mantissa left as it is where its square is below two. */
TEST(Poisson, ADistanceIsTheLogarithmOfARandomNumber)
{
    calm_test::Random random(3);
    for (uint64_t rate : rates) {
        for (uint64_t edge : {0ull, 1ull, 2ull, 1ull << 63, (1ull << 63) - 1, ~0ull})
            expect_distance(rate, edge);
        for (unsigned i = 0; i < 3000; i++)
            expect_distance(rate, random.next() >> random.below(64));
    }
}

/* Seen to fail without the half in the series. */
TEST(Poisson, AWeightIsTheInverseOfTheChanceToBeSampled)
{
    calm_test::Random random(4);
    for (uint64_t rate : rates) {
        for (unsigned i = 0; i < 5000; i++) {
            uint64_t bytes = 1 + (random.next() >> (16 + random.below(48)));
            double ratio = static_cast<double>(bytes) / static_cast<double>(rate);
            double wanted = -1 / std::expm1(-ratio);
            double got = std::ldexp(static_cast<double>(poisson_weight(rate, bytes)),
                                    -static_cast<int>(POISSON_WEIGHT_BITS));
            ASSERT_LE(std::fabs(got - wanted), 3e-6 * wanted) << bytes << " of " << rate;
        }
    }
}

TEST(Poisson, NoDistanceIsLongerThanFortyFiveTimesTheRate)
{
    EXPECT_LE(poisson_distance(1000, 0), 45000u);
    EXPECT_LE(poisson_distance(1000, 1), 45000u);
    EXPECT_EQ(poisson_distance(1000, ~0ull), 0u);
}
