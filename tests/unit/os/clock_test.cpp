/*
 * clock_test.cpp: os/linux/clock.h against the C library, and that it makes no system call.
 */
#include <gtest/gtest.h>

#include <csignal>
#include <ctime>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support.h"

extern "C" {
#include "os/linux/clock.h"
}

namespace
{

bool is_before(const timespec &left, const timespec &right)
{
    return left.tv_sec != right.tv_sec ? left.tv_sec < right.tv_sec : left.tv_nsec <= right.tv_nsec;
}

TEST(Clock, ReadsBetweenTwoReadingsOfTheCLibrarys)
{
    for (clockid_t clock : {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_COARSE}) {
        timespec before, after;
        clock_gettime(clock, &before);
        timespec now = clock_read(clock);
        clock_gettime(clock, &after);
        EXPECT_TRUE(is_before(before, now) && is_before(now, after)) << clock;
    }
}

/* A child whose clock_gettime() of the kernel kills it. */
int read_where_the_call_kills()
{
    sock_filter program[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, 0},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_clock_gettime},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    sock_fprog filter = {4, program};
    pid_t child = fork();
    if (child == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
            _exit(77);
        clock_read(CLOCK_MONOTONIC_COARSE);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    return status;
}

TEST(Clock, MakesNoSystemCallWhereTheKernelGivesCode)
{
    int status = read_where_the_call_kills();
    if (getauxval(AT_SYSINFO_EHDR) == 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 77))
        GTEST_SKIP() << "no code of the kernel's, or no filters, here";
    EXPECT_EQ(status, 0);
}

} // namespace
