/*
 * check_test.cpp: base/check.c stops the program with one sentence on standard error.
 */
#include <gtest/gtest.h>

#include "../support.h"

TEST(CheckDeathTest, AStopWritesOneSentenceAndAborts)
{
    EXPECT_EXIT(check_stop("the sum of %u and %zu is not %s", 1u, static_cast<size_t>(2), "four"),
                testing::KilledBySignal(SIGABRT), "^calmalloc: the sum of 1 and 2 is not four\n$");
}

TEST(CheckDeathTest, ASentenceThatIsTooLongIsCutAndStillStops)
{
    std::string words(2000, 'w');
    EXPECT_EXIT(check_stop("%s", words.c_str()), testing::KilledBySignal(SIGABRT),
                "^calmalloc: w+\n?$");
}

TEST(CheckDeathTest, AnAssertionNamesItselfAndItsPlace)
{
    if (CHECKS < 2)
        GTEST_SKIP() << "assertions vanish below CHECKS 2";
    EXPECT_EXIT(ASSERT(1 + 1 == 3), testing::KilledBySignal(SIGABRT),
                "1 \\+ 1 == 3 \\(.*check_test.cpp:[0-9]+\\)");
    ASSERT(1 + 1 == 2);
}

TEST(CheckDeathTest, AVerdictStopsWithItsSentence)
{
    if (CHECKS < 2)
        GTEST_SKIP() << "walks vanish below CHECKS 2";
    EXPECT_EXIT(VERIFY("Z9: a sentence"), testing::KilledBySignal(SIGABRT), "Z9: a sentence");
    VERIFY(static_cast<verdict>(nullptr));
}
