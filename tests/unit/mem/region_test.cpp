/*
 * region_test.cpp: mem/region.c grows one range, with tables that follow; limits on address space
 * included.
 */
#include <gtest/gtest.h>

#include <cinttypes>
#include <fstream>
#include <string>

#include <sys/resource.h>

#include "../support.h"

static const size_t gib = static_cast<size_t>(1) << 30;

static struct os_facts facts_with(size_t address_space)
{
    struct os_facts facts;
    os_start(&facts);
    facts.address_space_bytes = address_space;
    return facts;
}

/* One region is enough for a process: the tests share the first one's. */
static void start()
{
    if (region.base != nullptr)
        return;
    struct os_facts facts = facts_with(SIZE_MAX);
    ASSERT_EQ(region_start(&facts), 0);
    ASSERT_NE(region.base, nullptr);
}

TEST(Region, BeforeItIsStartedEveryAddressIsForeign)
{
    if (region.base != nullptr)
        GTEST_SKIP() << "another test of this process has started the region";
    int local;
    EXPECT_FALSE(region_holds(region_unit(nullptr)));
    EXPECT_FALSE(region_holds(region_unit(&local)));
    EXPECT_FALSE(region_holds(region_unit(reinterpret_cast<void *>(UINTPTR_MAX))));
}

TEST(Region, GrowthsFollowEachOtherAndAreZeroAndInTheMapAsFree)
{
    start();
    size_t end = region.units == 0 ? 1 : region.units;
    for (size_t units : {1, 5, 32, 33, 1000, 2}) {
        size_t first = 0, count = 0;
        ASSERT_EQ(region_grow(units, &first, &count), 0);
        EXPECT_EQ(first, end) << "unit 0 is never handed out; growths leave no gap";
        EXPECT_GE(count, units);
        end = first + count;
        EXPECT_EQ(region.units, end);
        for (size_t unit = first; unit < end; unit++) {
            ASSERT_EQ(region_kind(unit), static_cast<unsigned>(UNIT_FREE));
            ASSERT_EQ(region_unit(region_address(unit)), unit);
            ASSERT_EQ(region_unit(region_address(unit) + UNIT_BYTES - 1), unit);
        }
        EXPECT_TRUE(calm_test::is_zero(region_address(first), UNIT_BYTES));
        EXPECT_TRUE(calm_test::is_zero(region_address(end - 1), UNIT_BYTES));
        region_address(end - 1)[UNIT_BYTES - 1] = 1;
    }
}

TEST(Region, OnlyAddressesBelowTheFrontAreHeld)
{
    start();
    size_t first, count;
    ASSERT_EQ(region_grow(1, &first, &count), 0);
    EXPECT_TRUE(region_holds(region_unit(region.base)));
    EXPECT_FALSE(region_holds(region_unit(region.base - 1)));
    EXPECT_TRUE(region_holds(region_unit(region_address(region.units) - 1)));
    EXPECT_FALSE(region_holds(region_unit(region_address(region.units))));
    int local;
    EXPECT_FALSE(region_holds(region_unit(&local)));
}

TEST(Region, AGrowthThatCannotBeChangesNothing)
{
    start();
    size_t units = region.units, first = 77, count = 78;
    EXPECT_LT(region_grow(SIZE_MAX, &first, &count), 0);
    EXPECT_LT(region_grow(SIZE_MAX >> UNIT_SHIFT, &first, &count), 0);
    EXPECT_LT(region_grow(static_cast<size_t>(1) << 40, &first, &count), 0);
    EXPECT_EQ(first, 77u);
    EXPECT_EQ(count, 78u);
    EXPECT_EQ(region.units, units);
    EXPECT_EQ(region_grow(1, &first, &count), 0);
}

