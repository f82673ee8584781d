/*
 * places_test.cpp: site/places.c: what a word says, and tables that are full.
 */
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

extern "C" {
#include "site/places.h"
}

namespace
{

struct Places : testing::Test {
    std::unique_ptr<char[]> memory{new char[places_bytes()]()};
    Places()
    {
        places_start(memory.get());
    }
    ~Places()
    {
        places_start(nullptr);
    }
};

template <class Text> place_text text_of(const Text &text)
{
    return {text.data(), (uint32_t)text.size(), sizeof text[0]};
}

uintptr_t enter(const std::string &file, const std::string &function, uint32_t line)
{
    return place_enter(text_of(file), text_of(function), line);
}

} // namespace

/* Seen to fail with the line and the index in each other's bits. */
TEST_F(Places, AWordHasTheFunctionItsFileAndTheLine)
{
    uintptr_t word = enter("a.py", "f", 7), other = enter("a.py", "g", 7);
    EXPECT_TRUE(place_is(word));
    EXPECT_EQ(enter("a.py", "f", 7), word);
    EXPECT_NE(enter("a.py", "f", 8), word);
    EXPECT_NE(enter("b.py", "f", 7), word);
    EXPECT_STREQ(place_of(word).file, "a.py");
    EXPECT_STREQ(place_of(word).function, "f");
    EXPECT_EQ(place_of(word).line, 7u);
    EXPECT_STREQ(place_of(other).function, "g");
    EXPECT_EQ(place_of(enter("a.py", "f", (1 << 24) - 1)).line, (1u << 24) - 1);
    EXPECT_EQ(place_of(enter("a.py", "f", 1 << 24)).line, 0u);
    EXPECT_STREQ(place_of(enter("", "", 0)).function, "");
}

/* Where a name ends counts: seen to fail with a hash of the joined texts. */
TEST_F(Places, TextsThatJoinToTheSameAreTwo)
{
    EXPECT_NE(enter("ab", "c", 1), enter("a", "bc", 1));
}

/* Seen to fail with the first byte of two wrong. */
TEST_F(Places, CharactersOfEachWidthBecomeUtf8)
{
    std::string latin = "gr\xf6\xdf";
    std::u16string wide = u"\u6d4b\u8bd5";
    std::u32string widest = U"a\u00e9\u20ac\U0001f40d";
    uintptr_t first = place_enter(text_of(latin), text_of(wide), 1);
    uintptr_t second = place_enter(text_of(widest), text_of(latin), 1);
    EXPECT_STREQ(place_of(first).file, "gr\xc3\xb6\xc3\x9f");
    EXPECT_STREQ(place_of(first).function, "\xe6\xb5\x8b\xe8\xaf\x95");
    EXPECT_STREQ(place_of(second).file, "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x8d");
}

TEST_F(Places, OfALongFileTheEndIsKeptAndOfAFunctionTheBeginning)
{
    std::string file = std::string(3000, 'd') + "/x.py", function = "f" + std::string(3000, '.');
    struct place place = place_of(enter(file, function, 3));
    EXPECT_EQ(std::string(place.file), file.substr(file.size() - 500));
    EXPECT_EQ(std::string(place.function), function.substr(0, 500));
}

/* Seen to fail with an index for the shared one's own. */
TEST_F(Places, FunctionsThatFindNoRoomShareOne)
{
    std::set<uintptr_t> own;
    unsigned shared = 0;
    for (unsigned i = 0; i < 20000; i++) {
        std::string name = "f" + std::to_string(i);
        uintptr_t word = enter("many.py", name, 5);
        struct place place = place_of(word);
        if (name == place.function) {
            EXPECT_EQ(place.line, 5u);
            own.insert(word);
        } else {
            EXPECT_STREQ(place.function, "(other functions of scripts)");
            EXPECT_EQ(place.line, 0u);
            shared++;
        }
    }
    EXPECT_EQ(own.size() + shared, 20000u);
    EXPECT_GT(own.size(), 15000u);
    EXPECT_GT(shared, 3000u);
    EXPECT_STREQ(place_of(enter("many.py", "f0", 9)).function, "f0");
}

/* Seen to fail, by writing behind the table, without the look at what is left. */
TEST_F(Places, TextsThatFindNoRoomAreToldApartAndHaveNoName)
{
    std::set<uintptr_t> words;
    unsigned unnamed = 0;
    for (unsigned i = 0; i < 2000; i++) {
        std::u32string name(500, 0x1f40d);
        name[0] = U'a' + i;
        uintptr_t word = place_enter(text_of(name), text_of(name), 5);
        words.insert(word);
        unnamed += std::string(place_of(word).file).empty();
    }
    EXPECT_EQ(words.size(), 2000u);
    EXPECT_GT(unnamed, 1000u);
    EXPECT_LT(unnamed, 1900u);
}
