/*
 * memory_test.cpp: os/linux/memory.c keeps the contract of os/os.h; the kernel's own tables are the
 * oracle.
 */
#include <gtest/gtest.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <optional>

#include "../support.h"

using calm_test::kernel_resident;
using calm_test::mappings_in;

static const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
static const size_t mib = 1024 * 1024;

static char *reserved(size_t size, size_t align)
{
    void *start = nullptr;
    EXPECT_EQ(os_reserve(size, align, &start), 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(start) % align, 0u);
    return static_cast<char *>(start);
}

TEST(Memory, AReservationIsAlignedInaccessibleAndNotResident)
{
    for (size_t align = page; align <= 64 * mib; align *= 4) {
        char *start = reserved(8 * mib, align);
        auto found = mappings_in(start, 8 * mib);
        ASSERT_FALSE(found.empty());
        for (const auto &mapping : found)
            EXPECT_EQ(mapping.access.substr(0, 3), "---");
        EXPECT_EQ(os_resident_bytes(start, 8 * mib), 0u);
        EXPECT_EQ(os_release(start, 8 * mib), 0);
        EXPECT_TRUE(mappings_in(start, 8 * mib).empty());
    }
}

TEST(Memory, AReservationThatCannotBeLeavesTheOutputAlone)
{
    void *start = &start;
    EXPECT_EQ(os_reserve(static_cast<size_t>(1) << 60, page, &start), -ENOMEM);
    EXPECT_EQ(start, &start);
    EXPECT_EQ(os_reserve(SIZE_MAX - page + 1, 2 * page, &start), -ENOMEM);
    EXPECT_EQ(start, &start);
}

TEST(Memory, AnExtensionIsExactlyBehindOrNotAtAll)
{
    char *start = reserved(16 * mib, 2 * mib), *last = start + 7 * mib;
    EXPECT_LT(os_extend(last, mib, 5 * mib), 0) << "that is not the end";
    ASSERT_EQ(os_release(start + 8 * mib, 8 * mib), 0);
    EXPECT_EQ(os_extend(last, mib, 5 * mib), 0);
    EXPECT_LT(os_extend(last, mib, 5 * mib), 0) << "as when another thread was faster";
    EXPECT_EQ(mappings_in(start, 12 * mib).size(), 1u) << "both parts are one mapping";
    EXPECT_EQ(os_release(start, 12 * mib), 0);
}