TEST(Region, TheKernelSeesAHandfulOfMappingsHoweverLargeItGrows)
{
    start();
    size_t first, count;
    for (unsigned i = 0; i < 200; i++)
        ASSERT_EQ(region_grow(1 + i % 7, &first, &count), 0);
    EXPECT_LE(calm_test::mappings_in(region.base, region_reserved_bytes() / 2).size(), 2u);
    EXPECT_LE(region_resident_bytes(), region_mapped_bytes());
    EXPECT_LE(region_mapped_bytes(), region_reserved_bytes());
    EXPECT_LE(region_tables_resident_bytes(), region_tables_mapped_bytes());
}

/* The kernel's flags of the mapping that an address lies in. */
static std::string flags_at(size_t unit)
{
    std::ifstream smaps("/proc/self/smaps");
    uintptr_t address = reinterpret_cast<uintptr_t>(region_address(unit)), from, end;
    bool is_there = false;
    for (std::string line; std::getline(smaps, line);) {
        if (sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &from, &end) == 2)
            is_there = from <= address && address < end;
        else if (is_there && line.rfind("VmFlags:", 0) == 0)
            return line + " ";
    }
    return "";
}

/* The flags are the kernel's own. Seen to fail with a window that does not move, with a
 * huge_follow_front() that does nothing, and without align_up(). */
TEST(Region, HugePagesAreAskedForInOneMappingWhereTheFrontHasJustPassed)
{
    start();
    size_t first, count, last;
    ASSERT_EQ(region_grow(1, &first, &count), 0);
    size_t from = first + count + 50;
    uint64_t ns_max = huge_ns_max;
    huge_from = from;
    huge_ns_max = UINT64_MAX;
    for (unsigned i = 0; i < 40; i++) {
        ASSERT_EQ(region_grow(1 + i % 7, &first, &count), 0);
        huge_follow_front(first, first + count, i % 2 == 0);
    }
    ASSERT_EQ(region_grow(1, &last, &count), 0);
    huge_follow_front(last, last + count, true);
    if (flags_at(0).find(" nh ") == std::string::npos)
        GTEST_SKIP() << "this kernel has no huge pages";
    EXPECT_EQ(flags_at(from).find(" hg "), std::string::npos);
    EXPECT_EQ(flags_at(last - 1).find(" hg "), std::string::npos);
    EXPECT_NE(flags_at(last).find(" hg "), std::string::npos);
    EXPECT_NE(flags_at(region.units - 1).find(" hg "), std::string::npos);
    EXPECT_EQ(region_unit(reinterpret_cast<void *>(align_up(
                  reinterpret_cast<uintptr_t>(region_address(region.units)), 2 * 1024 * 1024))),
              region.units);
    EXPECT_LE(calm_test::mappings_in(region.base, region_reserved_bytes() / 2).size(), 3u);
    EXPECT_EQ(region_renew(first, 1), 0);
    EXPECT_NE(flags_at(last).find(" hg "), std::string::npos) << "that was below";
    EXPECT_EQ(region_purge(region_address(last + 5), UNIT_BYTES), 0);
    EXPECT_EQ(flags_at(last).find(" hg "), std::string::npos);
    EXPECT_LE(calm_test::mappings_in(region.base, region_reserved_bytes() / 2).size(), 2u);
    huge_from = SIZE_MAX;
    huge_ns_max = ns_max;
}

/*
 * Under a limit half of what is left is reserved at first; the rest must still be usable. In a
 * child of its own, since a process has one region. Seen to fail with region_extend returning
 * false.
 */
TEST(RegionDeathTest, NearlyAllOfALimitedAddressSpaceBecomesUsableAsOneRange)
{
    if (calm_test::is_sanitized)
        GTEST_SKIP() << "a sanitizer is in the way";
    auto grow_under_limit = [] {
        region = {};
        struct rlimit limit = {2 * gib, 2 * gib};
        setrlimit(RLIMIT_AS, &limit);
        struct os_facts facts;
        os_start(&facts);
        size_t units = 0, first, count;
        if (facts.address_space_bytes >= 2 * gib || region_start(&facts) != 0)
            _exit(1);
        while (region_grow(16, &first, &count) == 0)
            units += count;
        _exit((units << UNIT_SHIFT) > facts.address_space_bytes / 10 * 8 ? 0 : 2);
    };
    EXPECT_EXIT(grow_under_limit(), testing::ExitedWithCode(0), "");
}

