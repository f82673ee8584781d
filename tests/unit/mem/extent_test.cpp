/*
 * extent_test.cpp: mem/extent.c makes extents and moves their fronts; /proc/self/smaps says where
 * they are.
 */
#include <gtest/gtest.h>

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../support.h"

using calm_test::mappings_in;

static const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
static const size_t mib = 1024 * 1024;

static const char name[] = "calmalloc test";

static int make(struct extent *extent, size_t first, size_t most, size_t room)
{
    struct extent_plan plan = {page, first, most, room, false, name};
    return extent_make(extent, &plan);
}

/* Where the kernel chose the place, everything is reserved. */
static bool is_apart(const struct extent &extent)
{
    return extent.reserved < extent.most;
}

/* The mappings of an extent with its guards, and a page on both sides where nothing is. */
static std::vector<calm_test::Mapping> mappings_of(const struct extent &extent)
{
    return mappings_in(extent.start - page, page + extent.reserved);
}

/* Bytes from the start that the kernel lets us write. */
static size_t writable_front(const struct extent &extent)
{
    size_t bytes = 0;
    for (const auto &mapping : mappings_of(extent))
        if (mapping.access.substr(0, 2) == "rw")
            bytes = mapping.end - reinterpret_cast<uintptr_t>(extent.start);
    return bytes;
}

/* Seen to fail without the guard below, without the one behind, and with one that is committed. */
static void expect_guarded(const struct extent &extent)
{
    uintptr_t from = reinterpret_cast<uintptr_t>(extent.start);
    auto found = mappings_of(extent);
    ASSERT_FALSE(found.empty());
    EXPECT_LE(found.front().start, from - page);
    EXPECT_GE(found.back().end, from + extent.committed + page);
    for (size_t i = 0; i < found.size(); i++) {
        bool is_committed = found[i].start >= from && found[i].end <= from + extent.committed;
        EXPECT_EQ(found[i].access.substr(0, 3), is_committed ? "rw-" : "---");
        if (i > 0) {
            EXPECT_EQ(found[i].start, found[i - 1].end);
        }
    }
}

TEST(Extent, TheFrontMovesUpInStepsAndTheKernelAgrees)
{
    struct extent extent;
    ASSERT_EQ(make(&extent, 0, 16 * mib, 16 * mib), 0);
    EXPECT_EQ(writable_front(extent), 0u);
    size_t front = 0;
    for (size_t needed = page; needed <= 8 * mib; needed += 100 * page) {
        ASSERT_EQ(extent_commit(&extent, needed, 64 * page), 0);
        ASSERT_GE(extent.committed, needed);
        ASSERT_GE(extent.committed, front) << "never down";
        ASSERT_LE(extent.committed, needed + 64 * page) << "at most a step beyond";
        ASSERT_EQ(writable_front(extent), extent.committed);
        expect_guarded(extent);
        front = extent.committed;
    }
    EXPECT_LE(mappings_of(extent).size(), 3u);
    extent_release(&extent);
    EXPECT_TRUE(mappings_of(extent).empty());
}

/* One at a place of its own, of three pages at first. */
class ApartExtent : public testing::Test
{
  protected:
    struct extent extent;

    void SetUp() override
    {
        ASSERT_EQ(make(&extent, 3 * page, 1024 * mib, 64 * mib), 0);
        if (!is_apart(extent))
            GTEST_SKIP() << "no sparse place here";
    }

    void TearDown() override
    {
        extent_release(&extent);
    }
};

/* Limits count what is reserved. Seen to fail with a reservation of all that is planned. */
TEST_F(ApartExtent, NoMoreIsReservedThanWhatIsCommittedAndTheGuards)
{
    EXPECT_EQ(extent.committed, 3 * page);
    for (size_t needed : {page, 4 * page, mib, 300 * mib}) {
        ASSERT_EQ(extent_commit(&extent, needed, 0), 0);
        EXPECT_EQ(extent.reserved, extent.committed + page);
    }
}

