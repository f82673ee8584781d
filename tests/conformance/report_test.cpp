/*
 * report_test.cpp: the calls that ask the heap about itself or tune it: malloc_trim, mallinfo,
 * mallinfo2, malloc_info, malloc_stats, mallopt.
 */
#include "support.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <malloc.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace
{

std::size_t resident_bytes()
{
    std::ifstream rollup("/proc/self/smaps_rollup");
    std::string line;
    while (std::getline(rollup, line))
        if (line.compare(0, 4, "Rss:") == 0)
            return std::stoul(line.substr(4)) * KIB;
    return 0;
}

std::vector<void *> allocate_dirty(std::size_t count, std::size_t size)
{
    std::vector<void *> blocks(count);
    for (void *&block : blocks) {
        block = malloc(size);
        std::memset(block, 1, size);
    }
    return blocks;
}

void free_all(const std::vector<void *> &blocks)
{
    for (void *block : blocks)
        free(block);
}

TEST(MallocTrim, GivesBackWhatWasFreedAndSaysSo)
{
    for (std::size_t size : {64, 3000, 100000, 5 << 20}) {
        std::vector<void *> blocks = allocate_dirty(64 * MIB / size, size);
        std::size_t full = resident_bytes();
        free_all(blocks);
        blocks = {};
        EXPECT_EQ(malloc_trim(0), 1) << size;
        EXPECT_LT(resident_bytes() + 58 * MIB, full) << size;
    }
}

TEST(MallocTrim, KeepsLiveBlocksAsTheyAre)
{
    std::vector<void *> blocks = allocate_dirty(20000, 500);
    for (std::size_t i = 0; i < blocks.size(); i++) {
        if (i % 2 == 0)
            pattern_write(blocks[i], 500, static_cast<unsigned>(i));
        else
            free(blocks[i]);
    }
    malloc_trim(0);
    for (std::size_t i = 0; i < blocks.size(); i += 2) {
        EXPECT_EQ(pattern_errors(blocks[i], 500, static_cast<unsigned>(i)), 0u);
        free(blocks[i]);
    }
}

TEST(Mallinfo2, FollowsWhatIsLive)
{
    struct mallinfo2 before = mallinfo2();
    std::vector<void *> small = allocate_dirty(200000, 160);
    std::vector<void *> large = allocate_dirty(20, 2 * MIB);
    struct mallinfo2 during = mallinfo2();
    EXPECT_GE(during.uordblks + during.hblkhd, before.uordblks + before.hblkhd + 70 * MIB);
    EXPECT_LT(during.uordblks, before.uordblks + 90 * MIB);
    EXPECT_GE(during.arena + during.hblkhd, during.uordblks);
    free_all(small);
    free_all(large);
    struct mallinfo2 after = mallinfo2();
    EXPECT_LT(after.uordblks + after.hblkhd, during.uordblks + during.hblkhd - 65 * MIB);
}

TEST(Mallinfo, AgreesWithMallinfo2WhereTheFiguresFit)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
    struct mallinfo2 wide = mallinfo2();
    ASSERT_LT(wide.arena, std::size_t{INT_MAX});
    EXPECT_EQ(static_cast<std::size_t>(narrow.arena), wide.arena);
    EXPECT_EQ(static_cast<std::size_t>(narrow.uordblks), wide.uordblks);
    EXPECT_EQ(static_cast<std::size_t>(narrow.fordblks), wide.fordblks);
    EXPECT_EQ(static_cast<std::size_t>(narrow.hblkhd), wide.hblkhd);
}

/* Returns the first thing that makes `text` no well-formed XML element, or an empty string. Knows
 * tags only.
 */
std::string xml_error(const std::string &text)
{
    std::vector<std::string> open;
    std::size_t roots = 0;
    for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
        std::size_t end = text.find('>', at);
        if (end == std::string::npos)
            return "a tag without an end";
        std::string tag = text.substr(at + 1, end - at - 1);
        if (tag.empty() || tag[0] == '?' || tag[0] == '!')
            continue;
        std::string name = tag.substr(tag[0] == '/',
                                      tag.find_first_of(" /\n\t", 1) - (tag[0] == '/'));
        bool has_odd_quotes = false;
        for (char c : tag)
            has_odd_quotes ^= c == '"';
        if (has_odd_quotes)
            return "an open quote in <" + tag + ">";
        if (tag[0] == '/') {
            if (open.empty() || open.back() != name)
                return "</" + name + "> closes nothing";
            open.pop_back();
            continue;
        }
        roots += open.empty();
        if (tag.back() != '/')
            open.push_back(name);
    }
    if (!open.empty())
        return "<" + open.back() + "> is never closed";
    return roots == 1 ? "" : std::to_string(roots) + " root elements";
}

TEST(MallocInfo, WritesOneWellFormedElementNamedMalloc)
{
    char *text = nullptr;
    std::size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    ASSERT_NE(stream, nullptr);
    EXPECT_EQ(malloc_info(0, stream), 0);
    ASSERT_EQ(fclose(stream), 0);
    std::string report(text, length);
    free(text);
    EXPECT_EQ(xml_error(report), "") << report;
    EXPECT_NE(report.find("<malloc"), std::string::npos) << report;
    EXPECT_NE(report.find("version="), std::string::npos) << report;
}

