/*
 * site_test.cpp: site/site.c spreads sites over cohorts, more of them as the heap grows.
 */
#include <gtest/gtest.h>

#include <map>

#include "../heap_support.h"

static const void *site_at(uintptr_t address)
{
    return reinterpret_cast<const void *>(address);
}

static std::map<unsigned, unsigned> sites_by_cohort()
{
    std::map<unsigned, unsigned> count;
    for (uintptr_t site = 0; site < SITES; site++) {
        uint32_t offset = site_offset(site_at(site));
        EXPECT_EQ(offset % COHORT_ENTRY_BYTES, 0u);
        count[offset / COHORT_ENTRY_BYTES]++;
    }
    return count;
}

static void grow_to(size_t cohorts)
{
    for (size_t slabs = 1; slabs <= 100000 && site_cohorts() < cohorts; slabs *= 2)
        depot_on_growth(slabs);
}

/* Seen to fail with two bits of the product where six are wanted. */
TEST(Site, CohortsDoubleAsTheHeapGrowsAndEachGetsItsShareOfTheSites)
{
    ASSERT_TRUE(heap_start());
    site_start(SITE_HASH, COHORT_LIMIT);
    for (size_t cohorts = std::max<size_t>(site_cohorts(), 2); cohorts <= COHORT_LIMIT;
         cohorts *= 2) {
        grow_to(cohorts);
        ASSERT_EQ(site_cohorts(), cohorts);
        auto count = sites_by_cohort();
        ASSERT_EQ(count.size(), cohorts);
        for (const auto &entry : count) {
            EXPECT_LT(entry.first, cohorts);
            EXPECT_GE(entry.second, SITES / cohorts / 2);
            EXPECT_LE(entry.second, SITES / cohorts * 2);
        }
    }
    depot_on_growth(1000000);
    EXPECT_EQ(site_cohorts(), static_cast<size_t>(COHORT_LIMIT)) << "never more";
}

TEST(Site, OnlyTheLowTwelveBitsOfAnAddressCountSoThatRunsAreAlike)
{
    ASSERT_TRUE(heap_start());
    grow_to(COHORT_LIMIT);
    calm_test::Random random(15);
    for (unsigned i = 0; i < 1000; i++) {
        uintptr_t site = random.next();
        ASSERT_EQ(site_offset(site_at(site)), site_offset(site_at(site & 0xFFF)));
        ASSERT_EQ(site_offset(site_at(site)), site_offset(site_at(site + (random.next() << 12))));
    }
}

TEST(Site, NeighbouringSitesAreSeldomInOneCohort)
{
    ASSERT_TRUE(heap_start());
    grow_to(COHORT_LIMIT);
    unsigned same = 0;
    for (uintptr_t site = 0; site + 16 < SITES; site++)
        for (uintptr_t near = 1; near <= 16; near++)
            same += site_offset(site_at(site)) == site_offset(site_at(site + near));
    EXPECT_LT(same, SITES * 16 / 20) << "one in 64 would be chance";
}
