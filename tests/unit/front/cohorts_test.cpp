/*
 * cohorts_test.cpp: front/cohorts.c: what each cohort holds, against what the test asked for by
 * site.
 *
 * Seen to fail with classes taken for cohorts, and with an order that begins with the smallest.
 */
#include <gtest/gtest.h>

#include <map>

#include "../heap_support.h"

class Cohorts : public testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_TRUE(heap_start());
        depot_lend_share = 0; /* slabs stay where they are: no number moves between cohorts */
    }
};

static std::map<unsigned, calm_cohort> now()
{
    struct calm_cohort cohorts[COHORT_LIMIT];
    size_t count = calm_cohorts_read(cohorts, COHORT_LIMIT);
    EXPECT_LE(count, static_cast<size_t>(COHORT_LIMIT));
    std::map<unsigned, calm_cohort> found;
    for (size_t i = 0; i < count; i++) {
        EXPECT_GT(cohorts[i].active_bytes, 0u);
        EXPECT_TRUE(i == 0 || cohorts[i - 1].allocated_bytes >= cohorts[i].allocated_bytes);
        EXPECT_TRUE(found.emplace(cohorts[i].cohort, cohorts[i]).second);
    }
    return found;
}

static calm_cohort of(std::map<unsigned, calm_cohort> &cohorts, unsigned cohort)
{
    return cohorts.count(cohort) != 0 ? cohorts[cohort] : calm_cohort{};
}

static size_t live_bytes(const calm_cohort &cohort)
{
    return cohort.allocated_bytes - cohort.cached_bytes;
}

/* What two sites of different cohorts ask for is counted for each, whatever the classes. */
TEST_F(Cohorts, EachHoldsWhatItsSitesAskedFor)
{
    const unsigned cohorts[] = {5, 9};
    const size_t sizes[] = {40, 700, 20000};
    auto before = now();
    std::vector<void *> blocks;
    size_t bytes[2] = {0, 0};
    for (unsigned i = 0; i < 2; i++)
        for (unsigned j = 0; j < 900 * (i + 1); j++) {
            blocks.push_back(heap_alloc_slow(sizes[j % 3], cohorts[i] * COHORT_ENTRY_BYTES));
            bytes[i] += calm_usable_size(blocks.back());
        }
    auto with = now();
    for (unsigned i = 0; i < 2; i++) {
        EXPECT_EQ(live_bytes(of(with, cohorts[i])) - live_bytes(of(before, cohorts[i])), bytes[i]);
        EXPECT_GE(of(with, cohorts[i]).active_bytes, of(with, cohorts[i]).allocated_bytes);
    }
    for (void *block : blocks)
        heap_free(block);
    auto after = now();
    for (unsigned i = 0; i < 2; i++)
        EXPECT_EQ(live_bytes(of(after, cohorts[i])), live_bytes(of(before, cohorts[i])));
}

TEST_F(Cohorts, TheirSumIsWhatTheClassesHold)
{
    std::vector<void *> blocks;
    for (unsigned i = 0; i < 3000; i++)
        blocks.push_back(
            heap_alloc_slow(1 + i * 7 % 30000, (COHORT_FIRST + i % 11) * COHORT_ENTRY_BYTES));
    struct stats_class classes[CLASS_LIMIT];
    stats_read_classes(classes);
    size_t by_class = 0, by_cohort = 0;
    for (const auto &entry : classes)
        by_class += (entry.live_blocks + entry.cached_blocks) * entry.block_bytes;
    for (const auto &entry : now())
        by_cohort += entry.second.allocated_bytes;
    EXPECT_EQ(by_cohort, by_class);
    for (void *block : blocks)
        heap_free(block);
}

TEST_F(Cohorts, TheCallTellsHowManyThereAreWhateverFits)
{
    void *blocks[3];
    for (unsigned i = 0; i < 3; i++)
        blocks[i] = heap_alloc_slow(100, (20 + i) * COHORT_ENTRY_BYTES);
    struct calm_cohort cohorts[COHORT_LIMIT], one[2] = {{}, {}};
    size_t count = calm_cohorts_read(cohorts, COHORT_LIMIT);
    EXPECT_GE(count, 3u);
    EXPECT_EQ(calm_cohorts_read(nullptr, 0), count);
    one[1].cohort = 12345;
    EXPECT_EQ(calm_cohorts_read(one, 1), count);
    EXPECT_EQ(one[0].cohort, cohorts[0].cohort);
    EXPECT_EQ(one[1].cohort, 12345u);
    for (void *block : blocks)
        heap_free(block);
}

TEST_F(Cohorts, SampledBlocksAreTheirOwn)
{
    ASSERT_EQ(sample_start(1, 7), SAMPLE_FINE);
    void *block = front_alloc(1000, reinterpret_cast<const void *>(uintptr_t{0x4242}), nullptr);
    sample_stop();
    auto with = now();
    EXPECT_TRUE(of(with, COHORT_SAMPLED).is_sampled);
    EXPECT_GE(of(with, COHORT_SAMPLED).allocated_blocks, 1u);
    heap_free(block);
}
