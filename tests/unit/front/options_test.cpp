/*
 * options_test.cpp: front/options.c reads what is right, says what is wrong, and survives any
 * bytes.
 */
#include <gtest/gtest.h>

#include "../heap_support.h"

static std::string complaints_of(const std::string &line)
{
    char buffer[8192];
    struct text complaints = text_begin(buffer, sizeof buffer);
    options_parse(line.c_str(), &complaints);
    return buffer;
}

static uint64_t value_of(const char *name)
{
    uint64_t value = 0;
    EXPECT_EQ(option_read(name, &value), OPTION_FINE) << name;
    return value;
}

static uint64_t words_in(const struct option &option)
{
    return 1 + static_cast<uint64_t>(
                   std::count(option.words, option.words + strlen(option.words), '|'));
}

class OptionsTest : public testing::Test
{
  protected:
    void TearDown() override
    {
        for (const struct option &option : options)
            complaints_of(std::string(option.name) + "=" + std::to_string(option.standard));
    }
};

TEST_F(OptionsTest, EveryOptionHasAHelpAndADefaultInItsRange)
{
    std::set<std::string> names;
    for (const struct option &option : options) {
        EXPECT_TRUE(names.insert(option.name).second);
        EXPECT_GT(strlen(option.help), 10u);
        if (option.words != nullptr) {
            EXPECT_LT(option.standard, words_in(option));
        } else {
            EXPECT_GE(option.standard, option.minimum);
            EXPECT_LE(option.standard, option.maximum);
        }
    }
    EXPECT_EQ(names.size(), static_cast<size_t>(OPTION_COUNT));
}

TEST_F(OptionsTest, NumbersAreTakenFromTheirLeastToTheirMostAndNotBeyond)
{
    for (const struct option &option : options) {
        if (option.words != nullptr)
            continue;
        std::string name = option.name;
        for (uint64_t value : {option.minimum, option.maximum}) {
            EXPECT_EQ(complaints_of(name + "=" + std::to_string(value)), "");
            EXPECT_EQ(value_of(option.name), value);
        }
        std::string expected = "calmalloc: option " + name + " stays, as it cannot be \"" +
                               std::to_string(option.maximum + 1) + "\"; it is a number from " +
                               std::to_string(option.minimum) + " to " +
                               std::to_string(option.maximum) + "\n";
        EXPECT_EQ(complaints_of(name + "=" + std::to_string(option.maximum + 1)), expected);
        EXPECT_EQ(value_of(option.name), option.maximum) << "a bad value changes nothing";
        if (option.minimum > 0) {
            EXPECT_NE(complaints_of(name + "=" + std::to_string(option.minimum - 1)), "");
        }
    }
}

TEST_F(OptionsTest, ChoicesAreTakenByWordAndByNumber)
{
    for (const struct option &option : options) {
        if (option.words == nullptr)
            continue;
        std::string rest = option.words, name = option.name;
        for (uint64_t index = 0; index < words_in(option); index++) {
            std::string word = rest.substr(0, rest.find('|'));
            rest = rest.substr(std::min(rest.size(), word.size() + 1));
            EXPECT_EQ(complaints_of(name + "=" + word), "");
            EXPECT_EQ(value_of(option.name), index);
            EXPECT_EQ(complaints_of(name + "=" + std::to_string(index)), "");
            EXPECT_EQ(value_of(option.name), index);
        }
        EXPECT_EQ(complaints_of(name + "=perhaps"),
                  "calmalloc: option " + name +
                      " stays, as it cannot be \"perhaps\"; it is one of " + option.words + "\n");
        EXPECT_NE(complaints_of(name + "=" + option.words), "") << "the whole list is no word";
    }
}

TEST_F(OptionsTest, TheLastOfSeveralCountsAndGoodPartsCountBesideBadOnes)
{
    EXPECT_EQ(complaints_of("cache_kb=100,cache_kb=200"), "");
    EXPECT_EQ(value_of("cache_kb"), 200u);
    std::string words = complaints_of("nonsense,cache_kb=300,=,cohorts=,purge_delay_ms=7");
    EXPECT_EQ(value_of("cache_kb"), 300u);
    EXPECT_EQ(value_of("purge_delay_ms"), 7u);
    EXPECT_EQ(std::count(words.begin(), words.end(), '\n'), 3) << words;
    EXPECT_EQ(complaints_of(""), "");
    EXPECT_EQ(complaints_of(",,,"), "");
    EXPECT_EQ(complaints_of(" cache_kb=400 , purge_delay_ms=8,  "), "") << "blanks around a part";
    EXPECT_EQ(value_of("cache_kb"), 400u);
    EXPECT_EQ(value_of("purge_delay_ms"), 8u);
}

TEST_F(OptionsTest, NumbersThatAreNoneAreRefused)
{
    for (const char *value :
         {"", "-1", "+1", " 1", "0x10", "1e3", "1.5", "99999999999999999999999999", "\xff"})
        EXPECT_NE(complaints_of(std::string("cache_kb=") + value), "") << value;
    EXPECT_EQ(value_of("cache_kb"), 4096u);
}

/* Bytes that are no text must not reach a terminal raw, nor a value out of range come from
 * anywhere. */
TEST_F(OptionsTest, AnyBytesAreSafe)
{
    calm_test::Random random(16);
    const std::string pieces[] = {"cache_kb", "=",        ",",         "misuse",
                                  "stop",     "|",        "1",         "18446744073709551616",
                                  "sites",    "\x1b[31m", "\xff\xfe",  std::string(3000, 'a'),
                                  "off",      "-",        "report_fd", "\n"};
    for (unsigned round = 0; round < 20000; round++) {
        std::string line;
        for (size_t i = random.below(12); i > 0; i--) {
            if (random.below(3) == 0)
                line += static_cast<char>(1 + random.below(255));
            else
                line += pieces[random.below(sizeof pieces / sizeof pieces[0])];
        }
        for (char c : complaints_of(line))
            ASSERT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << static_cast<int>(c);
        for (const struct option &option : options) {
            uint64_t value = value_of(option.name);
            ASSERT_TRUE(option.words != nullptr
                            ? value < words_in(option)
                            : value >= option.minimum && value <= option.maximum)
                << option.name;
        }
    }
}

TEST_F(OptionsTest, ComplaintsThatDoNotFitAreCutAndNothingElseIsLost)
{
    char buffer[40];
    struct text complaints = text_begin(buffer, sizeof buffer);
    options_parse("nonsense=1,more_nonsense=2,cache_kb=500", &complaints);
    EXPECT_TRUE(complaints.is_cut);
    EXPECT_EQ(value_of("cache_kb"), 500u);
}

TEST_F(OptionsTest, WhatIsFixedAtTheStartCannotBeWrittenLater)
{
    uint64_t value;
    EXPECT_EQ(option_read("no_such_option", &value), OPTION_UNKNOWN);
    EXPECT_EQ(option_write("no_such_option", 1), OPTION_UNKNOWN);
    EXPECT_EQ(option_read("", &value), OPTION_UNKNOWN);
    for (const struct option &option : options) {
        uint64_t good = option.standard,
                 bad = option.words != nullptr ? words_in(option) : option.maximum + 1;
        if (option.when == START) {
            EXPECT_EQ(option_write(option.name, good), OPTION_FIXED);
        } else {
            EXPECT_EQ(option_write(option.name, bad), OPTION_BAD_VALUE);
            EXPECT_EQ(option_write(option.name, good), OPTION_FINE);
        }
    }
}
