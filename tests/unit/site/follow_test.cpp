/*
 * follow_test.cpp: site/follow.c against a map of the standard library.
 */
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "../heap_support.h"

enum { LOG2_FIRST = 4, LOG2_MAX = 9, WAYS_ALL = FOLLOW_WAYS << LOG2_MAX };

/* A table with its memory. */
struct Table : follow_table {
    Table() : follow_table()
    {
        follow_start(this, memory.data(), LOG2_FIRST, LOG2_MAX);
    }

    std::vector<follow_way> memory = std::vector<follow_way>(WAYS_ALL);
};

static const void *block_at(uint64_t number)
{
    return reinterpret_cast<const void *>(static_cast<uintptr_t>(number * 16 + 65536));
}

TEST(Follow, WhatWasEnteredIsTakenOutOnceWithAllThatWasSaid)
{
    auto table = std::make_unique<Table>();
    follow_make_room(table.get(), 4096);
    std::map<uint64_t, followed> oracle;
    calm_test::Random random(7);
    for (unsigned i = 0; i < 200000; i++) {
        uint64_t number = random.next() % 4096;
        followed found = {};
        if (oracle.count(number) == 0) {
            followed entered = {static_cast<uint32_t>(random.next()),
                                static_cast<uint32_t>(random.next()),
                                {random.next(), random.next()}};
            ASSERT_FALSE(follow_end(table.get(), block_at(number), &found));
            if (follow_begin(table.get(), block_at(number), entered))
                oracle[number] = entered;
        } else {
            ASSERT_TRUE(follow_end(table.get(), block_at(number), &found));
            ASSERT_EQ(found.birth, oracle[number].birth);
            ASSERT_EQ(found.row, oracle[number].row);
            ASSERT_EQ(found.estimate.weight, oracle[number].estimate.weight);
            ASSERT_EQ(found.estimate.volume, oracle[number].estimate.volume);
            oracle.erase(number);
        }
    }
    EXPECT_GT(oracle.size(), 1500u) << "half of the blocks are in it at any time";
}

TEST(Follow, AFullSetRefusesAndNothingIsLost)
{
    auto table = std::make_unique<Table>();
    follow_make_room(table.get(), WAYS_ALL);
    uint64_t entered = 0;
    for (uint64_t i = 0; i < 4 * WAYS_ALL; i++)
        entered += follow_begin(table.get(), block_at(i), {1, static_cast<uint32_t>(i), {}});
    EXPECT_LE(entered, static_cast<uint64_t>(WAYS_ALL));
    EXPECT_GT(entered, static_cast<uint64_t>(WAYS_ALL / 2));
    uint64_t looked = 0, taken = 0;
    const void *block;
    followed found;
    for (unsigned i = 0; i < WAYS_ALL; i++)
        if (follow_next(table.get(), &block, &found)) {
            looked++;
            EXPECT_EQ(block, block_at(found.birth));
            taken += follow_end(table.get(), block, &found);
        }
    EXPECT_EQ(looked, entered) << "one round sees every block";
    EXPECT_EQ(taken, entered);
}

/* Seen to fail with follow_end() that looks in the set of now only. */
TEST(Follow, ATableThatGrowsFindsWhatWasEnteredBefore)
{
    auto table = std::make_unique<Table>();
    std::vector<uint64_t> entered;
    for (size_t room = 8; room <= WAYS_ALL; room *= 2) {
        follow_make_room(table.get(), room);
        for (uint64_t i = 0; i < room / 4; i++)
            if (follow_begin(table.get(), block_at(room * 8 + i), {1, 0, {}}))
                entered.push_back(room * 8 + i);
    }
    EXPECT_GT(entered.size(), static_cast<size_t>(WAYS_ALL / 4));
    followed found;
    for (uint64_t number : entered)
        EXPECT_TRUE(follow_end(table.get(), block_at(number), &found)) << number;
}

/* Seen to fail with a table that begins with all its sets. */
TEST(Follow, AFewBlocksAreInFewPages)
{
    auto table = std::make_unique<Table>();
    follow_make_room(table.get(), 400);
    for (uint64_t i = 0; i < 400; i++)
        follow_begin(table.get(), block_at(i * 977), {1, 0, {}});
    size_t highest = 0;
    for (size_t i = 0; i < WAYS_ALL; i++)
        highest = load(&table->ways, RELAXED)[i].block != 0 ? i : highest;
    EXPECT_LT(highest * sizeof table->ways[0], size_t{32} * 1024);
}

TEST(Follow, OfSeveralThreadsThatTakeABlockOutOneHasIt)
{
    enum { THREADS = 4, BLOCKS = 1000, ROUNDS = 200 };
    auto table = std::make_unique<Table>();
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t entered = 0;
        for (uint64_t i = 0; i < BLOCKS; i++)
            entered += follow_begin(table.get(), block_at(i), {1, round, {}});
        std::vector<uint64_t> taken(THREADS);
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < THREADS; t++)
            threads.emplace_back([&, t] {
                followed found;
                for (uint64_t i = 0; i < BLOCKS; i++)
                    taken[t] += follow_end(table.get(), block_at(i), &found);
            });
        uint64_t sum = 0;
        for (unsigned t = 0; t < THREADS; t++) {
            threads[t].join();
            sum += taken[t];
        }
        ASSERT_EQ(sum, entered);
    }
}
