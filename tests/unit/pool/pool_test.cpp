/*
 * pool_test.cpp: pool/pool.c: each operation, its misuse, and random sequences against an oracle.
 */
#include <gtest/gtest.h>

#include <map>

#include "../pool_support.h"

using calm_test::Pool;
using calm_test::PoolConfig;

namespace
{

constexpr size_t MiB = 1 << 20;

uintptr_t number(const void *address)
{
    return reinterpret_cast<uintptr_t>(address);
}

TEST(Alloc, TheSmallestClassThatHoldsTheSizeGivesTheBlock)
{
    /* Below and above the table, neighbours that share a step of 8, and 64 classes. */
    std::vector<size_t> sizes = {1, 2, 3, 7, 8, 20, 24, 25, 1024, 1025, 1030, 5000, 99999, MiB};
    std::vector<uint32_t> shares(sizes.size(), 7);
    shares.back() = 9;
    Pool pool({sizes, shares, 32 * MiB});
    ASSERT_EQ(pool.error, 0);
    for (size_t size = 0; size <= MiB; size += size < 2000 ? 1 : 997) {
        size_t expected = *std::lower_bound(sizes.begin(), sizes.end(), size);
        size_t stride = expected > 8 ? (expected + 7) / 8 * 8 : expected;
        stride = expected == 3 ? 4 : expected == 7 ? 8 : stride;
        void *block = calm_pool_alloc(pool, size);
        ASSERT_NE(block, nullptr) << size;
        ASSERT_EQ(calm_pool_usable_size(pool, block), stride) << size;
        ASSERT_EQ(calm_pool_free(pool, block), 0);
    }
    EXPECT_EQ(calm_pool_alloc(pool, MiB + 1), nullptr);
    EXPECT_EQ(calm_pool_alloc(pool, SIZE_MAX), nullptr);
}

TEST(Alloc, WhatWasFreedLastComesBackUntilAnotherBlockIsFreed)
{
    Pool pool({{16, 32}, {50, 50}, MiB});
    void *low = calm_pool_alloc(pool, 16), *high = calm_pool_alloc(pool, 16);
    for (int round = 0; round < 3; round++) {
        ASSERT_EQ(calm_pool_free(pool, high), 0);
        ASSERT_EQ(calm_pool_free(pool, high), CALM_EDOUBLE);
        ASSERT_EQ(calm_pool_alloc(pool, round == 1 ? 3 : 16), high);
    }
    void *third = calm_pool_alloc(pool, 16);
    ASSERT_NE(third, high);
    ASSERT_EQ(calm_pool_free(pool, third), 0);
    void *wide = calm_pool_alloc(pool, 32); /* of another class */
    ASSERT_EQ(calm_pool_usable_size(pool, wide), 32u);
    ASSERT_EQ(calm_pool_free(pool, wide), 0);
    ASSERT_EQ(calm_pool_alloc(pool, 16), third);
    ASSERT_EQ(calm_pool_free(pool, third), 0);
    ASSERT_EQ(calm_pool_free(pool, low), 0); /* now the lowest is another one */
    EXPECT_EQ(calm_pool_alloc(pool, 16), low);
    EXPECT_EQ(calm_pool_alloc(pool, 16), third);
    calm_pool_stats stats;
    calm_pool_stats_read(pool, &stats);
    EXPECT_EQ(stats.by_class[0].allocs, 9u);
    EXPECT_EQ(stats.by_class[0].free_blocks, pool.limits.blocks[0] - 3);
    EXPECT_EQ(stats.by_class[0].least_free, pool.limits.blocks[0] - 3);
    EXPECT_EQ(pool_verify(pool), nullptr);
}

TEST(Alloc, SixtyFourClassesAreTold)
{
    std::vector<size_t> sizes;
    std::vector<uint32_t> shares(64, 1);
    for (size_t i = 0; i < 64; i++)
        sizes.push_back(1000 + i);
    shares[0] = 37;
    Pool pool({sizes, shares, 64 * MiB});
    ASSERT_EQ(pool.error, 0);
    std::vector<std::pair<void *, size_t>> blocks;
    for (size_t size : sizes)
        blocks.emplace_back(calm_pool_alloc(pool, size), (size + 7) / 8 * 8);
    for (auto [block, stride] : blocks) {
        EXPECT_EQ(calm_pool_usable_size(pool, block), stride);
        EXPECT_EQ(calm_pool_free(pool, block), 0);
    }
    EXPECT_EQ(pool_verify(pool), nullptr);
}

TEST(Alloc, ExhaustionIsNullAndFreesMakeRoomAgain)
{
    Pool pool({{48}, {100}, 100000});
    std::vector<void *> blocks;
    while (void *block = calm_pool_alloc(pool, 48))
        blocks.push_back(block);
    EXPECT_EQ(blocks.size(), pool.limits.blocks[0]);
    EXPECT_EQ(calm_pool_alloc(pool, 1), nullptr);
    EXPECT_EQ(calm_pool_free(pool, blocks[7]), 0);
    EXPECT_EQ(calm_pool_alloc(pool, 1), blocks[7]);
    calm_pool_stats stats;
    calm_pool_stats_read(pool, &stats);
    EXPECT_EQ(stats.failed, 2u);
    EXPECT_EQ(stats.by_class[0].least_free, 0u);
}

TEST(Alloc, TheLowestFreeBlockIsTakenWhateverTheOrderOfFrees)
{
    Pool pool({{64}, {100}, 4 * MiB});
    std::vector<void *> blocks(pool.limits.blocks[0]);
    for (void *&block : blocks)
        block = calm_pool_alloc(pool, 64);
    EXPECT_TRUE(std::is_sorted(blocks.begin(), blocks.end()));
    std::vector<void *> mixed = blocks;
    calm_test::Random random(6);
    for (size_t i = mixed.size() - 1; i > 0; i--)
        std::swap(mixed[i], mixed[random.below(i + 1)]);
    for (size_t i = 0; i < mixed.size(); i++) {
        ASSERT_EQ(i % 2 ? calm_pool_free(pool, mixed[i]) : calm_pool_free_remote(pool, mixed[i]),
                  0);
    }
    calm_test::drain_all(pool);
    for (void *block : blocks) {
        ASSERT_EQ(calm_pool_alloc(pool, 64), block);
    }
}

TEST(AllocAligned, IsAlignedOrNull)
{
    Pool pool({{24, 48, 64, 4096, 12288}, {20, 20, 20, 20, 20}, 16 * MiB});
    for (size_t align = 1; align <= 8192; align *= 2)
        for (size_t size : {1, 24, 25, 64, 65, 4096, 4097, 12288}) {
            void *block = calm_pool_alloc_aligned(pool, size, align);
            if (align > CALM_POOL_ALIGN_MAX) {
                ASSERT_EQ(block, nullptr);
                continue;
            }
            ASSERT_NE(block, nullptr) << size << " " << align;
            ASSERT_EQ(number(block) % align, 0u);
            ASSERT_GE(calm_pool_usable_size(pool, block), size);
        }
    EXPECT_EQ(calm_pool_alloc_aligned(pool, 1, 0), nullptr);
    EXPECT_EQ(calm_pool_alloc_aligned(pool, 1, 48), nullptr);
    EXPECT_EQ(calm_pool_alloc_aligned(pool, 12289, 8), nullptr);
}

TEST(AllocAligned, NoClassWithTheAlignmentIsNull)
{
    Pool pool({{24, 40}, {50, 50}, MiB});
    EXPECT_EQ(calm_pool_alloc_aligned(pool, 8, 16), nullptr);
    EXPECT_NE(calm_pool_alloc_aligned(pool, 8, 8), nullptr);
}

TEST(Spill, AnExhaustedClassLendsFromTheNextOneOnly)
{
    Pool pool({{16, 32, 64}, {30, 30, 40}, 64 * 1024, CALM_POOL_SPILL});
    size_t got[3] = {};
    while (void *block = calm_pool_alloc(pool, 16))
        got[calm_pool_usable_size(pool, block) / 32]++;
    EXPECT_EQ(got[0], pool.limits.blocks[0]);
    EXPECT_EQ(got[1], pool.limits.blocks[1]);
    EXPECT_EQ(got[2], 0u);
    void *block = calm_pool_alloc(pool, 32);
    EXPECT_EQ(calm_pool_usable_size(pool, block), 64u);
    while (calm_pool_alloc(pool, 64) != nullptr)
        ;
    calm_pool_stats stats;
    calm_pool_stats_read(pool, &stats);
    EXPECT_EQ(stats.spills, pool.limits.blocks[1] + 1);
    EXPECT_EQ(pool_verify(pool), nullptr);
}

TEST(Spill, AlignedRequestsSpillToTheNextAlignedClass)
{
    Pool pool({{16, 24, 64}, {10, 10, 80}, 256 * 1024, CALM_POOL_SPILL});
    for (uint32_t i = 0; i < pool.limits.blocks[0]; i++) {
        ASSERT_NE(calm_pool_alloc_aligned(pool, 16, 16), nullptr);
    }
    void *block = calm_pool_alloc_aligned(pool, 16, 16);
    EXPECT_EQ(calm_pool_usable_size(pool, block), 64u);
}

TEST(Spill, WhileItLastsBothClassesGetTheirRemoteFreesBack)
{
    Pool pool({{16, 32}, {50, 50}, 128 * 1024, CALM_POOL_SPILL});
    std::vector<void *> small, large;
    for (uint32_t i = 0; i < pool.limits.blocks[0]; i++)
        small.push_back(calm_pool_alloc(pool, 16));
    for (uint32_t i = 0; i < pool.limits.blocks[1]; i++)
        large.push_back(calm_pool_alloc(pool, 32));
    ASSERT_EQ(calm_pool_alloc(pool, 16), nullptr);
    ASSERT_EQ(calm_pool_free_remote(pool, small.back()), 0);
    ASSERT_EQ(calm_pool_free_remote(pool, large.back()), 0);
    std::set<void *> again;
    for (size_t calls = 0; calls < small.size() / 16; calls++)
        if (void *block = calm_pool_alloc(pool, 16))
            again.insert(block);
    EXPECT_EQ(again, (std::set<void *>{small.back(), large.back()}));
    EXPECT_EQ(pool_verify(pool), nullptr);
}

TEST(Spill, WithoutTheFlagThereIsNone)
{
    Pool pool({{16, 32}, {50, 50}, 64 * 1024});
    for (uint32_t i = 0; i < pool.limits.blocks[0]; i++) {
        ASSERT_NE(calm_pool_alloc(pool, 16), nullptr);
    }
    EXPECT_EQ(calm_pool_alloc(pool, 16), nullptr);
    EXPECT_NE(calm_pool_alloc(pool, 32), nullptr);
}

using Free = int (*)(calm_pool *, void *);

class Misuse : public testing::TestWithParam<Free>
{
};

TEST_P(Misuse, HasItsCodeAndChangesNothing)
{
    Free release = GetParam();
    static char memory[64 * 1024] __attribute__((aligned(64)));
    PoolConfig config({16, 72}, {50, 50}, sizeof memory);
    config.plain.memory = memory;
    Pool pool(config);
    ASSERT_EQ(pool.error, 0);
    auto *small = static_cast<char *>(calm_pool_alloc(pool, 16));
    auto *block = static_cast<char *>(calm_pool_alloc(pool, 72));
    auto *other = static_cast<char *>(calm_pool_alloc(pool, 72));
    ASSERT_EQ(calm_pool_free(pool, other), 0);
    const calm_pool *inside = pool;
    std::string maps(reinterpret_cast<const char *>(inside->classes[0].free),
                     inside->blocks - reinterpret_cast<const char *>(inside->classes[0].free));
    int on_stack;
    EXPECT_EQ(release(pool, nullptr), 0);
    EXPECT_EQ(release(pool, small + 8), CALM_EMISALIGNED);
    EXPECT_EQ(release(pool, block + 1), CALM_EMISALIGNED);
    EXPECT_EQ(release(pool, block + 8), CALM_EINTERIOR);
    EXPECT_EQ(release(pool, block + 64), CALM_EINTERIOR);
    EXPECT_EQ(release(pool, other), CALM_EDOUBLE);
    EXPECT_EQ(release(pool, other + 72), CALM_EDOUBLE); /* never handed out */
    EXPECT_EQ(release(pool, &on_stack), CALM_EFOREIGN);
    EXPECT_EQ(release(pool, memory), CALM_EFOREIGN);
    EXPECT_EQ(release(pool, memory + sizeof memory), CALM_EFOREIGN);
    EXPECT_EQ(release(pool, reinterpret_cast<void *>(UINTPTR_MAX)), CALM_EFOREIGN);
    std::string after(reinterpret_cast<const char *>(inside->classes[0].free), maps.size());
    EXPECT_EQ(maps, after);
    EXPECT_EQ(pool_verify(pool), nullptr);
    calm_pool_stats stats;
    calm_pool_stats_read(pool, &stats);
    EXPECT_EQ(stats.misuses, 10u);
    EXPECT_EQ(release(pool, block), 0);
    EXPECT_EQ(release(pool, small), 0);
}

TEST_P(Misuse, ABlockThatWasNeverHandedOutIsFree)
{
    Free release = GetParam();
    std::vector<char> room(256 * 1024 + 64, '\xA5'); /* what was there before says nothing */
    PoolConfig config({16, 72}, {50, 50}, 256 * 1024);
    config.plain.memory = room.data() + (-number(room.data()) & 63);
    Pool pool(config);
    ASSERT_EQ(pool.error, 0);
    const calm_pool *inside = pool;
    auto *first = static_cast<char *>(calm_pool_alloc(pool, 16));
    for (uint32_t i = 1; i < pool.limits.blocks[0]; i++) {
        ASSERT_EQ(release(pool, first + i * size_t(16)), CALM_EDOUBLE) << i;
        ASSERT_EQ(calm_pool_usable_size(pool, first + i * size_t(16)), 0u) << i;
    }
    char *other = inside->blocks + inside->classes[1].blocks_at; /* of a class nobody asked for */
    EXPECT_EQ(release(pool, other), CALM_EDOUBLE);
    EXPECT_EQ(release(pool, other + 72), CALM_EDOUBLE);
    EXPECT_EQ(release(pool, other + 8), CALM_EINTERIOR);
    for (uint32_t i = 1; i < pool.limits.blocks[0]; i++)
        ASSERT_EQ(calm_pool_alloc(pool, 16), first + i * size_t(16));
    EXPECT_EQ(calm_pool_alloc(pool, 16), nullptr);
    EXPECT_EQ(calm_pool_alloc(pool, 72), other);
    calm_test::drain_all(pool);
    EXPECT_EQ(calm_pool_alloc(pool, 16), nullptr);
    EXPECT_EQ(pool_verify(pool), nullptr);
}

TEST_P(Misuse, EveryAddressOfThePoolIsJudgedAsAnOracleDoes)
{
    Free release = GetParam();
    static char around[32 * 1024] __attribute__((aligned(4096)));
    char *memory = around + 4096; /* so that addresses outside can be formed */
    constexpr size_t bytes = 24 * 1024;
    PoolConfig config({1, 5, 24, 100, 640}, {10, 10, 20, 20, 40}, bytes);
    config.plain.memory = memory;
    Pool pool(config);
    ASSERT_EQ(pool.error, 0);
    std::set<char *> starts;
    for (size_t size : config.sizes)
        while (auto *block = static_cast<char *>(calm_pool_alloc(pool, size)))
            starts.insert(block);
    for (char *at = memory - 64; at < memory + bytes + 64; at++) {
        bool is_block = starts.count(at) != 0;
        ASSERT_EQ(calm_pool_usable_size(pool, at) != 0, is_block);
        int error = release(pool, at);
        ASSERT_EQ(error == 0, is_block) << at - memory;
        if (is_block) {
            ASSERT_EQ(release(pool, at), CALM_EDOUBLE);
        }
    }
    calm_test::drain_all(pool);
    EXPECT_EQ(pool_verify(pool), nullptr);
    for (size_t i = 0; i < config.sizes.size(); i++)
        EXPECT_EQ(calm_pool_watch_free(calm_pool_watch(pool), i), pool.limits.blocks[i]);
}

INSTANTIATE_TEST_SUITE_P(Frees, Misuse, testing::Values(calm_pool_free, calm_pool_free_remote));

TEST(Free, AStaleFreeAfterTheBlockWasHandedOutTwiceMoreIsTheOnlyOneNotSeen)
{
    /* What no allocator can tell: the address is live again. The pool stays whole. */
    Pool pool({{64}, {100}, MiB});
    void *block = calm_pool_alloc(pool, 64);
    for (int i = 0; i < 5; i++) {
        EXPECT_EQ(calm_pool_free(pool, block), 0);
        EXPECT_EQ(calm_pool_free(pool, block), CALM_EDOUBLE);
        EXPECT_EQ(calm_pool_free_remote(pool, block), CALM_EDOUBLE);
        EXPECT_EQ(calm_pool_alloc(pool, 64), block);
    }
    EXPECT_EQ(pool_verify(pool), nullptr);
}

TEST(Free, TheBlockThatWasHandedOutLastIsFreedOnceHoweverItIsFreed)
{
    using Way = int (*)(calm_pool *, void *);
    for (Way first : {calm_pool_free, calm_pool_free_remote}) {
        for (Way second : {calm_pool_free, calm_pool_free_remote}) {
            Pool pool({{64}, {100}, MiB});
            void *other = calm_pool_alloc(pool, 64), *last = calm_pool_alloc(pool, 64);
            EXPECT_EQ(first(pool, last), 0);
            EXPECT_EQ(second(pool, last), CALM_EDOUBLE);
            EXPECT_EQ(first(pool, nullptr), 0);
            EXPECT_EQ(second(pool, other), 0);
            EXPECT_EQ(first(pool, other), CALM_EDOUBLE);
            calm_test::drain_all(pool);
            EXPECT_EQ(pool_verify(pool), nullptr);
            EXPECT_EQ(calm_pool_watch_free(calm_pool_watch(pool), 0), pool.limits.blocks[0]);
        }
    }
}

TEST(Free, ABlockOfAWordThatIsNoLongerAtHandIsFreedInItsOwn)
{
    Pool pool({{64}, {100}, MiB});
    std::vector<void *> blocks;
    for (int i = 0; i < 130; i++)
        blocks.push_back(calm_pool_alloc(pool, 64));
    EXPECT_EQ(calm_pool_free(pool, blocks[3]), 0); /* the first word comes back */
    EXPECT_EQ(calm_pool_free(pool, blocks[129]), 0);
    EXPECT_EQ(calm_pool_usable_size(pool, blocks[129]), 0u);
    EXPECT_EQ(calm_pool_usable_size(pool, blocks[1]), 64u);
    EXPECT_EQ(pool_verify(pool), nullptr);
    EXPECT_EQ(calm_pool_alloc(pool, 64), blocks[3]);
    EXPECT_EQ(calm_pool_alloc(pool, 64), blocks[129]);
}

TEST(Free, WhereTwoClassesMeetTheBlockHandedOutLastIsForgottenToo)
{
    /* The last blocks of the first class lie in the part of the range where the second begins. */
    Pool pool({{64, 128}, {1, 99}, MiB});
    uint32_t blocks = pool.limits.blocks[0];
    std::vector<void *> out;
    for (uint32_t i = 0; i < blocks; i++)
        out.push_back(calm_pool_alloc(pool, 64));
    ASSERT_NE(calm_pool_alloc(pool, 128), nullptr);
    ASSERT_EQ(calm_pool_free(pool, out[blocks - 1]), 0);
    ASSERT_EQ(calm_pool_free(pool, out[blocks - 2]), 0);
    ASSERT_EQ(calm_pool_alloc(pool, 64), out[blocks - 2]);
    ASSERT_EQ(calm_pool_free(pool, out[blocks - 3]), 0);
    ASSERT_EQ(calm_pool_free(pool, out[blocks - 2]), 0);
    ASSERT_EQ(pool_verify(pool), nullptr);
    for (uint32_t i = 3; i > 0; i--)
        EXPECT_EQ(calm_pool_alloc(pool, 64), out[blocks - i]);
    EXPECT_EQ(calm_pool_alloc(pool, 64), nullptr);
}

TEST(Drain, TakesBackAWordsBlocksAtATimeAndFindsThemAtOnce)
{
    Pool pool({{32}, {100}, MiB});
    std::vector<void *> blocks;
    while (void *block = calm_pool_alloc(pool, 32))
        blocks.push_back(block);
    size_t some[] = {blocks.size() - 1, blocks.size() / 2, 0};
    for (size_t i : some) {
        ASSERT_EQ(calm_pool_free_remote(pool, blocks[i]), 0);
        EXPECT_EQ(calm_pool_drain(pool), 1u);
        EXPECT_EQ(calm_pool_alloc(pool, 32), blocks[i]);
        EXPECT_EQ(calm_pool_drain(pool), 0u);
    }
    for (void *block : blocks) {
        ASSERT_EQ(calm_pool_free_remote(pool, block), 0);
    }
    size_t total = 0;
    while (uint32_t found = calm_pool_drain(pool)) {
        EXPECT_LE(found, 64u);
        total += found;
        ASSERT_EQ(pool_verify(pool), nullptr);
    }
    EXPECT_EQ(total, blocks.size());
    EXPECT_EQ(calm_pool_watch_free(calm_pool_watch(pool), 0), blocks.size());
}

/* All blocks of 64^2 words and more, so that each level has several words. */
TEST(Remote, TheNextRequestOfAnExhaustedClassHasABlockThatAnotherFreed)
{
    Pool pool({{1}, {100}, 2 * MiB});
    std::vector<void *> blocks;
    while (void *block = calm_pool_alloc(pool, 1))
        blocks.push_back(block);
    ASSERT_GT(blocks.size(), 2 * 64u * 64u * 64u);
    calm_test::Random random(7);
    for (int round = 0; round < 3000; round++) {
        size_t i = random.below(blocks.size()), j = random.below(blocks.size());
        ASSERT_EQ(calm_pool_free_remote(pool, blocks[i]), 0);
        ASSERT_EQ(calm_pool_free_remote(pool, blocks[j]), i == j ? CALM_EDOUBLE : 0);
        void *first = calm_pool_alloc(pool, 1), *second = calm_pool_alloc(pool, 1);
        ASSERT_EQ(first, std::min(blocks[i], blocks[j]));
        ASSERT_EQ(second, i == j ? nullptr : std::max(blocks[i], blocks[j]));
    }
    EXPECT_EQ(pool_verify(pool), nullptr);
}

TEST(Remote, WithSpillNoMixOfSizesHidesABlockThatAnotherFreed)
{
    Pool pool({{64, 256, 1024}, {20, 40, 40}, MiB, CALM_POOL_SPILL});
    ASSERT_EQ(calm_pool_free_remote(pool, nullptr), 0);
    std::vector<void *> blocks;
    while (void *block = calm_pool_alloc(pool, 64))
        blocks.push_back(block); /* of 256 bytes, too */
    size_t own = pool.limits.blocks[0];
    ASSERT_EQ(blocks.size(), own + pool.limits.blocks[1]);
    while (calm_pool_alloc(pool, 1024) != nullptr)
        continue;
    for (size_t i = 0; i < own; i++) {
        ASSERT_EQ(calm_pool_free_remote(pool, blocks[i]), 0);
    }
    for (size_t i = 0; i < own; i++) {
        ASSERT_NE(calm_pool_alloc(pool, 64), nullptr) << i;
        ASSERT_EQ(calm_pool_alloc(pool, 256), nullptr) << i;
    }
    EXPECT_EQ(calm_pool_alloc(pool, 64), nullptr);
    ASSERT_EQ(calm_pool_free_remote(pool, blocks[own]), 0);
    EXPECT_EQ(calm_pool_alloc(pool, 64), blocks[own]) << "the lender's";
    EXPECT_EQ(pool_verify(pool), nullptr);
}

TEST(Remote, NoFreshWordIsBegunWhileABlockThatAnotherFreedIsThere)
{
    Pool pool({{64}, {100}, MiB});
    std::vector<void *> blocks;
    for (int i = 0; i < 64; i++)
        blocks.push_back(calm_pool_alloc(pool, 64));
    for (int round = 0; round < 100; round++) {
        ASSERT_EQ(calm_pool_free_remote(pool, blocks[static_cast<size_t>(round % 64)]), 0);
        ASSERT_EQ(calm_pool_alloc(pool, 64), blocks[static_cast<size_t>(round % 64)]);
    }
}

TEST(Owns, TheBlocksRangeAndNothingElse)
{
    Pool pool({{64}, {100}, MiB}), other({{64}, {100}, MiB});
    auto *block = static_cast<char *>(calm_pool_alloc(pool, 64));
    EXPECT_TRUE(calm_pool_owns(pool, block));
    EXPECT_TRUE(calm_pool_owns(pool, block + 63));
    EXPECT_FALSE(calm_pool_owns(other, block));
    EXPECT_FALSE(calm_pool_owns(pool, &pool));
    EXPECT_FALSE(calm_pool_owns(pool, nullptr));
    EXPECT_EQ(calm_pool_free(other, block), CALM_EFOREIGN);
}

TEST(Watch, FollowsEveryCall)
{
    Pool pool({{16, 4096}, {50, 50}, MiB});
    const calm_pool_occupancy *watch = calm_pool_watch(pool);
    EXPECT_EQ(number(watch) % 64, 0u);
    uint64_t bytes = calm_pool_watch_bytes(watch);
    EXPECT_EQ(bytes, pool.limits.blocks[0] * 16 + pool.limits.blocks[1] * 4096ull);
    void *block = calm_pool_alloc(pool, 4096);
    EXPECT_EQ(calm_pool_watch_free(watch, 1), pool.limits.blocks[1] - 1);
    EXPECT_EQ(calm_pool_watch_bytes(watch), bytes - 4096);
    ASSERT_EQ(calm_pool_free(pool, block), 0);
    EXPECT_EQ(calm_pool_watch_free(watch, 1), pool.limits.blocks[1]);
    EXPECT_EQ(calm_pool_watch_bytes(watch), bytes);
    EXPECT_EQ(calm_pool_watch_free(watch, 2), 0u);
}

TEST(Watch, ManyClassesAreCodedAsLowerBounds)
{
    std::vector<size_t> sizes;
    for (size_t i = 0; i < 64; i++)
        sizes.push_back(8 + 8 * i);
    std::vector<uint32_t> shares(64, 1);
    shares[63] = 37;
    Pool pool({sizes, shares, 4 * MiB});
    const calm_pool_occupancy *watch = calm_pool_watch(pool);
    for (size_t i = 0; i < 64; i++) {
        for (uint32_t left = pool.limits.blocks[i]; left > 0; left--) {
            uint32_t told = calm_pool_watch_free(watch, i);
            ASSERT_LE(told, left);
            ASSERT_GT(told, std::min<uint32_t>(left, 16384) / 2);
            ASSERT_NE(calm_pool_alloc(pool, sizes[i]), nullptr);
        }
        ASSERT_EQ(calm_pool_watch_free(watch, i), 0u);
    }
    EXPECT_EQ(calm_pool_watch_bytes(watch), 0u);
    EXPECT_EQ(pool_verify(pool), nullptr);
}

TEST(Watch, TheBacklogIsWhatTheLastLooksFound)
{
    Pool pool({{64, 128}, {50, 50}, MiB});
    const calm_pool_occupancy *watch = calm_pool_watch(pool);
    for (size_t bytes : {64, 64, 64, 128}) {
        ASSERT_EQ(calm_pool_free_remote(pool, calm_pool_alloc(pool, bytes)), 0);
    }
    const uint32_t told[] = {3, 4, 1, 0};
    for (uint32_t backlog : told) {
        calm_pool_drain(pool);
        EXPECT_EQ(calm_pool_watch_backlog(watch), backlog);
    }
}

/* Random operations against an oracle that knows every live block. */
class Oracle : public testing::TestWithParam<std::tuple<int, unsigned>>
{
};

TEST_P(Oracle, RandomSequences)
{
    auto [seed, flags] = GetParam();
    calm_test::Random random(static_cast<uint64_t>(seed));
    std::vector<size_t> sizes = {1, 16, 24, 100, 1000, 5000, 70000};
    PoolConfig config(sizes, {5, 15, 20, 20, 20, 10, 10}, 2 * MiB, flags);
    Pool pool(config);
    ASSERT_EQ(pool.error, 0);
    std::map<char *, std::pair<size_t, char>> live;
    for (int step = 0; step < 30000; step++) {
        bool grows = random.below(1000) < (step / 5000 % 2 == 0 ? 600u : 400u);
        if (grows) {
            size_t size = sizes[random.below(sizes.size())];
            size -= random.below(std::min<size_t>(size, 8));
            auto *block = static_cast<char *>(calm_pool_alloc(pool, size));
            if (block == nullptr)
                continue;
            auto next = live.lower_bound(block);
            ASSERT_TRUE(next == live.end() || block + size <= next->first);
            ASSERT_TRUE(next == live.begin() ||
                        std::prev(next)->first + std::prev(next)->second.first <= block);
            char mark = static_cast<char>(step);
            memset(block, mark, size);
            live[block] = {size, mark};
        } else if (!live.empty()) {
            auto at = live.lower_bound(live.begin()->first + random.below(2 * MiB));
            at = at == live.end() ? live.begin() : at;
            auto [size, mark] = at->second;
            ASSERT_EQ(std::count(at->first, at->first + size, mark), static_cast<long>(size));
            char *block = at->first;
            live.erase(at);
            ASSERT_EQ(random.below(3) ? calm_pool_free(pool, block)
                                      : calm_pool_free_remote(pool, block),
                      0);
            if (random.below(8) == 0) {
                ASSERT_EQ(calm_pool_free_remote(pool, block), CALM_EDOUBLE);
            }
        }
        if (step % 500 == 0) {
            ASSERT_EQ(pool_verify(pool), nullptr) << step;
        }
    }
    for (auto &[block, what] : live) {
        ASSERT_EQ(calm_pool_free(pool, block), 0);
    }
    calm_test::drain_all(pool);
    ASSERT_EQ(pool_verify(pool), nullptr);
    for (size_t i = 0; i < sizes.size(); i++)
        EXPECT_EQ(calm_pool_watch_free(calm_pool_watch(pool), i), pool.limits.blocks[i]);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Oracle,
                         testing::Combine(testing::Range(1, 7),
                                          testing::Values(0u, unsigned(CALM_POOL_SPILL))));

} // namespace
