/*
 * malloc_test.cpp: malloc, calloc, realloc, reallocarray, free and cfree as ISO C, POSIX and the
 * manual pages have them: zero sizes, overflow, errno, contents through growth and shrinkage over
 * every kind of block.
 */
#include "support.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <malloc.h>
#include <set>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

extern "C" void cfree(void *block);

namespace
{

const std::size_t LARGEST = 128 * MIB;

TEST(Malloc, EverySizeGivesAWritableBlockAlignedForItsSize)
{
    for (std::size_t size : sizes_up_to(LARGEST)) {
        void *block = malloc(opaque(size));
        ASSERT_NE(block, nullptr) << size;
        EXPECT_TRUE(is_aligned(block, size > 8 ? 16 : 8)) << size;
        pattern_write(block, size, 1);
        EXPECT_EQ(pattern_errors(block, size, 1), 0u) << size;
        free(block);
    }
}

TEST(Malloc, LiveBlocksNeverOverlap)
{
    std::vector<std::size_t> sizes = sizes_up_to(MIB);
    std::vector<void *> blocks;
    for (unsigned round = 0; round < 3; round++)
        for (std::size_t size : sizes) {
            void *block = malloc(size);
            ASSERT_NE(block, nullptr);
            pattern_write(block, size, static_cast<unsigned>(blocks.size()));
            blocks.push_back(block);
        }
    for (std::size_t i = 0; i < blocks.size(); i++) {
        EXPECT_EQ(pattern_errors(blocks[i], sizes[i % sizes.size()], static_cast<unsigned>(i)), 0u);
        free(blocks[i]);
    }
}

TEST(Malloc, SizeZeroGivesDistinctBlocksThatCanBeFreed)
{
    std::set<void *> blocks;
    for (int i = 0; i < 10000; i++) {
        void *block = malloc(opaque<std::size_t>(0));
        ASSERT_NE(block, nullptr);
        EXPECT_TRUE(blocks.insert(block).second) << "handed out twice while live";
    }
    for (void *block : blocks)
        free(block);
}

TEST(Malloc, SizesAbovePtrdiffMaxFailWithEnomem)
{
    for (std::size_t size : {too_large(), too_large() + 1, SIZE_MAX - 65536, SIZE_MAX - 4096,
                             SIZE_MAX - 15, SIZE_MAX - 1, SIZE_MAX}) {
        errno = 0;
        EXPECT_EQ(malloc(opaque(size)), nullptr) << size;
        EXPECT_EQ(errno, ENOMEM) << size;
    }
}

TEST(Malloc, SizesThatNoMachineHasFailWithEnomemAndLeaveTheHeapWorking)
{
    for (std::size_t shift = 47; shift < 63; shift++) {
        errno = 0;
        EXPECT_EQ(malloc(opaque(std::size_t{1} << shift)), nullptr) << shift;
        EXPECT_EQ(errno, ENOMEM) << shift;
    }
    errno = 0;
    EXPECT_EQ(malloc(opaque<std::size_t>(PTRDIFF_MAX)), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    void *block = malloc(100);
    EXPECT_NE(block, nullptr);
    free(block);
}

TEST(Free, OfNullDoesNothing)
{
    free(opaque<void *>(nullptr));
    cfree(opaque<void *>(nullptr));
}

TEST(Free, PreservesErrnoForEveryKindOfBlock)
{
    for (int value : {0, EINVAL, ENOMEM, 12345}) {
        errno = value;
        free(opaque<void *>(nullptr));
        EXPECT_EQ(errno, value);
        for (std::size_t size : sizes_up_to(LARGEST)) {
            void *block = malloc(size);
            ASSERT_NE(block, nullptr);
            errno = value;
            free(block);
            EXPECT_EQ(errno, value) << size;
        }
    }
}

TEST(Free, PreservesErrnoWhileManyBlocksLeaveTheCaches)
{
    std::vector<void *> blocks;
    for (std::size_t i = 0; i < 200000; i++)
        blocks.push_back(malloc(1 + i % 3000));
    errno = 4321;
    for (void *block : blocks)
        free(block);
    EXPECT_EQ(errno, 4321);
}

TEST(Cfree, FreesWhatMallocGave)
{
    for (int i = 0; i < 100000; i++) {
        void *block = malloc(10000);
        ASSERT_NE(block, nullptr);
        std::memset(block, 1, 10000);
        cfree(block);
    }
    rusage usage;
    ASSERT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
    EXPECT_LT(usage.ru_maxrss, 900 * 1024)
        << "a gigabyte was allocated in turn, so cfree frees nothing";
}

TEST(Calloc, FreshMemoryOfEverySizeIsZero)
{
    for (std::size_t size : sizes_up_to(LARGEST)) {
        void *block = calloc(opaque<std::size_t>(1), size);
        ASSERT_NE(block, nullptr) << size;
        EXPECT_EQ(nonzero_bytes(block, malloc_usable_size(block) < size ? 0 : size), 0u) << size;
        free(block);
    }
}

TEST(Calloc, ReusedDirtyMemoryOfEverySizeIsZero)
{
    for (std::size_t size : sizes_up_to(LARGEST)) {
        std::size_t count = size > MIB ? 2 : 16;
        std::vector<void *> blocks(count);
        for (void *&block : blocks) {
            block = malloc(size);
            ASSERT_NE(block, nullptr) << size;
            std::memset(block, 0xA5, size);
        }
        for (void *block : blocks)
            free(block);
        for (void *&block : blocks) {
            block = calloc(1, size);
            ASSERT_NE(block, nullptr) << size;
            EXPECT_EQ(nonzero_bytes(block, size), 0u) << size;
        }
        for (void *block : blocks)
            free(block);
    }
}

TEST(Calloc, MemoryThatWasGivenBackAndReusedInOtherSizesIsZero)
{
    unsigned random = 12345;
    for (int round = 0; round < 12; round++) {
        std::vector<void *> dirty;
        for (int i = 0; i < 60; i++) {
            random = random * 1103515245 + 12345;
            std::size_t size = 1 + (random >> 8) % (512 * KIB);
            dirty.push_back(malloc(size));
            ASSERT_NE(dirty.back(), nullptr);
            std::memset(dirty.back(), 0xFF, size);
        }
        for (std::size_t i = 0; i < dirty.size(); i += 1 + static_cast<std::size_t>(round) % 2)
            free(std::exchange(dirty[i], nullptr));
        if (round % 3 == 0)
            malloc_trim(0);
        for (int i = 0; i < 60; i++) {
            random = random * 1103515245 + 12345;
            std::size_t size = 1 + (random >> 8) % MIB;
            void *block = calloc(size, 1);
            ASSERT_NE(block, nullptr);
            EXPECT_EQ(nonzero_bytes(block, size), 0u) << size;
            std::memset(block, 0xEE, size);
            free(block);
        }
        for (void *block : dirty)
            free(block);
    }
}

TEST(Calloc, AProductThatOverflowsFailsWithEnomem)
{
    const std::size_t half = std::size_t{1} << 32;
    const std::size_t cases[][2] = {
        {half, half},         {SIZE_MAX, 2},        {2, SIZE_MAX},    {SIZE_MAX / 2 + 1, 2},
        {SIZE_MAX, SIZE_MAX}, {half + 1, half - 1}, {3, SIZE_MAX / 2}};
    for (const auto &[count, size] : cases) {
        errno = 0;
        EXPECT_EQ(calloc(opaque(count), opaque(size)), nullptr) << count << " * " << size;
        EXPECT_EQ(errno, ENOMEM) << count << " * " << size;
    }
}

TEST(Calloc, ZeroElementsOrZeroSizeGivesDistinctBlocks)
{
    void *no_elements = calloc(opaque<std::size_t>(0), opaque(SIZE_MAX));
    void *no_size = calloc(opaque(SIZE_MAX), opaque<std::size_t>(0));
    EXPECT_NE(no_elements, nullptr);
    EXPECT_NE(no_size, nullptr);
    EXPECT_NE(no_elements, no_size);
    free(no_elements);
    free(no_size);
}

TEST(Realloc, OfNullIsMalloc)
{
    for (std::size_t size : sizes_up_to(8 * MIB)) {
        void *block = realloc(opaque<void *>(nullptr), size);
        ASSERT_NE(block, nullptr) << size;
        EXPECT_GE(malloc_usable_size(block), size);
        pattern_write(block, size, 3);
        EXPECT_EQ(pattern_errors(block, size, 3), 0u);
        free(block);
    }
}

TEST(Realloc, ToZeroFreesAndReturnsNull)
{
    for (int i = 0; i < 3000; i++)
        for (std::size_t size : {8, 1000, 40000, 1 << 20}) {
            void *block = malloc(size);
            ASSERT_NE(block, nullptr);
            std::memset(block, 1, size);
            EXPECT_EQ(realloc(block, opaque<std::size_t>(0)), nullptr);
        }
    rusage usage;
    ASSERT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
    EXPECT_LT(usage.ru_maxrss, 1024 * 1024)
        << "three gigabytes were allocated in turn, so nothing is freed";
}

TEST(Realloc, KeepsTheContentsThroughGrowthAndShrinkageOverEveryKindOfBlock)
{
    std::vector<std::size_t> sizes;
    for (std::size_t size = 8; size < LARGEST; size += size / 2)
        sizes.push_back(size);
    sizes.push_back(LARGEST);
    unsigned seed = 9;
    void *block = malloc(1);
    ASSERT_NE(block, nullptr);
    std::size_t size = 0;
    auto resize = [&](std::size_t to) {
        block = realloc(block, to);
        ASSERT_NE(block, nullptr) << to;
        EXPECT_GE(malloc_usable_size(block), to);
        std::size_t kept = size < to ? size : to;
        EXPECT_EQ(pattern_errors(block, kept, seed), 0u) << "from " << size << " to " << to;
        pattern_write(block, to, seed);
        size = to;
    };
    for (std::size_t to : sizes)
        ASSERT_NO_FATAL_FAILURE(resize(to));
    for (std::size_t i = sizes.size(); i-- > 0;)
        ASSERT_NO_FATAL_FAILURE(resize(sizes[i] - 1));
    for (std::size_t to : {8, 1 << 20, 17, 40 << 20, 4096, 32768, 32769, 65536, 65535, 65537,
                           2 << 20, 100, 96 << 20, 33 << 20, 31 << 20, 34 << 20, 1})
        ASSERT_NO_FATAL_FAILURE(resize(to));
    free(block);
}

TEST(Realloc, KeepsTheContentsWhenNeighboursStandInTheWay)
{
    const unsigned COUNT = 8;
    void *blocks[COUNT] = {};
    std::size_t size = 0;
    for (std::size_t to = 24; to <= 40 * MIB; to += to / 2 + 8) {
        for (unsigned i = 0; i < COUNT; i++) {
            blocks[i] = realloc(blocks[i], to);
            ASSERT_NE(blocks[i], nullptr);
            EXPECT_EQ(pattern_errors(blocks[i], size, i), 0u) << "from " << size << " to " << to;
            pattern_write(blocks[i], to, i);
        }
        size = to;
    }
    for (unsigned i = 0; i < COUNT; i++) {
        EXPECT_EQ(pattern_errors(blocks[i], size, i), 0u);
        free(blocks[i]);
    }
}

TEST(Realloc, ThatFailsLeavesTheBlockAsItWas)
{
    for (std::size_t size : {8, 100, 5000, 32768, 100000, 3 << 20, 40 << 20}) {
        void *block = malloc(size);
        ASSERT_NE(block, nullptr);
        pattern_write(block, size, 5);
        for (std::size_t to : {too_large(), SIZE_MAX, SIZE_MAX - 4095, std::size_t{1} << 50}) {
            errno = 0;
            EXPECT_EQ(realloc(block, opaque(to)), nullptr);
            EXPECT_EQ(errno, ENOMEM);
        }
        EXPECT_EQ(pattern_errors(block, size, 5), 0u);
        free(block);
    }
}

TEST(Realloc, OfAnAlignedBlockKeepsItsContents)
{
    for (std::size_t alignment = 16; alignment <= 4 * MIB; alignment *= 4) {
        void *block = aligned_alloc(alignment, 3000);
        ASSERT_NE(block, nullptr);
        pattern_write(block, 3000, 6);
        block = realloc(block, 300000);
        ASSERT_NE(block, nullptr);
        EXPECT_EQ(pattern_errors(block, 3000, 6), 0u) << alignment;
        free(block);
    }
}

TEST(Realloc, PreservesErrnoWhenItSucceeds)
{
    void *block = nullptr;
    errno = 777;
    for (std::size_t size : sizes_up_to(64 * MIB)) {
        block = realloc(block, size + 1);
        ASSERT_NE(block, nullptr);
    }
    EXPECT_EQ(errno, 777);
    free(block);
}

TEST(Reallocarray, GrowsLikeReallocAndChecksTheProduct)
{
    void *block = reallocarray(opaque<void *>(nullptr), 10, 10);
    ASSERT_NE(block, nullptr);
    pattern_write(block, 100, 2);
    block = reallocarray(block, 1000, 100);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(pattern_errors(block, 100, 2), 0u);
    pattern_write(block, 100000, 2);
    const std::size_t cases[][2] = {
        {SIZE_MAX, 2}, {std::size_t{1} << 33, std::size_t{1} << 31}, {too_large(), 1}};
    for (const auto &[count, size] : cases) {
        errno = 0;
        EXPECT_EQ(reallocarray(block, opaque(count), opaque(size)), nullptr);
        EXPECT_EQ(errno, ENOMEM);
    }
    EXPECT_EQ(pattern_errors(block, 100000, 2), 0u) << "an overflow touched the block";
    EXPECT_EQ(reallocarray(block, opaque<std::size_t>(0), 8), nullptr) << "a size of zero frees";
}

} // namespace
