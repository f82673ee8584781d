/*
 * aligned_test.cpp: posix_memalign, aligned_alloc, memalign, valloc and pvalloc as POSIX and the
 * manual pages have them, with alignments from 1 byte to 64 MiB and sizes on both sides of each.
 */
#include "support.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>
#include <vector>

namespace
{

const std::size_t LARGEST_ALIGNMENT = 64 * MIB;

std::vector<std::size_t> sizes_around(std::size_t alignment)
{
    std::vector<std::size_t> sizes = {0, 1, 7, 8, 16, 17, 100, 1024, 4097, 33000, 70000};
    for (std::size_t size :
         {alignment - 1, alignment, alignment + 1, alignment * 2 - 1, alignment * 3})
        if (size <= 2 * LARGEST_ALIGNMENT)
            sizes.push_back(size);
    return sizes;
}

/* Writes the first and the last bytes only, so that 64 MiB blocks stay cheap. */
void write_ends(void *block, std::size_t size)
{
    std::size_t part = size < 256 ? size : 256;
    std::memset(block, 0x5A, part);
    std::memset(static_cast<char *>(block) + size - part, 0x5A, part);
}

void expect_aligned(void *block, std::size_t alignment, std::size_t size)
{
    ASSERT_NE(block, nullptr) << alignment << ", " << size;
    EXPECT_TRUE(is_aligned(block, alignment)) << alignment << ", " << size << ": " << block;
    EXPECT_GE(malloc_usable_size(block), size);
    write_ends(block, malloc_usable_size(block));
}

TEST(AlignedAlloc, EveryPowerOfTwoAndEverySizeWorks)
{
    for (std::size_t alignment = 1; alignment <= LARGEST_ALIGNMENT; alignment *= 2)
        for (std::size_t size : sizes_around(alignment)) {
            void *block = aligned_alloc(opaque(alignment), size);
            ASSERT_NO_FATAL_FAILURE(expect_aligned(block, alignment, size));
            free(block);
        }
}

TEST(AlignedAlloc, ManyLiveBlocksOfOneAlignmentDoNotOverlap)
{
    for (std::size_t alignment = 16; alignment <= 2 * MIB; alignment *= 2) {
        std::vector<void *> blocks;
        for (unsigned i = 0; i < 24; i++) {
            std::size_t size = 1 + i * 977;
            blocks.push_back(aligned_alloc(alignment, size));
            ASSERT_NE(blocks.back(), nullptr);
            EXPECT_TRUE(is_aligned(blocks.back(), alignment));
            pattern_write(blocks.back(), size, i);
        }
        for (unsigned i = 0; i < blocks.size(); i++) {
            EXPECT_EQ(pattern_errors(blocks[i], 1 + i * 977, i), 0u) << alignment;
            free(blocks[i]);
        }
    }
}

TEST(AlignedAlloc, ALargeAlignmentDoesNotMakeItsPaddingResident)
{
    auto resident_pages = [] {
        std::ifstream statm("/proc/self/statm");
        std::size_t all = 0, resident = 0;
        statm >> all >> resident;
        return resident;
    };
    std::size_t before = resident_pages();
    std::vector<void *> blocks;
    for (int i = 0; i < 64; i++) {
        blocks.push_back(aligned_alloc(2 * MIB, 100));
        ASSERT_NE(blocks.back(), nullptr);
        std::memset(blocks.back(), 1, 100);
    }
    EXPECT_LT(resident_pages(),
              before + 16 * MIB / static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
    for (void *block : blocks)
        free(block);
}

TEST(AlignedAlloc, AnAlignmentThatIsNoPowerOfTwoFailsWithEinval)
{
    for (std::size_t alignment :
         {std::size_t{0}, std::size_t{3}, std::size_t{24}, std::size_t{100}, SIZE_MAX}) {
        errno = 0;
        EXPECT_EQ(aligned_alloc(opaque(alignment), 64), nullptr) << alignment;
        EXPECT_EQ(errno, EINVAL) << alignment;
    }
}

TEST(AlignedAlloc, WhatCannotBeHadFailsWithEnomem)
{
    const std::size_t half = std::size_t{1} << 62;
    const std::size_t cases[][2] = {
        {16, too_large()}, {4096, SIZE_MAX - 4095}, {64 * MIB, SIZE_MAX - 1},
        {half, 1},         {half * 2, 1},           {half, half}};
    for (const auto &[alignment, size] : cases) {
        errno = 0;
        EXPECT_EQ(aligned_alloc(opaque(alignment), opaque(size)), nullptr)
            << alignment << ", " << size;
        EXPECT_EQ(errno, ENOMEM) << alignment << ", " << size;
    }
}

TEST(PosixMemalign, EveryPowerOfTwoAndEverySizeWorks)
{
    for (std::size_t alignment = sizeof(void *); alignment <= LARGEST_ALIGNMENT; alignment *= 2)
        for (std::size_t size : sizes_around(alignment)) {
            void *block = nullptr;
            ASSERT_EQ(posix_memalign(&block, opaque(alignment), size), 0)
                << alignment << ", " << size;
            ASSERT_NO_FATAL_FAILURE(expect_aligned(block, alignment, size));
            free(block);
        }
}

TEST(PosixMemalign, ABadAlignmentIsEinvalAndTouchesNeitherTheOutputNorErrno)
{
    int marker = 0;
    for (std::size_t alignment : {0, 1, 2, 4, 3, 12, 24, 40, 100, 4095}) {
        void *block = &marker;
        errno = 999;
        EXPECT_EQ(posix_memalign(&block, opaque(alignment), 64), EINVAL) << alignment;
        EXPECT_EQ(block, &marker) << alignment;
        EXPECT_EQ(errno, 999) << alignment;
    }
}

TEST(PosixMemalign, WhatCannotBeHadIsEnomemAndTouchesNeitherTheOutputNorErrno)
{
    int marker = 0;
    for (std::size_t size : {too_large(), SIZE_MAX, std::size_t{1} << 50}) {
        void *block = &marker;
        errno = 999;
        EXPECT_EQ(posix_memalign(&block, 64, opaque(size)), ENOMEM) << size;
        EXPECT_EQ(block, &marker) << size;
        EXPECT_EQ(errno, 999) << size;
    }
}

TEST(PosixMemalign, SizeZeroGivesDistinctBlocksThatCanBeFreed)
{
    void *first = nullptr, *second = nullptr;
    ASSERT_EQ(posix_memalign(&first, 64, opaque<std::size_t>(0)), 0);
    ASSERT_EQ(posix_memalign(&second, 64, opaque<std::size_t>(0)), 0);
    EXPECT_NE(first, second);
    free(first);
    free(second);
}

TEST(Memalign, EveryPowerOfTwoWorks)
{
    for (std::size_t alignment = 1; alignment <= LARGEST_ALIGNMENT; alignment *= 2) {
        void *block = memalign(opaque(alignment), 1000);
        ASSERT_NO_FATAL_FAILURE(expect_aligned(block, alignment, 1000));
        free(block);
    }
}

/* The manual page says EINVAL; the C library rounds up. Both are met: nothing is ever
 * under-aligned. */
TEST(Memalign, AnAlignmentThatIsNoPowerOfTwoIsRefusedOrExceeded)
{
    for (std::size_t alignment : {3, 24, 48, 100, 5000}) {
        errno = 0;
        void *block = memalign(opaque(alignment), 64);
        std::size_t power = 1;
        while (power < alignment)
            power *= 2;
        if (block == nullptr)
            EXPECT_EQ(errno, EINVAL) << alignment;
        else
            EXPECT_TRUE(is_aligned(block, power)) << alignment;
        free(block);
    }
}

TEST(Memalign, WhatCannotBeHadFailsWithEnomem)
{
    errno = 0;
    EXPECT_EQ(memalign(64, too_large()), nullptr);
    EXPECT_EQ(errno, ENOMEM);
}

TEST(Valloc, GivesWholePageAlignment)
{
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (std::size_t size :
         {std::size_t{0}, std::size_t{1}, page - 1, page, page + 1, 100 * page + 5}) {
        void *block = valloc(opaque(size));
        ASSERT_NO_FATAL_FAILURE(expect_aligned(block, page, size));
        free(block);
    }
    errno = 0;
    EXPECT_EQ(valloc(too_large()), nullptr);
    EXPECT_EQ(errno, ENOMEM);
}

TEST(Pvalloc, RoundsTheSizeUpToWholePages)
{
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (std::size_t size : {std::size_t{1}, page - 1, page, page + 1, 100 * page + 5}) {
        void *block = pvalloc(opaque(size));
        ASSERT_NO_FATAL_FAILURE(expect_aligned(block, page, (size + page - 1) / page * page));
        free(block);
    }
    void *none = pvalloc(opaque<std::size_t>(0));
    ASSERT_NO_FATAL_FAILURE(expect_aligned(none, page, 0));
    free(none);
}

TEST(Pvalloc, ASizeThatOverflowsWhenRoundedFailsWithEnomem)
{
    for (std::size_t size : {too_large(), SIZE_MAX, SIZE_MAX - 100}) {
        errno = 0;
        EXPECT_EQ(pvalloc(opaque(size)), nullptr);
        EXPECT_EQ(errno, ENOMEM);
    }
}

} // namespace