/* Seen to fail with an os_reach() that believes any error, and with one that stops a page short. */
TEST(Memory, AReachIsAsFarAsTheReservationGoesAndNoFurther)
{
    char *start = reserved(16 * mib, 2 * mib), *last = start + 7 * mib;
    ASSERT_EQ(os_release(start + 8 * mib, 8 * mib), 0);
    EXPECT_EQ(os_reach(last, mib, mib), mib);
    EXPECT_EQ(os_reach(last, mib, 64 * mib), mib);
    void *foreign = mmap(start + 8 * mib, mib, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_EQ(foreign, start + 8 * mib);
    EXPECT_LT(os_extend(last, mib, 2 * mib), 0);
    EXPECT_EQ(os_reach(last, mib, 64 * mib), mib) << "what lies behind is another's";
    munmap(foreign, mib);
    ASSERT_EQ(os_extend(last, mib, mib + 3 * page), 0);
    EXPECT_EQ(os_reach(last, mib, 64 * mib), mib + 3 * page);
    EXPECT_EQ(os_reach(last, mib, mib + 3 * page), mib + 3 * page);
    ASSERT_EQ(os_commit(last, mib), 0);
    EXPECT_EQ(os_reach(last, mib, 64 * mib), mib) << "what is committed is not its end";
    EXPECT_EQ(os_release(start, 8 * mib + 3 * page), 0);
}

/* How many bits of the places differ between some of them. */
static unsigned bits_seen(enum os_place place, size_t size)
{
    uintptr_t first = 0, differences = 0;
    for (unsigned i = 0; i < 100; i++) {
        void *start;
        EXPECT_EQ(os_reserve_apart(size, place, &start), 0);
        EXPECT_EQ(mappings_in(static_cast<char *>(start) - mib, size + 2 * mib).size(), 1u);
        first = i == 0 ? reinterpret_cast<uintptr_t>(start) : first;
        differences |= first ^ reinterpret_cast<uintptr_t>(start);
        EXPECT_EQ(os_release(start, size), 0);
    }
    return bit_count(differences);
}

TEST(Memory, APlaceApartIsRandomAndHasNoNeighbours)
{
    if (calm_test::is_sanitized)
        GTEST_SKIP() << "a sanitizer says what is where";
    void *start;
    if (os_reserve_apart(mib, OS_LOW, &start) != 0)
        GTEST_SKIP() << "no sparse place here";
    os_release(start, mib);
    if (bit_highest(reinterpret_cast<uintptr_t>(&start)) < 46)
        GTEST_SKIP() << "a small address space";
    EXPECT_GE(bits_seen(OS_LOW, mib), 28u);
    EXPECT_GE(bits_seen(OS_HIGH, mib), 28u);
}

/* The kernel is the oracle. */
TEST(Memory, WhatTheKernelWouldNotCommitIsKnownBefore)
{
    if (calm_test::is_sanitized)
        GTEST_SKIP() << "a sanitizer is in the way";
    for (size_t size = mib; size <= static_cast<size_t>(1) << 46; size *= 2) {
        void *start = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                           0);
        EXPECT_EQ(os_would_commit(size), start != MAP_FAILED) << size;
        if (start != MAP_FAILED)
            munmap(start, size);
    }
}

/*
 * A process that locks what it has may have more than it may lock, as long as it does not lock what
 * comes. Seen to fail without the second way of os_extend().
 */
TEST(MemoryDeathTest, WhatMayNotBeLockedExtendsAReservationThatIs)
{
    if (calm_test::is_sanitized)
        GTEST_SKIP() << "sanitizers lock nothing";
    auto extend_locked = [] {
        struct rlimit limit = {2 * mib, 2 * mib};
        void *start;
        if (os_reserve_apart(mib, OS_LOW, &start) != 0 ||
            (getuid() == 0 && setresuid(65534, 65534, 65534) != 0) ||
            setrlimit(RLIMIT_MEMLOCK, &limit) != 0)
            _exit(2);
        EXPECT_NE(mlock(start, mib), 0) << "it has no pages, but is locked from now on";
        char *last = static_cast<char *>(start) + mib - page;
        _exit(os_extend(last, page, 200 * mib) == 0 && os_commit(last, 100 * mib) == 0 ? 0 : 1);
    };
    EXPECT_EXIT(extend_locked(), testing::ExitedWithCode(0), "");
}

TEST(Memory, CommittedMemoryReadsAsZeroAndCanBeWritten)
{
    char *start = reserved(4 * mib, page);
    ASSERT_EQ(os_commit(start, mib), 0);
    EXPECT_TRUE(calm_test::is_zero(start, mib));
    memset(start, 0xAA, mib);
    EXPECT_EQ(os_resident_bytes(start, 4 * mib), mib);
    EXPECT_EQ(os_release(start, 4 * mib), 0);
}

TEST(Memory, PurgedPagesAreZeroAndNotResidentAndTheirNeighboursKeepTheirBytes)
{
    char *start = reserved(mib, page);
    ASSERT_EQ(os_commit(start, mib), 0);
    memset(start, 0xAA, mib);
    ASSERT_EQ(os_purge(start + 4 * page, 8 * page), 0);
    EXPECT_EQ(os_resident_bytes(start, mib), mib - 8 * page);
    EXPECT_EQ(kernel_resident(start, mib), mib - 8 * page);
    EXPECT_TRUE(calm_test::is_zero(start + 4 * page, 8 * page));
    EXPECT_EQ(static_cast<unsigned char>(start[4 * page - 1]), 0xAA);
    EXPECT_EQ(static_cast<unsigned char>(start[12 * page]), 0xAA);
    EXPECT_EQ(os_release(start, mib), 0);
}

