/*
 * lines_test.cpp: os/linux/lines.h: lines as they are in a file, whatever the buffer's size.
 */
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

extern "C" {
#include "os/linux/lines.h"
}

namespace
{

std::vector<std::string> lines_of(const std::string &text, size_t capacity)
{
    char path[] = "/tmp/calm-lines-XXXXXX";
    close(mkstemp(path));
    std::ofstream(path) << text;
    lines lines;
    EXPECT_EQ(lines_open(&lines, path), 0);
    std::vector<std::string> found;
    std::vector<char> line(capacity);
    while (lines_read(&lines, line.data(), capacity) > 0)
        found.emplace_back(line.data());
    lines_close(&lines);
    unlink(path);
    return found;
}

uint64_t number(const char *words, unsigned base, const char *rest)
{
    char *at = const_cast<char *>(words);
    uint64_t value = lines_number(&at, base);
    EXPECT_STREQ(at, rest);
    return value;
}

} // namespace

/* Seen to fail with a refill that does not set `next` back. */
TEST(Lines, CrossTheEndsOfTheBuffer)
{
    std::vector<std::string> wanted;
    std::string text;
    for (size_t i = 0; i < 500; i++) {
        wanted.push_back(std::string(i % 37, 'x') + std::to_string(i));
        text += wanted.back() + "\n";
    }
    EXPECT_GT(text.size(), 4 * sizeof(lines::buffer));
    EXPECT_EQ(lines_of(text, 128), wanted);
}

TEST(Lines, AreCutAtTheCapacityAndTheNextOneIsWhole)
{
    EXPECT_EQ(lines_of("abcdefgh\nij\n\n", 4), (std::vector<std::string>{"abc", "ij", ""}));
}

TEST(Lines, OfNoFileAreAnError)
{
    lines lines;
    EXPECT_EQ(lines_open(&lines, "/nonexistent"), -ENOENT);
}

TEST(Lines, NumbersEndWhereTheirDigitsDo)
{
    EXPECT_EQ(number("7f3a-80 x", 16, "-80 x"), 0x7f3aU);
    EXPECT_EQ(number("129a", 10, "a"), 129U);
    EXPECT_EQ(number("-1", 10, "-1"), 0U);
    EXPECT_EQ(number("", 16, ""), 0U);
}
