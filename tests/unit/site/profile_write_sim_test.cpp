/*
 * profile_write_sim_test.cpp: site/profile_write.c on the simulated kernel, which refuses memory.
 */
#include <gtest/gtest.h>

#include <errno.h>

#include "profile_support.h"
extern "C" {
#include "os/sim/sim.h"
}

static int write_to(const calm_test::file &file, enum profile_format format)
{
    return profile_write_from(&calm_test::source, file.fd(), format);
}

/* Seen to fail with a commit whose failure leaves the reservation. */
TEST(ProfileWrite, WithoutMemoryItSaysSoAndLeavesNothingBehind)
{
    calm_test::begin_profile(1);
    calm_test::stacks = {{{0x401101}, 1, 1, 1, 1}};
    for (enum sim_call kind : {SIM_RESERVE, SIM_COMMIT}) {
        for (enum profile_format format : {PROFILE_PPROF, PROFILE_HEAP_V2, PROFILE_COLLAPSED}) {
            calm_test::file file;
            size_t reserved = sim_reserved_bytes();
            sim_fail_kind(kind, 1);
            EXPECT_EQ(write_to(file, format), ENOMEM) << kind << " " << format;
            sim_recover();
            EXPECT_EQ(sim_reserved_bytes(), reserved);
            EXPECT_EQ(file.contents(), "");
        }
    }
    calm_test::file file;
    sim_fail_kind(SIM_WRITE, 1);
    EXPECT_EQ(write_to(file, PROFILE_PPROF), EIO);
    sim_recover();
}

TEST(ProfileWrite, AProgramThatIsAlwaysTheSameHasTheSameProfile)
{
    calm_test::begin_profile(1);
    calm_test::stacks = {{{0x401101, 0x7000002001, 0x10}, 2, 300, 2, 300}};
    calm_test::file collapsed, heap_v2;
    size_t reserved = sim_reserved_bytes();
    ASSERT_EQ(write_to(collapsed, PROFILE_COLLAPSED), 0);
    EXPECT_EQ(collapsed.contents(), "0xf;library+0x3000;program+0x1100 300\n");
    ASSERT_EQ(write_to(heap_v2, PROFILE_HEAP_V2), 0);
    EXPECT_EQ(heap_v2.contents(), "heap_v2/1\n"
                                  "  t*: 2: 300 [2: 300]\n"
                                  "@ 0x401100 0x7000002001 0x10\n"
                                  "  t*: 2: 300 [2: 300]\n"
                                  "\nMAPPED_LIBRARIES:\n"
                                  "00401000-00403000 r-xp 00001000 00:01 1 /sim/program\n"
                                  "7000001000-7000008000 r-xp 00001000 00:01 2 /sim/library\n");
    EXPECT_EQ(sim_reserved_bytes(), reserved);
}
