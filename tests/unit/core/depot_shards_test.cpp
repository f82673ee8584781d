/*
 * depot_shards_test.cpp: core/depot_shards.c: batches go to their giver's shard and come from the
 * taker's own first, and nothing lies where nobody finds it.
 *
 * Blocks are taken and given straight from the depot, under bins that no other test uses.
 */
#include <gtest/gtest.h>

#include "../heap_support.h"

#include "shard_support.h"

namespace
{

constexpr size_t batch = 50;

unsigned bin_for(unsigned cohort, size_t bytes)
{
    return cohort * CLASS_LIMIT + class_of(bytes);
}

/* One cache takes and another gives, so that the depot has several users. */
constexpr uint32_t taker = 1, giver = 2;

std::vector<void *> taken_from(unsigned bin, size_t count)
{
    std::vector<void *> blocks;
    while (blocks.size() < count) {
        void *out[REFILL_MAX];
        size_t want = std::min<size_t>(count - blocks.size(), REFILL_MAX);
        size_t got = depot_refill(bin, out, want, taker);
        if (got == 0)
            break;
        blocks.insert(blocks.end(), out, out + got);
    }
    return blocks;
}

void give_all(unsigned bin, std::vector<void *> blocks)
{
    for (size_t at = 0; at < blocks.size(); at += batch) {
        depot_of(bin)->flushes_since = 0; /* as if somebody took */
        depot_flush(bin, blocks.data() + at, std::min(batch, blocks.size() - at), giver);
    }
}

size_t batches_of(unsigned bin, unsigned shard)
{
    const struct batch_stack *stack = depot_stack(depot_of(bin), shard);
    return stack == nullptr ? 0 : batch_count(stack);
}

class DepotShards : public testing::Test
{
  protected:
    void TearDown() override
    {
        EXPECT_EQ(depot_verify(), nullptr);
        EXPECT_EQ(span_verify(), nullptr);
    }
};

} // namespace

TEST_F(DepotShards, OneShardHasNoStacksOfOthers)
{
    ASSERT_TRUE(heap_start());
    unsigned bin = bin_for(20, 64);
    give_all(bin, taken_from(bin, 4 * batch));
    EXPECT_EQ(batches_of(bin, 0), 4u);
    EXPECT_EQ(depot_of(bin)->others, nullptr);
    heap_trim();
}

/* Seen to fail with a giver that is always in shard 0. */
TEST_F(DepotShards, ABatchComesBackInTheShardThatGaveIt)
{
    calm_test::Shards shards(4);
    unsigned bin = bin_for(21, 64);
    std::vector<void *> blocks = taken_from(bin, 4 * batch);
    for (unsigned cpu = 0; cpu < 4; cpu++) {
        shards.run_on(cpu);
        depot_flush(bin, blocks.data() + cpu * batch, batch, giver);
    }
    for (unsigned cpu : {2u, 0u, 3u, 1u}) {
        EXPECT_EQ(batches_of(bin, cpu), 1u);
        shards.run_on(cpu);
        void *out[REFILL_MAX];
        ASSERT_EQ(depot_refill(bin, out, batch, taker), batch);
        EXPECT_EQ(std::set<void *>(out, out + batch),
                  std::set<void *>(blocks.data() + cpu * batch, blocks.data() + (cpu + 1) * batch));
        EXPECT_EQ(batches_of(bin, cpu), 0u);
    }
    give_all(bin, blocks);
}

/* Seen to fail with a taker that looks in its own shard only. */
TEST_F(DepotShards, AShardThatHasNothingTakesFromTheNextThatHas)
{
    calm_test::Shards shards(4);
    unsigned bin = bin_for(22, 64);
    std::vector<void *> blocks = taken_from(bin, 2 * batch);
    shards.run_on(1);
    depot_flush(bin, blocks.data(), batch, giver);
    shards.run_on(3);
    depot_flush(bin, blocks.data() + batch, batch, giver);
    shards.run_on(2);
    size_t slabs = depot_of(bin)->slab_count;
    std::vector<void *> found = taken_from(bin, batch); /* of 3, which is next */
    EXPECT_EQ(batches_of(bin, 3), 0u);
    EXPECT_EQ(batches_of(bin, 1), 1u);
    std::vector<void *> more = taken_from(bin, batch);
    EXPECT_EQ(batches_of(bin, 1), 0u);
    EXPECT_EQ(depot_of(bin)->slab_count, slabs);
    found.insert(found.end(), more.begin(), more.end());
    EXPECT_EQ(std::set<void *>(found.begin(), found.end()),
              std::set<void *>(blocks.begin(), blocks.end()));
    give_all(bin, blocks);
}

/* Seen to fail where only shard 0 is looked at. */
TEST_F(DepotShards, WhatLiesInAnyShardIsCountedFoundAndDrained)
{
    calm_test::Shards shards(SHARDS_MAX);
    unsigned bin = bin_for(23, 64);
    struct depot *depot = nullptr;
    std::vector<void *> blocks = taken_from(bin, SHARDS_MAX * batch);
    depot = depot_of(bin);
    for (unsigned cpu = 0; cpu < SHARDS_MAX; cpu++) {
        shards.run_on(cpu);
        EXPECT_FALSE(depot_holds(bin, blocks[cpu * batch]));
        depot_flush(bin, blocks.data() + cpu * batch, batch, giver);
        EXPECT_EQ(depot_batch_count(depot), cpu + 1);
        EXPECT_EQ(depot_batch_blocks(depot), (cpu + 1) * batch);
        EXPECT_TRUE(depot_holds(bin, blocks[cpu * batch]));
    }
    struct stats_bin stats = stats_read_bin(depot);
    EXPECT_EQ(stats.cached_blocks, blocks.size());
    EXPECT_EQ(depot_drain(depot, true), blocks.size());
    EXPECT_EQ(depot_batch_count(depot), 0u);
    EXPECT_EQ(stats_read_bin(depot).taken_blocks, 0u);
    heap_trim();
    EXPECT_EQ(depot->slab_count, 0u);
}

