/*
 * parse_test.cpp: requests of the Redis protocol, whole, in parts, and wrong.
 */
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

extern "C" {
#include "parse.h"
}

namespace
{

struct Parsed {
    enum parse_result result;
    size_t bytes = 0;
    std::vector<std::string> words{};
    std::string wrong{};
};

Parsed parse(const std::string &data, size_t most = 1000)
{
    auto request = std::make_unique<struct request>();
    std::vector<char> exact(data.begin(), data.end()); /* a step too far leaves the block */
    Parsed parsed{parse_request(exact.data(), exact.size(), most, request.get())};
    if (parsed.result == PARSE_WRONG)
        parsed.wrong = request->wrong;
    if (parsed.result != PARSE_DONE)
        return parsed;
    parsed.bytes = request->bytes;
    for (size_t i = 0; i < request->count; i++)
        parsed.words.emplace_back(request->words[i].start, request->words[i].bytes);
    return parsed;
}

using Words = std::vector<std::string>;

} // namespace

TEST(Parse, ARequestIsItsWordsAndNothingAfterIt)
{
    std::string data("*3\r\n$5\r\nLPUSH\r\n$0\r\n\r\n$4\r\n\r\n\0x\r\n", 31);
    Parsed parsed = parse(data + "*1\r\n");
    EXPECT_EQ(parsed.result, PARSE_DONE);
    EXPECT_EQ(parsed.bytes, data.size());
    EXPECT_EQ(parsed.words, (Words{"LPUSH", "", std::string("\r\n\0x", 4)}));
}

TEST(Parse, AnInlineRequestIsWordsBetweenBlanks)
{
    EXPECT_EQ(parse("  LPUSH a\t b \r\nPING\r\n").words, (Words{"LPUSH", "a", "b"}));
    EXPECT_EQ(parse("PING\n").bytes, 5u);
    EXPECT_EQ(parse("\r\n").words, Words{});
    EXPECT_EQ(parse("\r\n").bytes, 2u);
}

/* As Redis' sdssplitargs() has it. */
TEST(Parse, AnInlineRequestHasQuotes)
{
    const std::vector<std::pair<std::string, Words>> cases = {
        {R"(LPUSH a "b c" 'd e')", {"LPUSH", "a", "b c", "d e"}},
        {R"("" '' x)", {"", "", "x"}},
        {R"(a"b c" d'e f')", {"ab c", "de f"}},
        {R"("\n\r\t\b\a\"\\\q")", {"\n\r\t\b\a\"\\q"}},
        {R"("\x41\x7a\xFF\xfg\x4")", {"Az\xFFxfgx4"}},
        {R"('\n\'"\\x')", {"\\n'\"\\\\x"}},
        {"\v'a'\f\"b\"\t", {"a", "b"}},
        {R"(a\b)", {"a\\b"}},
    };
    for (const auto &[line, words] : cases) {
        Parsed parsed = parse(line + "\r\nPING\r\n");
        EXPECT_EQ(parsed.result, PARSE_DONE) << line;
        EXPECT_EQ(parsed.words, words) << line;
        EXPECT_EQ(parsed.bytes, line.size() + 2) << line;
    }
    for (const char *line :
         {"\"", "'", "a \"b", "'b\\'", "\"b\\\"", "\"b\"c", "'b'c", "\"b\"'c'", "a\""}) {
        Parsed parsed = parse(line + std::string("\r\n"));
        EXPECT_EQ(parsed.result, PARSE_WRONG) << line;
        EXPECT_EQ(parsed.wrong, "unbalanced quotes in request") << line;
    }
    std::string longest = "\"" + std::string(INLINE_BYTES_MAX - 3, 'v') + "\"\n";
    EXPECT_EQ(parse(longest, 10000).words, (Words{std::string(INLINE_BYTES_MAX - 3, 'v')}));
}

