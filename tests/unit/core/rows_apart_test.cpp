/*
 * rows_apart_test.cpp: core/rows.c and the heap where cohorts are apart: with sites=intern.
 */
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <thread>

#include "../heap_support.h"

/* Blocks whose frees were told. */
static std::set<void *> told;

class Apart : public testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_TRUE(heap_start());
        ASSERT_TRUE(rows_are_separate) << "CALM_OPTIONS=sites=intern is to be set";
    }
};

static uint32_t offset_of(unsigned row)
{
    return row * COHORT_ENTRY_BYTES;
}

static unsigned owner_of(const void *block)
{
    return region.tags[region_unit(block)].owner;
}

TEST_F(Apart, ARowIsACohortAndThereAreNoHomes)
{
    unsigned first;
    EXPECT_EQ(rows_of(700 << CLASS_BITS | 3, &first), 1u);
    EXPECT_EQ(first, 700u);
    for (unsigned i = 0; i < 20; i++)
        EXPECT_EQ(home_next(), 0u);
    EXPECT_EQ(row_owner(700 << CLASS_BITS | 3), 700u);
    EXPECT_EQ(offset_owner(offset_of(700)), 700u);
}

/* Every size and form, in the first, a middle and the last row. */
TEST_F(Apart, EveryBlockLiesInUnitsOfItsCohort)
{
    std::map<size_t, unsigned> owners;
    calm_test::Random random(5);
    std::vector<void *> live;
    for (unsigned step = 0; step < 4000; step++) {
        unsigned row = std::array{1u, 62u, 64u, 517u, 1002u}[random.below(5)];
        size_t bytes = random.below(8) == 0 ? random.below(400000) : random.below(3000);
        void *block = random.below(3) == 0   ? heap_alloc_zeroed(bytes, offset_of(row))
                      : random.below(3) == 0 ? heap_alloc_aligned(bytes, 128, offset_of(row))
                                             : heap_alloc_slow(bytes, offset_of(row));
        ASSERT_NE(block, nullptr);
        ASSERT_EQ(owner_of(block), row);
        ASSERT_EQ(owners.emplace(region_unit(block), row).first->second, row);
        live.push_back(block);
        if (live.size() > 200) {
            std::swap(live[random.below(live.size())], live.back());
            heap_free(live.back());
            live.pop_back();
        }
        if (step % 500 == 0)
            heap_trim();
    }
    EXPECT_EQ(heap_verify(), nullptr);
    for (void *block : live)
        heap_free(block);
    heap_trim();
    EXPECT_EQ(heap_verify(), nullptr);
}

/* Seen to fail with realloc that leaves a block where it fits. */
TEST_F(Apart, ReallocMovesABlockToTheCohortThatAsksAndLeavesItThere)
{
    for (size_t bytes : {60, 900, 30000, 70000, 40000000}) {
        auto *block = static_cast<char *>(heap_alloc_slow(bytes, offset_of(5)));
        ASSERT_NE(block, nullptr);
        memset(block, 0x5A, bytes);
        auto *moved = static_cast<char *>(heap_realloc(block, bytes - 1, offset_of(6), false));
        ASSERT_NE(moved, nullptr);
        EXPECT_NE(moved, block);
        EXPECT_EQ(owner_of(moved), 6u);
        EXPECT_EQ(owner_of(block), 5u) << "for ever";
        for (size_t i = 0; i < bytes - 1; i += 997)
            ASSERT_EQ(moved[i], 0x5A);
        EXPECT_EQ(heap_realloc(moved, bytes - 2, offset_of(6), false), moved);
        heap_free(moved);
    }
    EXPECT_EQ(heap_verify(), nullptr);
}

/* Blocks of one size, freed in turn. */
enum { OTHERS_BYTES = 300000 };

static std::map<unsigned, void *> free_of_several()
{
    std::map<unsigned, void *> freed;
    for (unsigned row : {5u, 69u, 133u}) {
        freed[row] = heap_alloc_slow(OTHERS_BYTES, offset_of(row));
        EXPECT_EQ(owner_of(freed[row]), row);
    }
    for (const auto &[row, block] : freed)
        heap_free(block);
    return freed;
}

/* Frees each again, so that it is the newest of those that wait. */
static void expect_own_again(const std::map<unsigned, void *> &freed)
{
    void *others = heap_alloc_slow(OTHERS_BYTES, offset_of(197));
    EXPECT_EQ(owner_of(others), 197u);
    for (const auto &[row, block] : freed) {
        auto *again = static_cast<uint64_t *>(heap_alloc_slow(OTHERS_BYTES, offset_of(row)));
        EXPECT_EQ(owner_of(again), row);
        EXPECT_NE(*again, cache_mark);
        heap_free(again);
        EXPECT_EQ(heap_alloc_slow(OTHERS_BYTES, offset_of(row)), again) << "row " << row;
        heap_free(again);
    }
    heap_free(others);
    EXPECT_EQ(heap_verify(), nullptr);
}

