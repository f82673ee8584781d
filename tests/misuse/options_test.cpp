/*
 * options_test.cpp: what a misuse does is chosen from outside by CALM_OPTIONS, without touching the
 * program.
 */
#include "child.h"

#include <gtest/gtest.h>

namespace
{

outcome run_misuse(const std::string &misuse, const std::string &options)
{
    return run_program(MISUSE_PROGRAM, {misuse}, options);
}

/* Expects that the program goes on and writes nothing, whatever it said it would. */
void expect_silence(const outcome &got)
{
    EXPECT_EQ(got.errors, "");
    EXPECT_TRUE(WIFEXITED(got.status) && WEXITSTATUS(got.status) == 0) << got.status;
}

TEST(MisuseOption, IsStopByDefault)
{
    expect_stopped(run_misuse("double", ""));
    expect_stopped(run_misuse("inside", ""));
}

TEST(MisuseOption, StopStopsTheProgram)
{
    expect_stopped(run_misuse("double", "misuse=stop"));
    expect_stopped(run_misuse("inside", "purge=trim,misuse=stop"));
    expect_stopped(run_misuse("inside", "misuse=1"));
}

TEST(MisuseOption, CountGoesOnInSilence)
{
    expect_silence(run_misuse("double", "misuse=count"));
    expect_silence(run_misuse("inside", "misuse=count"));
    expect_silence(run_misuse("inside", "misuse=0,foreign=stop"));
}

TEST(ForeignOption, IsCountByDefault)
{
    expect_survived(run_misuse("foreign-named", ""));
    expect_survived(run_misuse("foreign-named", "foreign=count,misuse=stop"));
}

TEST(ForeignOption, StopStopsTheProgram)
{
    expect_stopped(run_misuse("foreign-stops", "foreign=stop"));
    expect_stopped(run_misuse("foreign-stops", "misuse=count,foreign=stop"));
}

} // namespace
