/*
 * depot_lend_test.cpp: core/depot.c lends early where it is told to, and says when what it lends is
 * scattered.
 *
 * A slab of the class has 227 blocks. Each test has cohorts of its own.
 */
#include <gtest/gtest.h>

#include <map>

#include "depot_support.h"

enum { BYTES = 288, A_SLAB = 227, PART = 2, FEW = 20 };

static std::vector<std::pair<unsigned, unsigned>> scattered;

class LendTest : public DepotTest
{
  protected:
    void SetUp() override
    {
        DepotTest::SetUp();
        ASSERT_EQ(class_facts[class_of(BYTES)].capacity, A_SLAB);
        depot_lend_part = PART;
        scattered.clear();
        depot_on_scattered = [](unsigned bin, unsigned lender_bin) {
            scattered.emplace_back(bin, lender_bin);
        };
    }

    void TearDown() override
    {
        depot_lend_part = 0;
        depot_on_scattered = nullptr;
        DepotTest::TearDown();
    }

    /* Fills slabs, then frees the first blocks of each, as many as said. Returns what stays. */
    static std::vector<void *> with_free(unsigned bin, const std::vector<size_t> &free_counts)
    {
        std::vector<void *> given, kept;
        std::vector<size_t> left = free_counts;
        std::map<size_t, size_t> number;
        for (void *block : taken_from(bin, A_SLAB * free_counts.size())) {
            size_t unit = region_chunk(block);
            size_t &more = left[number.emplace(unit, number.size()).first->second];
            (more > 0 ? given : kept).push_back(block);
            more -= more > 0;
        }
        put_all(bin, given);
        return kept;
    }

    static void give_back(unsigned bin, std::vector<void *> blocks)
    {
        put_all(bin, blocks);
        depot_retire_empty(depot_of(bin), true);
    }
};

/* Seen to fail with is_worth_a_loan() true, and with it false. */
TEST_F(LendTest, APartOfASlabIsEnoughToLendWhereDepotsLendEarly)
{
    unsigned rich = bin_for(34, BYTES), poor = bin_for(35, BYTES);
    std::vector<void *> kept = with_free(rich, {A_SLAB / PART, 0, 0});
    std::vector<void *> own = taken_from(poor, A_SLAB);
    EXPECT_EQ(depot_of(rich)->slab_count, 3u) << "one block short of half a slab";
    put_all(rich, {kept.back()});
    kept.pop_back();
    std::vector<void *> lent = taken_from(poor, 1);
    EXPECT_EQ(depot_of(rich)->slab_count, 2u);
    EXPECT_EQ(region_bin(region_chunk(lent[0])), poor);
    kept.insert(kept.end(), own.begin(), own.end());
    kept.insert(kept.end(), lent.begin(), lent.end());
    give_back(rich, kept);
    depot_retire_empty(depot_of(poor), true);
}

/* Seen to fail without the call. */
TEST_F(LendTest, ALoanOfFewBlocksFromALargerLenderIsSaidToBeScattered)
{
    unsigned rich = bin_for(36, BYTES), poor = bin_for(37, BYTES);
    std::vector<void *> kept = with_free(rich, std::vector<size_t>(8, FEW));
    std::vector<void *> lent = taken_from(poor, 1);
    EXPECT_EQ(scattered, (std::vector<std::pair<unsigned, unsigned>>{{poor, rich}}));
    EXPECT_EQ(region_bin(region_chunk(lent[0])), poor) << "and is a loan all the same";
    kept.push_back(lent[0]);
    give_back(rich, kept);
    depot_retire_empty(depot_of(poor), true);
}

/* Seen to fail with any list taken for the fullest. */
TEST_F(LendTest, ALoanOfManyBlocksIsNotScattered)
{
    unsigned rich = bin_for(38, BYTES), poor = bin_for(39, BYTES);
    std::vector<size_t> free_counts(8, FEW);
    free_counts[3] = A_SLAB / 2;
    std::vector<void *> kept = with_free(rich, free_counts), lent = taken_from(poor, 1);
    EXPECT_EQ(depot_of(poor)->slab_count, 1u);
    EXPECT_TRUE(scattered.empty());
    kept.push_back(lent[0]);
    give_back(rich, kept);
    depot_retire_empty(depot_of(poor), true);
}

/* Its sites would go to where few blocks are. Seen to fail without a look at the slabs' number. */
TEST_F(LendTest, ALoanFromASmallerLenderIsNotScattered)
{
    unsigned small = bin_for(32, BYTES), large = bin_for(33, BYTES);
    std::vector<void *> kept = taken_from(large, A_SLAB * 8);
    std::vector<void *> others = with_free(small, std::vector<size_t>(8, FEW));
    std::vector<void *> lent = taken_from(large, 1);
    EXPECT_EQ(depot_of(large)->slab_count, 9u);
    EXPECT_TRUE(scattered.empty());
    kept.insert(kept.end(), others.begin(), others.end());
    kept.push_back(lent[0]);
    give_back(large, kept);
    depot_retire_empty(depot_of(small), true);
}
