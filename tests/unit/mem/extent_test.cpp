/*
 * extent_test.cpp: mem/extent.c moves a front; /proc/self/smaps says where it is.
 */
#include <gtest/gtest.h>

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../support.h"

using calm_test::mappings_in;

static const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
static const size_t mib = 1024 * 1024;

/* Bytes from the start that the kernel lets us write. */
static size_t writable_front(const struct extent &extent)
{
    size_t bytes = 0;
    for (const auto &mapping : mappings_in(extent.start, extent.reserved))
        if (mapping.access.substr(0, 2) == "rw")
            bytes = mapping.end - reinterpret_cast<uintptr_t>(extent.start);
    return bytes;
}

TEST(Extent, TheFrontMovesUpInStepsAndTheKernelAgrees)
{
    struct extent extent;
    ASSERT_EQ(extent_reserve(&extent, 16 * mib, mib, "calmalloc test"), 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(extent.start) % mib, 0u);
    EXPECT_EQ(writable_front(extent), 0u);
    size_t front = 0;
    for (size_t needed = page; needed <= 8 * mib; needed += 100 * page) {
        ASSERT_EQ(extent_commit(&extent, needed, 64 * page), 0);
        ASSERT_GE(extent.committed, needed);
        ASSERT_GE(extent.committed, front) << "never down";
        ASSERT_LE(extent.committed, needed + 64 * page) << "at most a step beyond";
        ASSERT_EQ(writable_front(extent), extent.committed);
        front = extent.committed;
    }
    EXPECT_LE(mappings_in(extent.start, extent.reserved).size(), 2u);
    EXPECT_EQ(os_release(extent.start, 16 * mib), 0);
}

TEST(Extent, WhatIsCommittedAlreadyAsksTheKernelNothing)
{
    struct extent extent;
    ASSERT_EQ(extent_reserve(&extent, mib, page, "calmalloc test"), 0);
    ASSERT_EQ(extent_commit(&extent, 10 * page, 10 * page), 0);
    size_t front = extent.committed;
    EXPECT_EQ(extent_commit(&extent, 5 * page, 10 * page), 0);
    EXPECT_EQ(extent.committed, front);
    EXPECT_EQ(os_release(extent.start, mib), 0);
}

TEST(Extent, ItsLastByteCanBeCommittedAndNoMore)
{
    struct extent extent;
    ASSERT_EQ(extent_reserve(&extent, mib, page, "calmalloc test"), 0);
    EXPECT_EQ(extent_commit(&extent, mib + page, 0), -ENOMEM);
    EXPECT_EQ(extent.committed, 0u);
    EXPECT_EQ(extent_commit(&extent, mib - page, SIZE_MAX), 0);
    EXPECT_EQ(extent.committed, mib);
    extent.start[mib - 1] = 1;
    EXPECT_EQ(os_release(extent.start, mib), 0);
}

/* The data limit counts what is readable and writable: the step does not fit it, the need does. */
TEST(Extent, WhenTheStepDoesNotFitWhatIsNeededStillDoes)
{
    if (calm_test::is_sanitized)
        GTEST_SKIP() << "a sanitizer is in the way";
    struct extent extent;
    ASSERT_EQ(extent_reserve(&extent, 512 * mib, page, "calmalloc test"), 0);
    struct rlimit before;
    ASSERT_EQ(getrlimit(RLIMIT_DATA, &before), 0);
    struct rlimit limit = {256 * mib, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
    int too_much = extent_commit(&extent, 400 * mib, 0);
    size_t front_after_failure = extent.committed;
    int enough = extent_commit(&extent, 8 * mib, 400 * mib);
    setrlimit(RLIMIT_DATA, &before);
    EXPECT_EQ(too_much, -ENOMEM);
    EXPECT_EQ(front_after_failure, 0u);
    EXPECT_EQ(enough, 0);
    EXPECT_EQ(extent.committed, 8 * mib);
    EXPECT_EQ(os_release(extent.start, 512 * mib), 0);
}