TEST(Parse, ARequestOfNothingIsEmpty)
{
    for (const char *data : {"*0\r\n", "*-1\r\n", "*-9223372036854775808\r\n"}) {
        EXPECT_EQ(parse(data).result, PARSE_DONE);
        EXPECT_EQ(parse(data).bytes, std::string(data).size());
        EXPECT_EQ(parse(data).words, Words{});
    }
}

TEST(Parse, EveryPartOfARequestNeedsMore)
{
    for (std::string data : {"*2\r\n$4\r\nLLEN\r\n$1\r\na\r\n", "LLEN a b c\r\n"})
        for (size_t bytes = 0; bytes < data.size(); bytes++)
            EXPECT_EQ(parse(data.substr(0, bytes)).result, PARSE_MORE) << bytes;
}

TEST(Parse, WhatIsWrongIsSaid)
{
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"*1025\r\n", "multibulk"},
        {"*x\r\n", "multibulk"},
        {"*1x\r\n", "multibulk"},
        {"*\r\n", "multibulk"},
        {"*1\rx", "multibulk"},
        {"*01\r\n", "multibulk"},
        {"*+1\r\n", "multibulk"},
        {"* 1\r\n", "multibulk"},
        {"*-0\r\n", "multibulk"},
        {"*9223372036854775808\r\n", "multibulk"},
        {"*1\r\n:1\r\n", "expected '$'"},
        {"*1\r\n$-1\r\n", "invalid bulk length"},
        {"*1\r\n$\r\n", "invalid bulk length"},
        {"*1\r\n$+1\r\n", "invalid bulk length"},
        {"*1\r\n$04\r\n", "invalid bulk length"},
        {"*1\r\n$ 4\r\n", "invalid bulk length"},
        {"*1\r\n$4 \r\n", "invalid bulk length"},
        {"*1\r\n$9223372036854775808\r\n", "invalid bulk length"},
        {"*1\r\n$1\r\nab\r\n", "longer than it says"},
        {"*1\r\n$1001\r\n", "too long"},
        {"*1\r\n$995\r\n", "too long"},
        {std::string(5000, 'a'), "inline"},
        {"*" + std::string(30, '1'), "multibulk"},
        {"*1\r\n$999999999999999999\r\n", "too long"},
    };
    for (const auto &[data, words] : cases) {
        EXPECT_EQ(parse(data).result, PARSE_WRONG) << data;
        EXPECT_NE(parse(data).wrong.find(words), std::string::npos) << data << parse(data).wrong;
    }
}

TEST(Parse, AnIntegerIsReadAsRedisReadsIt)
{
    int64_t number = 7;
    auto read = [&](const std::string &text) {
        return parse_integer({text.data(), text.size()}, &number);
    };
    for (int64_t value : {INT64_MIN, INT64_MIN + 1, INT64_C(-10), INT64_C(-1), INT64_C(0),
                          INT64_C(1), INT64_C(100), INT64_MAX - 1, INT64_MAX}) {
        EXPECT_TRUE(read(std::to_string(value))) << value;
        EXPECT_EQ(number, value);
    }
    for (const char *text : {"", "-", "-0", "00", "01", "-01", "+1", " 1", "1 ", "1a", "a", "0x1",
                             "9223372036854775808", "-9223372036854775809", "99999999999999999999"})
        EXPECT_FALSE(read(text)) << text;
}

TEST(Parse, ARequestMayBeAsLongAsIsAllowedAndNotLonger)
{
    std::string longest = "*1\r\n$988\r\n" + std::string(988, 'v') + "\r\n";
    ASSERT_EQ(longest.size(), 1000u);
    EXPECT_EQ(parse(longest, 1000).result, PARSE_DONE);
    EXPECT_EQ(parse(longest, 999).result, PARSE_WRONG);
    std::string many = "*1000\r\n";
    while (many.size() < 1000)
        many += "$0\r\n\r\n";
    EXPECT_EQ(parse(many.substr(0, 999)).result, PARSE_MORE);
    EXPECT_EQ(parse(many.substr(0, 1000)).result, PARSE_WRONG);
}
