/*
 * usable_test.cpp: how much of a block may be used, and the calls that are told a size:
 * malloc_usable_size, nallocx, sdallocx, free_sized, free_aligned_sized.
 *
 * What happens when the told size is wrong is in tests/misuse.
 */
#include "support.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

extern "C" {
void free_sized(void *block, std::size_t size);
void free_aligned_sized(void *block, std::size_t alignment, std::size_t size);
void *mallocx(std::size_t size, int flags);
void *rallocx(void *block, std::size_t size, int flags);
std::size_t xallocx(void *block, std::size_t size, std::size_t extra, int flags);
std::size_t sallocx(const void *block, int flags);
void dallocx(void *block, int flags);
std::size_t nallocx(std::size_t size, int flags);
void sdallocx(void *block, std::size_t size, int flags);
}

namespace
{

const std::size_t LARGEST = 128 * MIB;

/* The flag by which nallocx and sdallocx are told an alignment: its binary logarithm. */
int alignment_flag(std::size_t alignment)
{
    return __builtin_ctzl(alignment);
}

TEST(UsableSize, IsAtLeastWhatWasAskedForAndAllOfItBelongsToTheCaller)
{
    for (std::size_t size : sizes_up_to(16 * MIB)) {
        void *blocks[3];
        for (unsigned i = 0; i < 3; i++) {
            blocks[i] = malloc(size);
            ASSERT_NE(blocks[i], nullptr);
            ASSERT_GE(malloc_usable_size(blocks[i]), size);
            pattern_write(blocks[i], malloc_usable_size(blocks[i]), i);
        }
        for (unsigned i = 0; i < 3; i++) {
            EXPECT_EQ(pattern_errors(blocks[i], malloc_usable_size(blocks[i]), i), 0u) << size;
            free(blocks[i]);
        }
    }
}

TEST(UsableSize, OfNullIsZero)
{
    EXPECT_EQ(malloc_usable_size(opaque<void *>(nullptr)), 0u);
}

TEST(UsableSize, OfPointersThatAreNotOursIsZero)
{
    static int in_data;
    int on_stack = 0;
    EXPECT_EQ(malloc_usable_size(opaque<void *>(&in_data)), 0u);
    EXPECT_EQ(malloc_usable_size(opaque<void *>(&on_stack)), 0u);
}

TEST(UsableSize, SurvivesAReallocToTheWholeOfIt)
{
    for (std::size_t size : sizes_up_to(16 * MIB)) {
        void *block = malloc(size);
        ASSERT_NE(block, nullptr);
        std::size_t usable = malloc_usable_size(block);
        pattern_write(block, usable, 1);
        void *same = realloc(block, usable == 0 ? 1 : usable);
        ASSERT_NE(same, nullptr);
        EXPECT_EQ(pattern_errors(same, usable, 1), 0u) << size;
        EXPECT_EQ(malloc_usable_size(same), usable) << size;
        free(same);
    }
}

TEST(Nallocx, SaysWhatMallocWouldGive)
{
    for (std::size_t size : sizes_up_to(LARGEST)) {
        if (size == 0)
            continue; /* undefined by the interface's manual */
        void *block = malloc(size);
        ASSERT_NE(block, nullptr);
        EXPECT_EQ(nallocx(opaque(size), 0), malloc_usable_size(block)) << size;
        free(block);
    }
}

/* 8 KiB are a quarter of the shortest. Seen to fail with units of 64 KiB: 40,000 B had 65,536. */
TEST(Usable, ALargeBlockHasLessThanAnEighthMoreThanWasAskedForOr8KiB)
{
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (std::size_t size = 32769; size < 3 * MIB; size += 3571) {
        void *block = opaque(malloc(size));
        ASSERT_NE(block, nullptr);
        std::size_t more = std::min<std::size_t>(size / 8, 65536);
        EXPECT_LT(malloc_usable_size(block), size + std::max({more, std::size_t{8192}, page}))
            << size;
        free(block);
    }
}

/* Longer blocks lie free, and are given to shorter requests. Seen to fail where a block's whole
 * length was usable: 589824 for a request of 393216. */
TEST(Nallocx, SaysWhatMallocGivesWhileLongerBlocksLieFree)
{
    const std::size_t unit = 8192;
    for (std::size_t units : {9, 16, 24, 72, 240, 512}) {
        std::vector<void *> longer(40);
        for (void *&block : longer)
            block = opaque(malloc(units * unit));
        for (void *block : longer)
            free(block);
        for (std::size_t asked = 1; asked <= units; asked += 1 + units / 100)
            for (void *(*take)(std::size_t) : {
                     +[](std::size_t size) { return malloc(size); },
                     +[](std::size_t size) { return calloc(1, size); },
                     +[](std::size_t size) { return aligned_alloc(64, size); },
                     +[](std::size_t size) { return realloc(opaque(malloc(100)), size); },
                 }) {
                std::size_t size = asked * unit - 100;
                void *block = opaque(take(opaque(size)));
                ASSERT_NE(block, nullptr);
                EXPECT_EQ(nallocx(size, 0), malloc_usable_size(block)) << size << " of " << units;
                std::memset(block, 7, malloc_usable_size(block));
                free(block);
            }
    }
}

TEST(Nallocx, SaysWhatReallocLeaves)
{
    const std::size_t unit = 65536;
    void *block = opaque(malloc(9 * unit));
    for (std::size_t size :
         {7 * unit, 9 * unit, 6 * unit, 8 * unit, 3 * unit, 64 * unit, 44 * unit}) {
        block = opaque(realloc(block, size));
        ASSERT_NE(block, nullptr);
        EXPECT_EQ(nallocx(size, 0), malloc_usable_size(block)) << size;
    }
    free(block);
}

TEST(Nallocx, SaysWhatAnAlignedAllocationWouldGive)
{
    for (std::size_t alignment = 16; alignment <= MIB; alignment *= 2)
        for (std::size_t size :
             {std::size_t{1}, alignment - 1, alignment, alignment + 1, 3 * alignment}) {
            void *block = aligned_alloc(alignment, size);
            ASSERT_NE(block, nullptr);
            EXPECT_EQ(nallocx(size, alignment_flag(alignment)), malloc_usable_size(block))
                << size << " aligned to " << alignment;
            free(block);
        }
}

TEST(Nallocx, IsAFixedPointOfItself)
{
    for (std::size_t size : sizes_up_to(LARGEST)) {
        if (size == 0)
            continue;
        EXPECT_EQ(nallocx(nallocx(size, 0), 0), nallocx(size, 0)) << size;
    }
}

TEST(Nallocx, OfASizeThatCannotBeHadIsZero)
{
    EXPECT_EQ(nallocx(too_large(), 0), 0u);
    EXPECT_EQ(nallocx(opaque(SIZE_MAX), 0), 0u);
}

TEST(FreeSized, TakesTheSizeThatWasAskedFor)
{
    for (std::size_t size : sizes_up_to(LARGEST)) {
        for (unsigned i = 0; i < 3; i++) {
            void *block = i == 0 ? malloc(size) : i == 1 ? calloc(1, size) : realloc(nullptr, size);
            ASSERT_NE(block, nullptr);
            free_sized(block, opaque(size));
        }
    }
}

TEST(FreeSized, TakesTheSizeOfTheLastReallocation)
{
    for (std::size_t size : sizes_up_to(64 * MIB))
        for (std::size_t to : {size, size / 2, size + 1, size - size / 8, std::size_t{24}}) {
            if (to == 0)
                continue;
            void *block = realloc(malloc(size), to);
            ASSERT_NE(block, nullptr);
            free_sized(block, opaque(to));
        }
}

TEST(FreeSized, OfNullIgnoresTheSize)
{
    free_sized(opaque<void *>(nullptr), 12345);
    free_aligned_sized(opaque<void *>(nullptr), 64, 12345);
    sdallocx(opaque<void *>(nullptr), 12345, 0);
}

TEST(FreeSized, PreservesErrno)
{
    errno = 31;
    for (std::size_t size : sizes_up_to(MIB)) {
        void *block = malloc(size);
        void *aligned = aligned_alloc(64, size);
        ASSERT_NE(block, nullptr);
        ASSERT_NE(aligned, nullptr);
        errno = 31;
        free_sized(block, size);
        free_aligned_sized(aligned, 64, size);
        EXPECT_EQ(errno, 31);
    }
}

TEST(FreeAlignedSized, TakesTheAlignmentAndSizeThatWereAskedFor)
{
    for (std::size_t alignment = 1; alignment <= 64 * MIB; alignment *= 2)
        for (std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, alignment - 1,
                                 alignment, alignment + 1}) {
            void *block = aligned_alloc(alignment, size);
            ASSERT_NE(block, nullptr);
            free_aligned_sized(block, opaque(alignment), opaque(size));
        }
}