/* Word number `index` of a file of the kernel's; nothing where it may not be read. */
static std::optional<uint64_t> word_of(const char *name, uint64_t index)
{
    uint64_t word = 0;
    int file = open(name, O_RDONLY | O_CLOEXEC);
    bool is_read = file >= 0 &&
                   pread(file, &word, sizeof word, static_cast<off_t>(index * 8)) == sizeof word;
    if (file >= 0)
        close(file);
    return is_read ? std::optional<uint64_t>(word) : std::nullopt;
}

/* The kernel's flags of the page of an address; nothing without the right to know. */
static std::optional<uint64_t> page_flags(const char *address)
{
    auto entry = word_of("/proc/self/pagemap", reinterpret_cast<uintptr_t>(address) / page);
    uint64_t frame = entry.value_or(0) & ((static_cast<uint64_t>(1) << 55) - 1);
    return frame == 0 ? std::nullopt : word_of("/proc/kpageflags", frame);
}

enum : uint64_t { HEAD = 1 << 15, TAIL = 1 << 16 };

/* Whether the 2 MiB from `start` on are known to be one page. */
static bool is_huge(const char *start)
{
    for (size_t at = 0; at < 2 * mib; at += page)
        if ((page_flags(start + at).value_or(0) & (at == 0 ? HEAD : TAIL)) == 0)
            return false;
    return true;
}

static bool is_alone(const char *address)
{
    return (page_flags(address).value_or(HEAD) & (HEAD | TAIL)) == 0;
}

static unsigned make_huge(char *start, unsigned count)
{
    unsigned made = 0;
    for (unsigned i = 0; i < count; i++)
        made += os_make_huge(start + i * 2 * mib, 2 * mib) > 0;
    return made;
}

enum class Huge { Impossible, Untold, Told };

/* Makes two huge pages, the first where pages were dropped one by one: there the page table stays.
 * Told: both are huge, and were said to be. */
static Huge make_two_huge()
{
    char *start = reserved(4 * mib, 2 * mib);
    EXPECT_EQ(os_commit(start, 4 * mib), 0);
    os_refuse_huge(start, 4 * mib);
    memset(start, 0xAA, 2 * mib);
    for (size_t at = 0; at < 2 * mib; at += 16 * page)
        EXPECT_EQ(os_purge(start + at, 16 * page), 0);
    unsigned made = make_huge(start, 2);
    EXPECT_TRUE(calm_test::is_zero(start, 4 * mib));
    unsigned are_huge = unsigned{is_huge(start)} + unsigned{is_huge(start + 2 * mib)};
    Huge result = made == 0 && are_huge == 0   ? Huge::Impossible
                  : made == 2 && are_huge == 2 ? Huge::Told
                                               : Huge::Untold;
    EXPECT_EQ(os_release(start, 4 * mib), 0);
    return result;
}

/* A test that waits for its processor may be told of a huge page that is none, hence the tries.
 * Seen to fail without MADV_COLLAPSE, and with an os_make_huge() that says nothing of it. */
TEST(Memory, AHugePageIsMadeOfFreshPagesAndOfDroppedOnes)
{
    struct os_facts facts;
    os_start(&facts);
    if (facts.huge_pages == OS_HUGE_NEVER || !page_flags(reinterpret_cast<char *>(&facts)))
        GTEST_SKIP() << "no huge page here, or no right to know";
    struct utsname kernel;
    ASSERT_EQ(uname(&kernel), 0);
    if (strverscmp(kernel.release, "6.1") < 0)
        GTEST_SKIP() << "a kernel before 6.1";
    Huge result = Huge::Untold;
    for (int i = 0; i < 20 && result == Huge::Untold; i++)
        result = make_two_huge();
    if (result == Huge::Impossible)
        GTEST_SKIP() << "the kernel makes none";
    EXPECT_EQ(result, Huge::Told);
}

