/*
 * text_test.cpp: base/text.c against the C library's snprintf, and its bounds against a guarded
 * buffer.
 */
#include <gtest/gtest.h>

#include "../support.h"

__attribute__((format(printf, 1, 2))) static std::string formatted(const char *format, ...)
{
    char buffer[4096];
    struct text text = text_begin(buffer, sizeof buffer);
    va_list arguments;
    va_start(arguments, format);
    text_format_list(&text, format, arguments);
    va_end(arguments);
    EXPECT_FALSE(text.is_cut);
    EXPECT_EQ(strlen(buffer), text.length);
    return buffer;
}

TEST(Text, MembersOfAnObjectHaveCommasBetweenThem)
{
    char buffer[64];
    struct text text = text_begin(buffer, sizeof buffer);
    text_add_char(&text, '{');
    text_add_member(&text, "none", 0);
    text_add_member(&text, "most", UINT64_MAX);
    text_add(&text, "}");
    EXPECT_STREQ(buffer, "{\"none\":0,\"most\":18446744073709551615}");
}

/* Seen to fail where the longer text may go on. */
TEST(Text, TwoAreTheSameOnlyToTheirEnds)
{
    EXPECT_TRUE(text_is_same("", ""));
    EXPECT_TRUE(text_is_same("word", std::string("word").c_str()));
    for (const char *other : {"", "wor", "words", "Word", "wore"}) {
        EXPECT_FALSE(text_is_same("word", other)) << other;
        EXPECT_FALSE(text_is_same(other, "word")) << other;
    }
}

TEST(Text, NumbersAreWrittenAsTheCLibraryWritesThem)
{
    calm_test::Random random(2);
    std::vector<uint64_t> values = {0, 1, 9, 10, 255, 256, UINT32_MAX, UINT64_MAX, UINT64_MAX - 1};
    for (unsigned i = 0; i < 1000; i++)
        values.push_back(random.next() >> random.below(64));
    for (uint64_t value : values) {
        char decimal[64], hex[64], column[64], buffer[256];
        snprintf(decimal, sizeof decimal, "%llu", static_cast<unsigned long long>(value));
        snprintf(hex, sizeof hex, "%llx", static_cast<unsigned long long>(value));
        snprintf(column, sizeof column, "%12llu", static_cast<unsigned long long>(value));
        struct text text = text_begin(buffer, sizeof buffer);
        text_add_number(&text, value);
        text_add_char(&text, ' ');
        text_add_hex(&text, value);
        text_add_char(&text, ' ');
        text_add_column(&text, value, 12);
        ASSERT_EQ(std::string(buffer), std::string(decimal) + " " + hex + " " + column);
    }
}

TEST(Text, AFormatIsReadAsTheHeaderSays)
{
    EXPECT_EQ(formatted("plain"), "plain");
    EXPECT_EQ(formatted("%s|%u|%zu|%%", "words", 7u, SIZE_MAX), "words|7|18446744073709551615|%");
    EXPECT_EQ(formatted("%p", reinterpret_cast<void *>(0x7f00dead)), "0x7f00dead");
    EXPECT_EQ(formatted("%s", ""), "");
}

/* Seen to fail with `length + 1 > capacity` in text_add_char: the byte behind the buffer was
 * written. */
TEST(Text, WhatDoesNotFitIsCutAndNothingBehindTheBufferIsTouched)
{
    for (size_t capacity = 1; capacity < 40; capacity++) {
        for (size_t length = 0; length < 45; length++) {
            char buffer[64];
            memset(buffer, '#', sizeof buffer);
            struct text text = text_begin(buffer, capacity);
            std::string words(length, 'w');
            text_add(&text, words.c_str());
            size_t kept = length < capacity ? length : capacity - 1;
            ASSERT_EQ(std::string(buffer), std::string(kept, 'w'));
            ASSERT_EQ(text.length, kept);
            ASSERT_EQ(text.is_cut, length > kept);
            ASSERT_EQ(std::string(buffer + capacity, sizeof buffer - capacity),
                      std::string(sizeof buffer - capacity, '#'));
        }
    }
}

static std::string taken;

static void take(struct text *filled)
{
    taken.append(filled->start, filled->length);
    filled->length = 0;
}

/* Seen to fail with a text that is cut all the same. */
TEST(Text, WhatIsTakenAwayWhenItIsFullLosesNothing)
{
    for (std::size_t capacity = 2; capacity < 40; capacity++) {
        char buffer[40];
        struct text text = text_begin(buffer, capacity);
        text.on_full = take;
        taken.clear();
        text_add_char(&text, '{');
        text_add_member(&text, "one", 1);
        text_add_member(&text, "two", 22);
        text_add(&text, "}\n");
        take(&text);
        EXPECT_EQ(taken, "{\"one\":1,\"two\":22}\n") << capacity;
        EXPECT_FALSE(text.is_cut);
    }
}