TEST(Sdallocx, TakesTheSizeThatWasAskedForOrTheUsableSize)
{
    for (std::size_t size : sizes_up_to(LARGEST)) {
        void *block = malloc(size);
        ASSERT_NE(block, nullptr);
        sdallocx(block, opaque(size), 0);
        block = malloc(size);
        ASSERT_NE(block, nullptr);
        sdallocx(block, malloc_usable_size(block), 0);
    }
}

TEST(Sdallocx, TakesTheAlignmentAsAFlag)
{
    for (std::size_t alignment = 16; alignment <= 64 * MIB; alignment *= 2)
        for (std::size_t size : {std::size_t{1}, std::size_t{5000}, alignment, alignment + 1}) {
            void *block = aligned_alloc(alignment, size);
            ASSERT_NE(block, nullptr);
            sdallocx(block, opaque(size), alignment_flag(alignment));
        }
}

/* One call site, because what one site frees another need not get. */
TEST(SizedFrees, ReallyFree)
{
    void (*const ways[])(void *) = {
        [](void *block) { free_sized(block, 100000); },
        [](void *block) { free_aligned_sized(block, 16, 100000); },
        [](void *block) { sdallocx(block, 100000, 0); },
    };
    for (auto release : ways)
        for (int i = 0; i < 20000; i++) {
            void *block = malloc(100000);
            ASSERT_NE(block, nullptr);
            std::memset(block, 1, 100000);
            release(block);
        }
    rusage usage;
    ASSERT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
    EXPECT_LT(usage.ru_maxrss, 1024 * 1024)
        << "six gigabytes were allocated in turn, so one of them frees nothing";
}

} // namespace

