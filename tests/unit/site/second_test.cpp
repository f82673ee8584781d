/*
 * second_test.cpp: site/second.c serves diverted requests as the fast paths would have.
 */
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "../heap_support.h"

/* Made-up sites are counted, not addressed: on aarch64 an instruction is four bytes. */
static const void *site_at(uintptr_t number)
{
    return reinterpret_cast<const void *>(number << CODE_ALIGN_LOG2);
}

static unsigned row_of(const void *block)
{
    return bin_row(region_bin(region_chunk(block))) % COHORT_LIMIT;
}

static unsigned own_row(const void *site)
{
    return site_own_offset(site) / COHORT_ENTRY_BYTES;
}

/* Seen to fail with plain() that takes the offset of site 0. */
TEST(Second, EveryFormIsServedFromTheSitesOwnCohort)
{
    ASSERT_TRUE(heap_start());
    depot_lend_share = 0; /* no cohort takes another's slab */
    site_start(SITE_HASH, COHORTS_MAX);
    depot_on_growth(100000);
    for (bool is_diverted : {true, false}) {
        site_count_all(is_diverted, 0);
        for (uintptr_t address = 0x500; address < 0x540; address += 3) {
            const void *site = site_at(address);
            ASSERT_EQ(site_offset(site) == DIVERTED_OFFSET, is_diverted);
            unsigned row = own_row(site);
            void *plain = front_alloc(200, site, nullptr);
            void *zeroed = front_zeroed(10, 300, site, nullptr);
            void *aligned = front_aligned(512, 3000, site, nullptr);
            EXPECT_EQ(row_of(plain), row);
            EXPECT_EQ(row_of(zeroed), row);
            EXPECT_EQ(row_of(aligned), row);
            EXPECT_TRUE(calm_test::is_zero(static_cast<unsigned char *>(zeroed), 3000));
            EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned) % 512, 0u);
            const void *other = site_at(address + 0x800);
            plain = front_realloc(plain, 5000, other, nullptr);
            EXPECT_EQ(row_of(plain), own_row(other));
            heap_free(plain);
            heap_free(zeroed);
            heap_free(aligned);
            void *large = front_alloc(300000, site, nullptr);
            ASSERT_NE(large, nullptr);
            heap_free(large);
        }
    }
    EXPECT_EQ(heap_verify(), nullptr);
}

TEST(Second, WhatNoHeapCouldServeIsNull)
{
    ASSERT_TRUE(heap_start());
    site_count_all(true, 0);
    EXPECT_EQ(front_alloc(SIZE_MAX, site_at(0x77), nullptr), nullptr);
    EXPECT_EQ(front_zeroed(SIZE_MAX, 2, site_at(0x77), nullptr), nullptr);
    EXPECT_EQ(front_aligned(64, PTRDIFF_MAX, site_at(0x77), nullptr), nullptr);
    void *block = front_alloc(10, site_at(0x77), nullptr);
    EXPECT_EQ(front_realloc(block, SIZE_MAX, site_at(0x77), nullptr), nullptr);
    heap_free(block);
    site_count_all(false, 0);
}

/* A site's place in the table may change between the look that finds no block and the one of the
 * slow path, which then knows nothing of the entry. Seen to fail where that takes it for empty:
 * NULL was written to, and blocks were lost. */
TEST(Second, ARequestWhoseSiteCameToBeCountedMeanwhileTakesWhatIsArmed)
{
    enum { BLOCKS = 200, BYTES = 64 };
    ASSERT_TRUE(heap_start());
    site_start(SITE_OFF, 1);
    std::thread([] {
        const void *site = site_at(0x600);
        std::vector<void *> blocks;
        ASSERT_EQ(sample_start(uint64_t{1} << 30, 1), SAMPLE_FINE);
        for (unsigned round = 0; round < 8; round++) {
            for (unsigned i = 0; i < BLOCKS + 37 * round; i++)
                blocks.push_back(front_alloc(BYTES, site, nullptr));
            for (unsigned i = 0; i < 20; i++)
                blocks.push_back(site_alloc_slow(BYTES, site, nullptr));
            for (void *block : blocks)
                ASSERT_NE(block, nullptr);
            EXPECT_EQ(std::set<void *>(blocks.begin(), blocks.end()).size(), blocks.size());
            for (void *block : blocks)
                heap_free(block);
            blocks.clear();
            heap_free(front_alloc(BYTES, site, nullptr));
            for (unsigned i = 0; i < 20; i++)
                blocks.push_back(site_alloc_slow(BYTES, site, nullptr));
        }
        for (void *block : blocks)
            heap_free(block);
        sample_stop();
    }).join();
    EXPECT_EQ(heap_verify(), nullptr);
}