/* Seen to hang where a growth waits for its turn. */
TEST(RegionDeathTest, ALimitedAddressSpaceGrowsWhileAStoppedThreadHasTheTurn)
{
    if (calm_test::is_sanitized)
        GTEST_SKIP() << "a sanitizer is in the way";
    auto grow_out_of_turn = [] {
        alarm(60);
        region = {};
        struct rlimit limit = {2 * gib, 2 * gib};
        setrlimit(RLIMIT_AS, &limit);
        struct os_facts facts;
        os_start(&facts);
        if (facts.address_space_bytes >= 2 * gib || region_start(&facts) != 0)
            _exit(1);
        std::thread([] { region_fork_lock(); }).detach();
        usleep(100000);
        size_t units = 0, first, count;
        while (region_grow(16, &first, &count) == 0)
            units += count;
        _exit((units << UNIT_SHIFT) > facts.address_space_bytes / 10 * 7 ? 0 : 2);
    };
    EXPECT_EXIT(grow_out_of_turn(), testing::ExitedWithCode(0), "");
}

TEST(RegionDeathTest, AHugeButFiniteLimitIsNoReasonToFail)
{
    if (calm_test::is_sanitized)
        GTEST_SKIP() << "a sanitizer is in the way";
    auto start_under = [](size_t bytes) {
        region = {};
        struct os_facts facts = facts_with(bytes);
        size_t first, count;
        _exit(region_start(&facts) == 0 && region_grow(1, &first, &count) == 0 ? 0 : 1);
    };
    for (unsigned shift : {33, 40, 45, 50, 62})
        EXPECT_EXIT(start_under(static_cast<size_t>(1) << shift), testing::ExitedWithCode(0), "")
            << shift;
}

/* Seen to fail where the reservation does not depend on it: a map of megabytes. */
TEST(RegionDeathTest, ALimitOnDataIsNotSpentOnTheMap)
{
    if (calm_test::is_sanitized)
        GTEST_SKIP() << "a sanitizer is in the way";
    auto start_under = [](size_t bytes) {
        region = {};
        struct os_facts facts = facts_with(SIZE_MAX);
        facts.data_bytes = bytes;
        size_t first, count;
        if (region_start(&facts) != 0 || region_grow(1, &first, &count) != 0)
            _exit(1);
        _exit(region_tables_mapped_bytes() <= bytes / 16 + 2 * 65536 ? 0 : 2);
    };
    for (size_t bytes : {0, 1 << 12, 1 << 20, 1 << 23, 1 << 30})
        EXPECT_EXIT(start_under(bytes), testing::ExitedWithCode(0), "") << bytes;
}

TEST(RegionDeathTest, WithoutAddressSpaceTheStartFailsAndALaterOneWorks)
{
    if (calm_test::is_sanitized)
        GTEST_SKIP() << "a sanitizer is in the way";
    auto start_twice = [] {
        region = {};
        struct os_facts facts = facts_with(SIZE_MAX);
        struct rlimit before, limit;
        getrlimit(RLIMIT_AS, &before);
        limit = {1024, before.rlim_max};
        setrlimit(RLIMIT_AS, &limit);
        if (region_start(&facts) == 0)
            _exit(1);
        setrlimit(RLIMIT_AS, &before);
        size_t first, count;
        _exit(region_start(&facts) == 0 && region_grow(1, &first, &count) == 0 ? 0 : 2);
    };
    EXPECT_EXIT(start_twice(), testing::ExitedWithCode(0), "");
}