/* What one name gives the others know: a program that is linked with jemalloc finds each somewhere.
 * Seen to fail without mallocx and its like: blocks were jemalloc's, and never freed. */
TEST(ExtendedNames, AreOneFamily)
{
    const int zero = 64;
    for (std::size_t size : {1u, 100u, 5000u, 100000u, 3000000u}) {
        for (std::size_t alignment : {1u, 64u, 8192u}) {
            int flags = alignment == 1 ? 0 : alignment_flag(alignment);
            auto *block = static_cast<unsigned char *>(mallocx(size, flags | zero));
            ASSERT_NE(block, nullptr);
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0u);
            EXPECT_GE(sallocx(block, flags), size);
            EXPECT_EQ(sallocx(block, flags), malloc_usable_size(block));
            EXPECT_EQ(std::count(block, block + size, 0), static_cast<std::ptrdiff_t>(size));
            EXPECT_EQ(xallocx(block, size, 0, flags), sallocx(block, flags));
            std::size_t before = sallocx(block, flags);
            std::memset(block, 7, before);
            block = static_cast<unsigned char *>(rallocx(block, 3 * size, flags | zero));
            ASSERT_NE(block, nullptr);
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0u);
            for (std::size_t i = 0; i < 3 * size; i++)
                ASSERT_EQ(block[i], i < before ? 7 : 0) << i;
            size % 2 == 0 ? dallocx(block, flags) : free(block);
        }
    }
    sdallocx(mallocx(100, 0), 100, 0);
    free(mallocx(100, 0));
}