/* Seen to fail with is_wished() that asks no block's owner. */
TEST_F(Apart, OwnersWhoseLargeBlocksAreInOneLargeCacheHaveTheirOwnAgain)
{
    heap_trim();
    std::map<unsigned, void *> freed = free_of_several();
    expect_own_again(freed);
    heap_trim();
    EXPECT_EQ(heap_verify(), nullptr);
}

/* Seen to fail with a key that has no owner, and with pop() that looks at the
 * first slot only. */
TEST_F(Apart, AFreedLargeBlockIsHandedOutAgainFromTheLargeCacheToItsCohortAlone)
{
    heap_trim();
    std::map<unsigned, void *> freed = free_of_several();
    EXPECT_EQ(large_cache_bytes(), 3 * large_units(OTHERS_BYTES) * UNIT_BYTES);
    for (const auto &[row, block] : freed)
        EXPECT_EQ(heap_alloc_slow(OTHERS_BYTES, offset_of(row)), block) << "row " << row;
    EXPECT_EQ(large_cache_bytes(), 0u);
    for (const auto &[row, block] : freed)
        heap_free(block);
    heap_trim();
    EXPECT_EQ(large_cache_bytes(), 0u);
    EXPECT_EQ(heap_verify(), nullptr);
}

TEST_F(Apart, ALargeBlockThatIsFreedAgainIsNamedAndWaitsOnce)
{
    misuse_policy.stops_on_misuse = false;
    heap_trim();
    auto *block = static_cast<uint64_t *>(heap_alloc_slow(300000, offset_of(700)));
    uint64_t before = misuse_count();
    heap_free(block);
    heap_free(block);
    EXPECT_EQ(misuse_count(), before + 1);
    EXPECT_EQ(heap_realloc(block, 200000, offset_of(700), false), nullptr);
    EXPECT_EQ(misuse_count(), before + 2);
    EXPECT_EQ(large_cache_bytes(), large_units(300000) * UNIT_BYTES);
    heap_free(block);
    EXPECT_EQ(misuse_count(), before + 3);
    ASSERT_EQ(heap_alloc_slow(300000, offset_of(700)), block);
    *block = cache_mark; /* a live block's word may be anything */
    heap_free(block);
    EXPECT_EQ(misuse_count(), before + 3);
}

/* Seen to fail with stats_read() that counts nobody's blocks only. */
TEST_F(Apart, LargeBlocksThatWaitAreDirtyAndNotAllocated)
{
    struct calm_stats before, after;
    heap_trim();
    calm_stats_read(&before);
    void *blocks[] = {heap_alloc_slow(300000, offset_of(7)),
                      heap_alloc_slow(1000000, offset_of(1001))};
    for (void *block : blocks)
        heap_free(block);
    calm_stats_read(&after);
    size_t bytes = (large_units(300000) + large_units(1000000)) * UNIT_BYTES;
    EXPECT_EQ(after.dirty_bytes - before.dirty_bytes, bytes);
    EXPECT_EQ(after.allocated_bytes, before.allocated_bytes);
}

TEST_F(Apart, ASampledBlockIsItsCohortsAndItsFreeIsTold)
{
    sampled_on_free = [](void *block) { told.insert(block); };
    for (size_t bytes : {1, 100, 5000, 100000}) {
        auto *block = static_cast<unsigned char *>(sampled_alloc(bytes, 64, true, offset_of(900)));
        ASSERT_NE(block, nullptr);
        EXPECT_EQ(owner_of(block), 900u);
        EXPECT_TRUE(sampled_is(block));
        EXPECT_TRUE(calm_test::is_zero(block, bytes));
        heap_free_sized(block, bytes, 1);
        EXPECT_EQ(told.count(block), 1u);
        void *next = sampled_alloc(bytes, 1, false, offset_of(901));
        EXPECT_NE(next, block);
        heap_free(next);
    }
    EXPECT_EQ(misuse_count(), 0u);
    EXPECT_EQ(heap_verify(), nullptr);
}

/* R1, R2. */
TEST_F(Apart, TheVerifierSeesASlabOrALargeBlockInAnothersUnit)
{
    void *small = heap_alloc_slow(100, offset_of(3)),
         *large = heap_alloc_slow(300000, offset_of(3));
    for (size_t unit : {region_unit(small), region_unit(large) + 1}) {
        region.tags[unit].owner = 4;
        EXPECT_EQ(heap_verify()[0], 'R');
        region.tags[unit].owner = 3;
    }
    EXPECT_EQ(heap_verify(), nullptr);
    heap_free(small);
    heap_free(large);
}