/* Seen to fail where trimming looks at shard 0 only. */
TEST_F(DepotShards, TrimmingEmptiesTheStacksOfAllShards)
{
    calm_test::Shards shards(3);
    unsigned bin = bin_for(24, 64);
    std::vector<void *> blocks = taken_from(bin, 9 * batch);
    for (unsigned cpu = 0; cpu < 9; cpu++) {
        shards.run_on(cpu);
        depot_flush(bin, blocks.data() + cpu * batch, batch, giver);
    }
    EXPECT_EQ(depot_batch_count(depot_of(bin)), 9u);
    heap_trim();
    EXPECT_EQ(depot_batch_count(depot_of(bin)), 0u);
    EXPECT_EQ(depot_of(bin)->slab_count, 0u);
}

/* One shard allocates, another frees: the second's batches feed the first, however many there are.
 * Seen to fail with a taker that looks in its own shard only. */
TEST_F(DepotShards, AProducerAndAConsumerInDifferentShardsNeedNoMoreMemory)
{
    calm_test::Shards shards(SHARDS_MAX);
    for (size_t bytes : {64u, 1024u, 8192u}) {
        unsigned bin = bin_for(25, bytes);
        size_t held = 64 * batch_blocks_of(bytes), slabs_most = 0;
        for (unsigned round = 0; round < 200; round++) {
            shards.run_on(round % 3);
            std::vector<void *> blocks = taken_from(bin, held);
            ASSERT_GE(blocks.size(), held);
            shards.run_on(5 + round % 7);
            give_all(bin, blocks);
            slabs_most = std::max<size_t>(slabs_most, depot_of(bin)->slab_count);
        }
        size_t needed = (held + class_facts[class_of(bytes)].capacity - 1) /
                        class_facts[class_of(bytes)].capacity;
        /* A taker has up to a refill more than it asked for, and one slab is kept. */
        EXPECT_LE(slabs_most, needed + REFILL_MAX / class_facts[class_of(bytes)].capacity + 2)
            << bytes;
        heap_trim();
    }
}

/* The bound of a bin is one for each shard, and all batches together have one of their own. */
TEST_F(DepotShards, AShardTakesNoMoreThanItsBytes)
{
    calm_test::Shards shards(3);
    constexpr size_t bytes = 1024;
    unsigned bin = bin_for(26, bytes);
    std::vector<void *> blocks = taken_from(bin, 6000);
    for (unsigned shard = 0; shard < 3; shard++) {
        shards.run_on(shard);
        std::vector<void *> mine(blocks.begin() + shard * 2000,
                                 blocks.begin() + (shard + 1) * 2000);
        give_all(bin, mine);
        EXPECT_GT(batches_of(bin, shard), 0u);
        EXPECT_LE(batch_blocks(depot_stack(depot_of(bin), shard)) * bytes,
                  BATCH_BYTES_PER_STACK + 0u);
    }
    EXPECT_LE(depot_batch_blocks(depot_of(bin)) * bytes, batch_bytes_limit());
}

/* Threads in three shards trade blocks; every block is somewhere exactly once. */
TEST_F(DepotShards, ThreadsOfSeveralShardsLoseNothing)
{
    calm_test::Shards shards(3);
    unsigned bin = bin_for(27, 96);
    std::vector<std::vector<void *>> hands(4);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < hands.size(); t++) {
        threads.emplace_back([&, t] {
            struct rseq_area area = {};
            area_joined = &area;
            calm_test::Random random(70 + t);
            std::vector<void *> &hand = hands[t];
            for (unsigned step = 0; step < 20000; step++) {
                area.cpu_id = static_cast<uint32_t>(random.below(3));
                void *out[REFILL_MAX];
                if (random.below(2) == 0 && hand.size() < 4000) {
                    size_t got = depot_refill(bin, out, batch, static_cast<uint32_t>(t) + 1);
                    hand.insert(hand.end(), out, out + got);
                } else if (hand.size() >= batch) {
                    depot_flush(bin, hand.data() + hand.size() - batch, batch,
                                static_cast<uint32_t>(t) + 1);
                    hand.resize(hand.size() - batch);
                }
            }
            area_joined = nullptr;
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    std::set<void *> all;
    size_t count = 0;
    for (const auto &hand : hands) {
        all.insert(hand.begin(), hand.end());
        count += hand.size();
    }
    EXPECT_EQ(all.size(), count);
    struct stats_bin stats = stats_read_bin(depot_of(bin));
    EXPECT_EQ(stats.taken_blocks, count + stats.cached_blocks);
    for (const auto &hand : hands)
        give_all(bin, hand);
    heap_trim();
    EXPECT_EQ(stats_read_bin(depot_of(bin)).taken_blocks, 0u);
}