/* The number of `attribute` in the last element that begins with `element`; -1: there is none. */
long long last_number(const std::string &text, const std::string &element,
                      const std::string &attribute)
{
    std::size_t at = text.rfind("<" + element);
    std::size_t value = at == std::string::npos ? at : text.find(attribute + "=\"", at);
    if (value == std::string::npos || value > text.find('>', at))
        return -1;
    return std::stoll(text.substr(value + attribute.size() + 2));
}

/* Behind the heaps. Seen to fail without them, and with a rest that leaves out what batches hold.
 */
TEST(MallocInfo, HasTheCLibrarysTotalsAndTheyAddUpToWhatMallinfoSays)
{
    std::vector<void *> blocks = allocate_dirty(50000, 300);
    for (std::size_t i = 0; i < blocks.size(); i += 2)
        free(blocks[i]);
    char *text = nullptr;
    std::size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    ASSERT_NE(stream, nullptr);
    ASSERT_EQ(malloc_info(0, stream), 0);
    fflush(stream);
    struct mallinfo2 info = mallinfo2();
    std::string report(text, length);
    report = report.substr(report.rfind("</heap>"));
    fclose(stream);
    free(text);
    for (std::size_t i = 1; i < blocks.size(); i += 2)
        free(blocks[i]);
    long long fast = last_number(report, "total type=\"fast\"", "size");
    long long rest = last_number(report, "total type=\"rest\"", "size");
    EXPECT_GE(fast, 0);
    EXPECT_GE(last_number(report, "total type=\"fast\"", "count"), 0);
    EXPECT_GT(last_number(report, "total type=\"rest\"", "count"), 0);
    EXPECT_NEAR(double(fast + rest), double(info.fordblks), double(MIB));
    EXPECT_EQ(last_number(report, "total type=\"mmap\"", "size"), 0);
    EXPECT_EQ(last_number(report, "total type=\"mmap\"", "count"), 0);
    for (const char *kind : {"system type=\"current\"", "system type=\"max\"",
                             "aspace type=\"total\"", "aspace type=\"mprotect\""})
        EXPECT_EQ(last_number(report, kind, "size"), static_cast<long long>(info.arena)) << kind;
    EXPECT_EQ(info.uordblks + info.fordblks, info.arena);
}

/* As in the C library, where it is the most that the heap ever had of the system. Seen to fail with
 * one that repeats what is mapped now. */
TEST(MallocInfo, TheMostOfTheSystemsMemoryNeverFalls)
{
    auto sizes = [] {
        char *text = nullptr;
        std::size_t length = 0;
        FILE *stream = open_memstream(&text, &length);
        malloc_info(0, stream);
        fflush(stream);
        std::string report(text, length);
        fclose(stream);
        free(text);
        return std::pair{last_number(report, "system type=\"current\"", "size"),
                         last_number(report, "system type=\"max\"", "size")};
    };
    free_all(allocate_dirty(100, MIB));
    auto [current, most] = sizes();
    EXPECT_GE(most, current);
    malloc_trim(0);
    auto [current_after, most_after] = sizes();
    EXPECT_LT(current_after, 64LL << 20) << "what was freed is mapped";
    EXPECT_GE(most_after, most);
    EXPECT_GE(most_after, 100LL << 20);
}

TEST(MallocInfo, RefusesOptionsItDoesNotKnow)
{
    errno = 0;
    int result = malloc_info(1, stderr);
    EXPECT_TRUE(result == EINVAL || (result == -1 && errno == EINVAL)) << result;
}

TEST(MallocStats, WritesToStandardErrorAndNothingElse)
{
    char path[] = "/tmp/calm-stats-XXXXXX";
    int file = mkstemp(path);
    ASSERT_GE(file, 0);
    unlink(path);
    testing::internal::CaptureStdout();
    int keep = dup(STDERR_FILENO);
    dup2(file, STDERR_FILENO);
    malloc_stats();
    fflush(stderr);
    dup2(keep, STDERR_FILENO);
    close(keep);
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
    EXPECT_GT(lseek(file, 0, SEEK_END), 50);
    close(file);
}

TEST(Mallopt, AcceptsEveryParameterOfTheManual)
{
    EXPECT_EQ(mallopt(M_MMAP_THRESHOLD, 1 << 20), 1);
    EXPECT_EQ(mallopt(M_TRIM_THRESHOLD, 1 << 20), 1);
    EXPECT_EQ(mallopt(M_TOP_PAD, 1 << 20), 1);
    EXPECT_EQ(mallopt(M_MMAP_MAX, 65536), 1);
    EXPECT_EQ(mallopt(M_CHECK_ACTION, 3), 1);
    EXPECT_EQ(mallopt(M_PERTURB, 0), 1);
    EXPECT_EQ(mallopt(M_ARENA_TEST, 8), 1);
    EXPECT_EQ(mallopt(M_ARENA_MAX, 8), 1);
    free_all(allocate_dirty(1000, 3000));
}

} // namespace