/* Seen to fail with a reach that is not asked for. */
TEST_F(ApartExtent, WhatAThreadExtendedBeforeItWasStoppedIsFound)
{
    size_t extended = extent.reserved - page + 70 * page;
    ASSERT_EQ(os_extend(extent.start + extent.reserved - page, page, 70 * page), 0);
    ASSERT_EQ(extent_commit(&extent, 20 * page, 0), 0);
    EXPECT_EQ(extent.reserved, extended);
    ASSERT_EQ(extent_commit(&extent, 200 * page, 0), 0);
    EXPECT_TRUE(calm_test::is_zero(extent.start, 200 * page));
    expect_guarded(extent);
}

TEST_F(ApartExtent, WhatLiesBehindStopsItAndStaysAsItIs)
{
    char *behind = extent.start + 20 * page;
    void *foreign = mmap(behind, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_EQ(foreign, behind);
    EXPECT_EQ(extent_commit(&extent, 10 * page, 90 * page), 0) << "the step does not fit";
    EXPECT_EQ(extent.committed, 10 * page);
    EXPECT_LT(extent_commit(&extent, 20 * page, 0), 0) << "no room for the guard";
    EXPECT_EQ(mappings_in(behind, page)[0].access.substr(0, 2), "r-");
    munmap(foreign, page);
    EXPECT_EQ(extent_commit(&extent, 20 * page, 0), 0);
}

/* Threads that grow the same extent, each in steps of its own. */
TEST(Extent, ThreadsExtendOneTogether)
{
    struct extent extent;
    ASSERT_EQ(make(&extent, 0, 1024 * mib, 64 * mib), 0);
    std::atomic<unsigned> failures{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; t++)
        threads.emplace_back([&, t] {
            for (size_t i = 1; i <= 500; i++) {
                size_t needed = i * (t + 3) * page;
                failures += extent_commit(&extent, needed, t * page) != 0;
                extent.start[needed - 1 - t] = 1;
            }
        });
    for (auto &thread : threads)
        thread.join();
    EXPECT_EQ(failures, 0u);
    EXPECT_GE(extent.committed, 3000 * page);
    EXPECT_GE(extent.reserved, extent.committed + page);
    expect_guarded(extent);
    extent_release(&extent);
}

TEST(Extent, WhatIsCommittedAlreadyAsksTheKernelNothing)
{
    struct extent extent;
    ASSERT_EQ(make(&extent, 0, mib, mib), 0);
    ASSERT_EQ(extent_commit(&extent, 10 * page, 10 * page), 0);
    size_t front = extent.committed;
    EXPECT_EQ(extent_commit(&extent, 5 * page, 10 * page), 0);
    EXPECT_EQ(extent.committed, front);
    extent_release(&extent);
}

TEST(Extent, ItsLastByteCanBeCommittedAndNoMore)
{
    struct extent extent;
    ASSERT_EQ(make(&extent, 0, mib, mib), 0);
    EXPECT_EQ(extent_commit(&extent, mib + page, 0), -ENOMEM);
    EXPECT_EQ(extent.committed, 0u);
    EXPECT_EQ(extent_commit(&extent, mib - page, SIZE_MAX), 0);
    EXPECT_EQ(extent.committed, mib);
    extent.start[mib - 1] = 1;
    expect_guarded(extent);
    extent_release(&extent);
}

/* The data limit counts what is readable and writable: the step does not fit it, the need does. */
TEST(Extent, WhenTheStepDoesNotFitWhatIsNeededStillDoes)
{
    if (calm_test::is_sanitized)
        GTEST_SKIP() << "a sanitizer is in the way";
    struct extent extent;
    ASSERT_EQ(make(&extent, 0, 512 * mib, 512 * mib), 0);
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
    extent_release(&extent);
}

/* What the first commit needs is there, or nothing is. */
TEST(Extent, OneThatCannotBeMadeLeavesNothing)
{
    struct extent extent;
    size_t before = calm_test::mappings().size();
    EXPECT_LT(make(&extent, static_cast<size_t>(1) << 50, static_cast<size_t>(1) << 50, mib), 0);
    EXPECT_LE(calm_test::mappings().size(), before + 1);
    ASSERT_EQ(extent_make_fixed(&extent, 3 * page, page, name), 0);
    EXPECT_EQ(extent.committed, 3 * page);
    expect_guarded(extent);
    extent_release(&extent);
}
