/*
 * collapsed_test.cpp: the lines of site/collapsed.c, character by character.
 */
#include <gtest/gtest.h>

#include "profile_support.h"

static std::string collapsed()
{
    auto modules = calm_test::three_modules();
    return calm_test::written(
        false, [&](profile_out *out) { collapsed_write(out, &calm_test::source, modules.get()); });
}

/* Seen to fail with the frames in the order they are captured, and with return addresses. */
TEST(Collapsed, FramesGoFromTheOutermostToTheSiteAndNameTheCall)
{
    calm_test::begin_profile(1024);
    calm_test::stacks = {
        {{0x1101, 0x3001, 0x7011, 0x5001}, 1, 4096, 2, 8192},
        {{0x3000}, 1, 7, 1, 7}, /* returns behind a module's end: the call is its last */
    };
    EXPECT_EQ(collapsed(), "0x5000;b_c.so+0x10;a_program+0x2a00;a_program+0xb00 4096\n"
                           "a_program+0x29ff 7\n");
}

TEST(Collapsed, AStackWithoutLiveBytesHasNoLine)
{
    calm_test::begin_profile(1024);
    calm_test::stacks = {{{0x1101}, 0, 0, 9, 9000}, {{}, 0, 0, 1, 1}};
    EXPECT_EQ(collapsed(), "");
}

/* Seen to fail with a line without a frame. */
TEST(Collapsed, TheStacksWithoutAPlaceOfTheirOwnHaveALine)
{
    calm_test::begin_profile(1024);
    calm_test::stacks = {{{}, 2, 700, 3, 800}};
    EXPECT_EQ(collapsed(), "(other stacks) 700\n");
}

/* Seen to fail with one taken off the word, as off an address. */
TEST(Collapsed, PlacesInScriptsHaveTheirFunctionsAndLines)
{
    calm_test::script script;
    calm_test::begin_profile(1024);
    calm_test::stacks = {
        {{0x1101, script.word("f g;h", 7), script.word("<module>", 0)}, 2, 700, 3, 800}};
    EXPECT_EQ(collapsed(), "<module>;f_g_h:7;a_program+0xb00 700\n");
}
