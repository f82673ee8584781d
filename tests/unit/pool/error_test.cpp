/*
 * error_test.cpp: pool/error.c: a sentence a code.
 */
#include <gtest/gtest.h>

#include "../pool_support.h"

namespace
{

TEST(Strerror, EveryCodeHasASentenceOfItsOwn)
{
    std::set<std::string> seen;
    for (int code = 0; code < CALM_ERROR_COUNT; code++) {
        std::string sentence = calm_strerror(code);
        EXPECT_NE(sentence, "unknown error") << code;
        EXPECT_TRUE(seen.insert(sentence).second) << sentence;
    }
}

TEST(Strerror, ANumberThatIsNoCodeIsUnknown)
{
    EXPECT_STREQ(calm_strerror(-1), "unknown error");
    EXPECT_STREQ(calm_strerror(CALM_ERROR_COUNT), "unknown error");
}

} // namespace
