/*
 * thread_test.cpp: os/linux/thread.c: sleeping, the helper thread, exit and fork hooks.
 */
#include <gtest/gtest.h>

#include <dirent.h>
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

static unsigned kernel_threads()
{
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    while (struct dirent *entry = readdir(tasks))
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
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

static uint32_t helper_alive;
static uint32_t helper_release;
static uint64_t helper_mask;
alignas(65536) static char helper_stack[65536];

/* Reads its own blocked signals from the kernel without the C library's help: a helper has no
 * errno. */
extern "C" void helper_body(void)
{
    long result;
    register long r10 __asm__("r10") = 8;
#if defined(__x86_64__)
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(14L), "D"(0L), "S"(0L), "d"(&helper_mask), "r"(r10)
                     : "rcx", "r11", "memory");
#else
    helper_mask = UINT64_MAX;
    result = 0;
    (void)r10;
#endif
    (void)result;
    while (__atomic_load_n(&helper_release, __ATOMIC_ACQUIRE) == 0)
        os_wait(&helper_release, 0, 1000);
}

TEST(ThreadHooks, AHelperRunsWithAllSignalsBlockedAndClearsItsWordWhenItEnds)
{
    helper_alive = 1;
    int result = os_helper_start(helper_body, helper_stack, sizeof helper_stack, &helper_alive);
    if (result == -EPERM)
        GTEST_SKIP() << "no helper thread can run here";
    ASSERT_EQ(result, 0);
    sleep_ms(50);
    EXPECT_EQ(kernel_threads(), 2u);
    EXPECT_EQ(__atomic_load_n(&helper_alive, __ATOMIC_ACQUIRE), 1u);
    sigset_t mine;
    pthread_sigmask(SIG_SETMASK, nullptr, &mine);
    EXPECT_EQ(sigismember(&mine, SIGUSR1), 0) << "the starter's own mask is as before";
    __atomic_store_n(&helper_release, 1u, __ATOMIC_RELEASE);
    os_wake(&helper_release, 1);
    for (unsigned i = 0; i < 200 && kernel_threads() > 1; i++)
        sleep_ms(10);
    EXPECT_EQ(kernel_threads(), 1u);
    EXPECT_EQ(__atomic_load_n(&helper_alive, __ATOMIC_ACQUIRE), 0u);
    const uint64_t cannot_be_blocked = 1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1);
    EXPECT_EQ(helper_mask | cannot_be_blocked, UINT64_MAX);
}

/* A program's own, so that the library's lies far from the thread pointer. */
static thread_local char much_of_the_program[300 * 1024];
static uint32_t found_id;
static uint32_t learned_id;

extern "C" void learning_body(void)
{
    found_id = lock_holder_id;
    learned_id = lock_holder_id = lock_learn_id();
}

TEST(ThreadHooks, AHelperKnowsNothingOfAnEarlierOnesNumberInLocks)
{
    much_of_the_program[0] = 1;
    lock_start(); /* numbers of this process's threads count */
    std::set<uint32_t> ids;
    for (unsigned round = 1; round <= 3; round++) {
        helper_alive = 1;
        int result = os_helper_start(learning_body, helper_stack, sizeof helper_stack,
                                     &helper_alive);
        if (result == -EPERM)
            GTEST_SKIP() << "no helper thread can run here";
        ASSERT_EQ(result, 0);
        os_helper_join(&helper_alive, 5000);
        ASSERT_EQ(__atomic_load_n(&helper_alive, __ATOMIC_ACQUIRE), 0u);
        EXPECT_EQ(found_id, 0u);
        ids.insert(learned_id);
        EXPECT_EQ(ids.size(), round);
    }
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
