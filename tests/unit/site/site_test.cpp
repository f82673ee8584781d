/*
 * site_test.cpp: site/site.c spreads sites over cohorts once the heap is large enough.
 */
#include <gtest/gtest.h>

#include <map>

#include "../heap_support.h"

/* Made-up sites are counted, not addressed: on aarch64 an instruction is four bytes. */
static const void *site_at(uintptr_t number)
{
    return reinterpret_cast<const void *>(number << CODE_ALIGN_LOG2);
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

static void grow()
{
    depot_on_growth(100000);
    ASSERT_EQ(site_cohorts(), static_cast<size_t>(COHORTS_MAX));
}

/* Seen to fail with a quarter of the cohorts. */
TEST(Site, ASmallHeapHasOneCohortAndInALargeOneEachGetsItsShareOfTheSites)
{
    ASSERT_TRUE(heap_start());
    site_start(SITE_HASH, COHORTS_MAX);
    depot_on_growth(20);
    ASSERT_EQ(site_cohorts(), 1u);
    ASSERT_EQ(sites_by_cohort().size(), 1u);
    grow();
    auto count = sites_by_cohort();
    ASSERT_EQ(count.size(), static_cast<size_t>(COHORTS_MAX));
    for (const auto &entry : count) {
        EXPECT_GE(entry.second, SITES / COHORTS_MAX / 2);
        EXPECT_LE(entry.second, SITES / COHORTS_MAX * 2);
    }
    depot_on_growth(1000000);
    EXPECT_EQ(site_cohorts(), static_cast<size_t>(COHORTS_MAX)) << "never more";
}

TEST(Site, OnlyTheLowTwelveBitsOfAnAddressCountSoThatRunsAreAlike)
{
    ASSERT_TRUE(heap_start());
    site_start(SITE_HASH, COHORTS_MAX);
    grow();
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
    site_start(SITE_HASH, COHORTS_MAX);
    grow();
    unsigned same = 0;
    for (uintptr_t site = 0; site + 16 < SITES; site++)
        for (uintptr_t near = 1; near <= 16; near++)
            same += site_offset(site_at(site)) == site_offset(site_at(site + near));
    EXPECT_LT(same, SITES * 16 / 20) << "one in COHORTS_MAX would be chance";
}
