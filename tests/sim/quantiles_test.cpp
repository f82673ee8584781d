/*
 * quantiles_test.cpp: the histogram against sorted values.
 */
#include <gtest/gtest.h>

#include <algorithm>

#include "sim_support.h"

/* Seen to fail with 64 buckets a doubling. */
TEST(Quantiles, AreWithinFourThousandthsOfTheSortedValues)
{
    uint64_t random = 9;
    auto quantiles = std::make_unique<struct quantiles>();
    std::vector<uint64_t> values;
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t value = policy_draw(&random) >> (20 + policy_draw(&random) % 40);
        values.push_back(value);
        quantiles_add(quantiles.get(), value);
    }
    std::sort(values.begin(), values.end());
    for (double share : {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0}) {
        size_t rank = static_cast<size_t>(std::ceil(share * 100000)) - 1;
        double exact = static_cast<double>(values[rank]);
        EXPECT_NEAR(quantiles_at(quantiles.get(), share), exact, exact * 0.004) << share;
    }
}

TEST(Quantiles, OfNothingAreZeroAndOfOneValueAreThatValue)
{
    auto quantiles = std::make_unique<struct quantiles>();
    EXPECT_EQ(quantiles_at(quantiles.get(), 0.5), 0);
    quantiles_add(quantiles.get(), 123457);
    EXPECT_EQ(quantiles_at(quantiles.get(), 0.01), 123457);
    EXPECT_EQ(quantiles_at(quantiles.get(), 0.99), 123457);
    quantiles_add(quantiles.get(), UINT64_MAX);
    EXPECT_EQ(quantiles->most, UINT64_MAX);
}