/* Else the kernel keeps the whole for itself until it runs out of memory. Seen to fail with an
 * os_part_huge() that forgets an end. */
TEST(Memory, AHugePageThatIsPartedIsGivenBackInParts)
{
    char *start = reserved(6 * mib, 2 * mib);
    ASSERT_EQ(os_commit(start, 6 * mib), 0);
    make_huge(start, 3);
    memset(start, 0xAA, 6 * mib);
    if (!is_huge(start) || !is_huge(start + 4 * mib))
        GTEST_SKIP() << "no huge page here, or no right to know";
    os_refuse_huge(start, 6 * mib);
    EXPECT_TRUE(is_huge(start)) << "those that are there stay";
    os_part_huge(start + mib, 4 * mib);
    ASSERT_EQ(os_purge(start + mib, 4 * mib), 0);
    EXPECT_TRUE(is_alone(start));
    EXPECT_TRUE(is_alone(start + 5 * mib));
    EXPECT_TRUE(calm_test::is_zero(start + mib, 4 * mib));
    for (size_t i = 0; i < mib; i++)
        ASSERT_EQ(start[i] & start[5 * mib + i] & 0xFF, 0xAA);
    EXPECT_EQ(os_release(start, 6 * mib), 0);
}

TEST(Memory, LockedPagesAreDroppedOrKeepTheirBytesAsTheKernelSays)
{
    if (calm_test::is_sanitized)
        GTEST_SKIP() << "sanitizers lock nothing";
    char *start = reserved(mib, page);
    ASSERT_EQ(os_commit(start, mib), 0);
    if (mlock(start, 4 * page) != 0)
        GTEST_SKIP() << "no page may be locked here";
    memset(start, 0xAA, 4 * page);
    int error = os_purge(start, 4 * page); /* kernels before 5.18 refuse */
    EXPECT_EQ(static_cast<unsigned char>(start[0]), error == 0 ? 0 : 0xAA);
    EXPECT_EQ(os_release(start, mib), 0);
}

TEST(Memory, MovedPagesTakeTheirBytesAndLeaveZeroes)
{
    char *start = reserved(8 * mib, page);
    ASSERT_EQ(os_commit(start, 8 * mib), 0);
    for (size_t i = 0; i < mib; i += 8)
        memcpy(start + i, &i, 8);
    ASSERT_EQ(os_move(start, start + 4 * mib, mib), 0);
    for (size_t i = 0; i < mib; i += 8)
        ASSERT_EQ(memcmp(start + 4 * mib + i, &i, 8), 0);
    EXPECT_TRUE(calm_test::is_zero(start, mib));
    start[0] = 1;
    EXPECT_EQ(os_release(start, 8 * mib), 0);
}

TEST(Memory, ARenewedRangeIsZeroAndJoinsItsNeighbours)
{
    char *start = reserved(8 * mib, page);
    ASSERT_EQ(os_commit(start, 8 * mib), 0);
    memset(start, 0xAA, 8 * mib);
    ASSERT_EQ(os_move(start, start + 4 * mib, mib), 0);
    EXPECT_GT(mappings_in(start, 8 * mib).size(), 1u);
    ASSERT_EQ(os_renew(start + 4 * mib, mib), 0);
    EXPECT_TRUE(calm_test::is_zero(start + 4 * mib, mib));
    EXPECT_EQ(mappings_in(start, 8 * mib).size(), 1u);
    EXPECT_EQ(os_release(start, 8 * mib), 0);
}

TEST(Memory, NoCallTouchesErrno)
{
    errno = 77;
    void *start;
    EXPECT_LT(os_reserve(static_cast<size_t>(1) << 60, page, &start), 0);
    EXPECT_LT(os_commit(nullptr, page), 0);
    EXPECT_LT(os_move(nullptr, reinterpret_cast<void *>(page), page), 0);
    os_name(nullptr, page, "nothing");
    EXPECT_EQ(os_resident_bytes(nullptr, page), 0u);
    EXPECT_EQ(errno, 77);
}
