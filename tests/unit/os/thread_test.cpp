/*
 * thread_test.cpp: os/linux/thread.c: sleeping, exit and fork hooks.
 */
#include <gtest/gtest.h>

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../support.h"

static void sleep_ms(long milliseconds)
{
    struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&pause, nullptr);
}

TEST(ThreadHooks, AWaitReturnsAtOnceWhenTheWordDiffersAndAfterItsTimeoutWhenNot)
{
    uint32_t word = 5;
    uint64_t before = os_clock_ms();
    os_wait(&word, 4, UINT64_MAX);
    EXPECT_LE(os_clock_ms() - before, 1000u);
    before = os_clock_ms();
    os_wait(&word, 5, 100);
    EXPECT_GE(os_clock_ms() - before, 80u);
}

TEST(ThreadHooks, AWakeEndsASleep)
{
    uint32_t word = 0;
    std::thread sleeper([&] {
        while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) == 0)
            os_wait(&word, 0, UINT64_MAX);
    });
    sleep_ms(50);
    __atomic_store_n(&word, 1u, __ATOMIC_RELEASE);
    os_wake(&word, UINT32_MAX);
    sleeper.join();
}

static std::atomic<int> exits_seen;

TEST(ThreadHooks, AnArmedThreadsValueReachesTheHookAndAnUnarmedThreadDoesNot)
{
    ASSERT_EQ(os_on_thread_exit([](void *value) { exits_seen += *static_cast<int *>(value); }), 0);
    int value = 7;
    std::thread([&] { EXPECT_EQ(os_thread_exit_arm(&value), 0); }).join();
    EXPECT_EQ(exits_seen, 7);
    std::thread([] {}).join();
    EXPECT_EQ(exits_seen, 7);
}

static std::string fork_order;

TEST(ThreadHooks, ForkHooksRunBeforeAndAfterInParentAndChild)
{
    ASSERT_EQ(os_on_fork([] { fork_order += "before "; }, [] { fork_order += "parent"; },
                         [] { fork_order += "child"; }),
              0);
    pid_t child = fork();
    if (child == 0)
        _exit(fork_order == "before child" ? 0 : 1);
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(fork_order, "before parent");
}
