/*
 * auxiliary_test.cpp: os/linux/auxiliary.h against the C library.
 */
#include <gtest/gtest.h>

#include <sys/auxv.h>

#include "../support.h"

extern "C" {
#include "os/linux/auxiliary.h"
}

namespace
{

TEST(Auxiliary, WhatWeReadIsWhatTheCLibrarySays)
{
    enum { SEQUENCE_BYTES = 27 };
    for (int type : {AT_PAGESZ, AT_SECURE, AT_RANDOM, AT_BASE, AT_ENTRY, AT_PHDR, AT_PHNUM,
                     AT_SYSINFO_EHDR, int(SEQUENCE_BYTES)})
        EXPECT_EQ(auxiliary_value(unsigned(type)), getauxval(unsigned(type))) << type;
    EXPECT_NE(auxiliary_value(AT_PAGESZ), 0u);
}

TEST(Auxiliary, WhatNoKernelHasIsZero)
{
    EXPECT_EQ(auxiliary_value(64), 0u);
    EXPECT_EQ(auxiliary_value(UINT32_MAX), 0u);
}

} // namespace
