/*
 * claim_test.cpp: os/linux/claim.c keeps base/claim.h's word.
 */
#include <gtest/gtest.h>

#include <sys/mman.h>

#include "../support.h"

extern "C" {
#include "base/claim.h"
}

namespace
{

constexpr size_t MiB = 1 << 20;

size_t resident(void *start, size_t bytes)
{
    std::vector<unsigned char> pages(bytes / 4096);
    EXPECT_EQ(mincore(start, bytes, pages.data()), 0);
    return static_cast<size_t>(
        std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; }));
}

TEST(Claim, AMappingReadsAsZeroAndIsResidentWhenPopulated)
{
    void *start;
    ASSERT_EQ(claim_map(2 * MiB, false, &start), 0);
    EXPECT_EQ(resident(start, 2 * MiB), 0u);
    ASSERT_EQ(claim_populate(start, 2 * MiB), 0);
    EXPECT_EQ(resident(start, 2 * MiB), 512u);
    auto *bytes = static_cast<char *>(start);
    EXPECT_EQ(std::count(bytes, bytes + 2 * MiB, 0), static_cast<long>(2 * MiB));
    claim_return(start, 2 * MiB);
    EXPECT_NE(madvise(start, 2 * MiB, MADV_NORMAL), 0);
}

TEST(Claim, PopulatingKeepsWhatIsThereAndNeedsNoAlignment)
{
    std::vector<char> memory(3 * 4096 + 100, 'x');
    ASSERT_EQ(claim_populate(memory.data() + 50, 2 * 4096), 0);
    EXPECT_EQ(std::count(memory.begin(), memory.end(), 'x'), static_cast<long>(memory.size()));
}

TEST(Claim, TooMuchIsRefusedAndTheOutputUntouched)
{
    void *start = &start;
    EXPECT_LT(claim_map(size_t{1} << 60, false, &start), 0);
    EXPECT_LT(claim_map(SIZE_MAX - 100, true, &start), 0);
    EXPECT_EQ(start, static_cast<void *>(&start));
    EXPECT_LT(claim_populate(reinterpret_cast<void *>(4096), 4096), 0);
    EXPECT_LT(claim_lock(reinterpret_cast<void *>(4096), 4096), 0);
}

TEST(Claim, AHugeMappingIsAlignedAndWholeAndLeavesNothingBeside)
{
    void *start;
    int error = claim_map(3 * MiB, true, &start);
    if (error == CLAIM_NO_HUGE)
        GTEST_SKIP() << "this kernel has no huge pages";
    ASSERT_EQ(error, 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(start) % (2 * MiB), 0u);
    memset(start, 1, 3 * MiB);
    claim_return(start, 3 * MiB);
    EXPECT_NE(madvise(start, 3 * MiB, MADV_NORMAL), 0);
}

} // namespace
