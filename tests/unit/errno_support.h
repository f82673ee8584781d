/* errno_support.h: what tests share of the promise that a call leaves errno alone. */
#ifndef CALM_TESTS_UNIT_ERRNO_SUPPORT_H
#define CALM_TESTS_UNIT_ERRNO_SUPPORT_H

#include <gtest/gtest.h>

#include <cerrno>

/* Each call, whatever it answers, leaves errno as it was. */
#define KEEPS_ERRNO(call)                                                                          \
    do {                                                                                           \
        errno = EDOM;                                                                              \
        (void)(call);                                                                              \
        EXPECT_EQ(errno, EDOM) << #call;                                                           \
    } while (false)

#endif
