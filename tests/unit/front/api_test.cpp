/*
 * api_test.cpp: the calm_ names keep the contracts of calmalloc.h.
 */
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <errno.h>

#include "../heap_support.h"

TEST(Api, TheVersionIsTheHeaders)
{
    EXPECT_STREQ(calm_version(), CALM_VERSION_TEXT);
    EXPECT_EQ(std::string(calm_version()), std::to_string(CALM_VERSION_MAJOR) + "." +
                                               std::to_string(CALM_VERSION_MINOR) + "." +
                                               std::to_string(CALM_VERSION_PATCH));
}

TEST(Api, ZeroBytesGiveAUniqueBlock)
{
    void *first = calm_malloc(0), *second = calm_malloc(0), *third = calm_calloc(0, 5),
         *fourth = calm_calloc(5, 0);
    EXPECT_EQ((std::set<void *>{first, second, third, fourth, nullptr}).size(), 5u);
    for (void *block : {first, second, third, fourth})
        calm_free(block);
}

TEST(Api, WhatCannotBeReturnsNullAndENOMEMAndIsCounted)
{
    struct calm_stats before, after;
    calm_stats_read(&before);
    void *block = calm_malloc(100);
    const size_t huge = static_cast<size_t>(PTRDIFF_MAX) + 1;
    void *volatile results[] = {nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
    size_t index = 0;
    auto expect_failure = [&](void *result) {
        EXPECT_EQ(result, nullptr) << index;
        EXPECT_EQ(errno, ENOMEM) << index;
        results[index++] = result;
        errno = 0;
    };
    errno = 0;
    expect_failure(calm_malloc(huge));
    expect_failure(calm_malloc(SIZE_MAX));
    expect_failure(calm_calloc(SIZE_MAX / 2, 3));
    expect_failure(calm_realloc(block, huge));
    expect_failure(calm_reallocarray(block, SIZE_MAX / 2, 3));
    expect_failure(calm_aligned_alloc(16, SIZE_MAX));
    expect_failure(calm_aligned_alloc(static_cast<size_t>(1) << 63, 1));
    calm_stats_read(&after);
    EXPECT_EQ(after.failed_calls - before.failed_calls, 7u);
    EXPECT_GE(calm_usable_size(block), 100u);
    calm_free(block);
}

TEST(Api, AnAlignmentThatIsNoPowerOfTwoIsEINVAL)
{
    for (size_t alignment : {0u, 3u, 24u, 4095u}) {
        errno = 0;
        EXPECT_EQ(calm_aligned_alloc(alignment, 10), nullptr);
        EXPECT_EQ(errno, EINVAL) << alignment;
    }
}

TEST(Api, FreeKeepsErrno)
{
    for (size_t bytes : {10u, 10000u, 100000u, 10000000u}) {
        std::vector<void *> blocks;
        for (unsigned i = 0; i < 50; i++)
            blocks.push_back(calm_malloc(bytes));
        errno = 1234;
        for (void *block : blocks)
            calm_free(block);
        calm_free(nullptr);
        EXPECT_EQ(errno, 1234);
    }
}

TEST(Api, ReallocOfNullAllocatesAndToZeroFrees)
{
    void *block = calm_realloc(nullptr, 50);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(calm_realloc(block, 0), nullptr);
    block = calm_reallocarray(nullptr, 5, 10);
    ASSERT_NE(block, nullptr);
    EXPECT_GE(calm_usable_size(block), 50u);
    calm_free(block);
    EXPECT_EQ(calm_usable_size(nullptr), 0u);
}

TEST(Api, OptionsAreReadAndWrittenByName)
{
    uint64_t value = 0;
    EXPECT_EQ(calm_option_get("cache_kb", &value), 0);
    EXPECT_EQ(value, 4096u);
    EXPECT_EQ(calm_option_get("nothing", &value), ENOENT);
    EXPECT_EQ(calm_option_set("nothing", 1), ENOENT);
    EXPECT_EQ(calm_option_set("cohorts", 1), EPERM);
    EXPECT_EQ(calm_option_set("cache_kb", 1), EINVAL);
}

/* Seen to fail with a calm_sites_json that forgets what the write said. */
TEST(Api, SitesThatCannotBeWrittenAreAnErrno)
{
    EXPECT_EQ(calm_sites_json(-1), EBADF);
    int full = open("/dev/full", O_WRONLY);
    ASSERT_GE(full, 0);
    EXPECT_EQ(calm_sites_json(full), ENOSPC);
    close(full);
}

/* Seen to fail while the option was stored and nobody read it again. */
TEST(Api, AnOptionThatMayChangeAnyTimeTakesEffect)
{
    calm_free(calm_malloc(10));
    EXPECT_EQ(calm_option_set("cache_kb", 128), 0);
    EXPECT_LE(caches_budget.each, 128u * 1024u);
    EXPECT_EQ(calm_option_set("purge_delay_ms", 33), 0);
    EXPECT_EQ(purge_settings.delay_ms, 33u);
    EXPECT_EQ(calm_option_set("misuse", 0), 0);
    EXPECT_FALSE(misuse_policy.stops_on_misuse);
    EXPECT_EQ(calm_option_set("foreign", 1), 0);
    EXPECT_TRUE(misuse_policy.stops_on_foreign);
    EXPECT_EQ(calm_option_set("foreign", 0), 0);
    EXPECT_EQ(calm_option_set("misuse", 1), 0);
    EXPECT_EQ(calm_option_set("purge_delay_ms", 250), 0);
    EXPECT_EQ(calm_option_set("cache_kb", 4096), 0);
}

TEST(Api, AVerifyOfAHeapInUseFindsNothingAndOfABrokenOneTheBreak)
{
    void *block = calm_malloc(64);
    EXPECT_EQ(calm_verify(), nullptr);
    struct slab *slab = slab_of_chunk(region_chunk(block));
    slab->free_map[0] ^= 1;
    const char *found = calm_verify();
    slab->free_map[0] ^= 1;
    EXPECT_NE(found, nullptr);
    EXPECT_EQ(calm_verify(), nullptr);
    calm_free(block);
}

TEST(Adapter, BlocksAreAlignedAndHoldWhatIsWrittenToThem)
{
    std::vector<std::pair<unsigned char *, size_t>> blocks;
    for (size_t size = 0; size < 200000; size += 1 + size / 5) {
        auto *block = static_cast<unsigned char *>(calm_malloc(size));
        ASSERT_NE(block, nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % (size > 8 ? 16 : 8), 0u);
        memset(block, static_cast<int>(size & 255), size);
        blocks.emplace_back(block, size);
    }
    for (auto [block, size] : blocks) {
        for (size_t i = 0; i < size; i++)
            ASSERT_EQ(block[i], size & 255);
        calm_adapter_free(block, size, 1);
    }
    EXPECT_EQ(calm_verify(), nullptr);
}

TEST(Adapter, AFreedBlockIsTheNextOneOfItsSize)
{
    for (size_t size : {1, 48, 1000, 5000, 32768}) {
        void *block = calm_malloc(size);
        calm_adapter_free(block, size, 1);
        void *again = calm_malloc(size);
        EXPECT_EQ(again, block) << size;
        calm_adapter_free(again, size, 1);
    }
}

TEST(Adapter, WhatCannotBeReturnsNullAndENOMEM)
{
    errno = 0;
    EXPECT_EQ(calm_malloc(SIZE_MAX), nullptr);
    EXPECT_EQ(errno, ENOMEM);
}

TEST(Adapter, AFreeOfForeignPointersIsCountedAndLeavesThemAlone)
{
    static char mine[64];
    struct calm_stats before, after;
    calm_stats_read(&before);
    for (uintptr_t address : {reinterpret_cast<uintptr_t>(mine), uintptr_t{1}, ~uintptr_t{0}})
        calm_adapter_free(reinterpret_cast<void *>(address), 64, 1);
    calm_stats_read(&after);
    EXPECT_EQ(after.foreign_frees - before.foreign_frees, 3u);
}

/* Seen to fail with a copy of one byte less. */
TEST(Adapter, ReallocKeepsTheContentsFromAnySizeToAnySize)
{
    uint64_t before = misuse_count();
    const size_t sizes[] = {1,    8,    9,    16,   17,    48,    100,   112,
                            1000, 1024, 1025, 5000, 32768, 40000, 200000};
    for (size_t from : sizes)
        for (size_t through : sizes)
            for (size_t to : sizes) {
                auto *block = static_cast<unsigned char *>(calm_malloc(from));
                memset(block, 0x11, from);
                block[from - 1] = 0x77;
                block = static_cast<unsigned char *>(calm_adapter_realloc(block, from, through));
                ASSERT_NE(block, nullptr);
                ASSERT_GE(calm_usable_size(block), through);
                ASSERT_TRUE(through < from || block[from - 1] == 0x77) << from << " " << through;
                memset(block, 0x22, through);
                block[through - 1] = 0x33;
                block = static_cast<unsigned char *>(calm_adapter_realloc(block, through, to));
                ASSERT_TRUE(to < through || block[through - 1] == 0x33) << through << " " << to;
                calm_adapter_free(block, to, 1);
            }
    EXPECT_EQ(misuse_count(), before);
    EXPECT_EQ(calm_verify(), nullptr);
}

TEST(Adapter, ReallocWithinTheClassStaysAndAFailedOneLeavesTheBlock)
{
    void *block = calm_malloc(33);
    EXPECT_EQ(calm_adapter_realloc(block, 33, calm_good_size(33)), block);
    EXPECT_EQ(calm_adapter_realloc(block, 48, SIZE_MAX), nullptr);
    EXPECT_EQ(calm_usable_size(block), calm_good_size(33));
    calm_adapter_free(block, 48, 1);
}

TEST(Adapter, ReallocTakesASmallBlockWithAnAlignment)
{
    uint64_t before = misuse_count();
    for (size_t alignment : {1, 8, 16})
        for (size_t size = 1; size <= 40; size++) {
            void *block = calm_aligned_alloc(alignment, size);
            block = calm_adapter_realloc(block, size, 3 * size + 20);
            calm_adapter_free(block, 3 * size + 20, alignment);
        }
    EXPECT_EQ(misuse_count(), before);
}
