/*
 * failure_test.cpp: requests that fail where errno and exceptions are most easily lost: in many
 * threads at once, in a fork's child, and when memory runs out for real (a limit on the address
 * space).
 */
#include "support.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <malloc.h>
#include <new>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{

/* Runs `work` in a child and returns its wait status; a child that hangs is killed by its alarm. */
int status_of_child(const std::function<int()> &work)
{
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        _exit(work());
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return status;
}

/* Returns 0 when every family of calls fails as it should and works again right afterwards. */
int check_failures()
{
    void *untouched = &errno;
    void *block = untouched;
    errno = 0;
    if (malloc(too_large()) != nullptr || errno != ENOMEM)
        return 1;
    errno = 0;
    if (calloc(opaque(SIZE_MAX / 2), 3) != nullptr || errno != ENOMEM)
        return 2;
    errno = 0;
    if (aligned_alloc(64, too_large()) != nullptr || errno != ENOMEM)
        return 3;
    if (posix_memalign(&block, 64, too_large()) != ENOMEM || block != untouched)
        return 4;
    bool is_caught = false;
    try {
        opaque(::operator new(too_large()));
    } catch (const std::bad_alloc &) {
        is_caught = true;
    }
    if (!is_caught || ::operator new(too_large(), std::nothrow) != nullptr)
        return 5;
    void *small = malloc(100);
    errno = 0;
    if (small == nullptr || realloc(small, too_large()) != nullptr || errno != ENOMEM)
        return 6;
    free(small);
    return 0;
}

TEST(Failure, InManyThreadsIsReportedToEachOfThem)
{
    std::atomic<int> errors{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; t++)
        threads.emplace_back([&] {
            for (int i = 0; i < 2000; i++)
                errors += check_failures() != 0;
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(errors, 0);
}

TEST(Failure, InOneThreadLeavesTheErrnoOfAnotherAlone)
{
    std::atomic<bool> is_over{false};
    std::thread failing([&] {
        while (!is_over)
            opaque(malloc(too_large()));
    });
    errno = 17;
    for (int i = 0; i < 20000; i++) {
        void *block = malloc(static_cast<std::size_t>(i) + 1);
        if (block == nullptr)
            break;
        free(block);
    }
    EXPECT_EQ(errno, 17);
    is_over = true;
    failing.join();
}

TEST(Failure, InAForkedChildIsReportedThere)
{
    EXPECT_EQ(status_of_child(check_failures), 0);
}

TEST(Failure, InAChildOfAThreadIsReportedThere)
{
    int status = -1;
    std::thread([&] { status = status_of_child(check_failures); }).join();
    EXPECT_EQ(status, 0);
}

void limit_address_space(std::size_t more)
{
    std::size_t pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm == nullptr || fscanf(statm, "%zu", &pages) != 1)
        _exit(100);
    fclose(statm);
    rlimit limit;
    limit.rlim_cur = limit.rlim_max = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) +
                                      more;
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        _exit(101);
}

/* Writes whole pages, so that what is allocated is also there. */
bool is_writable(void *block, std::size_t size)
{
    std::memset(block, 0x77, size);
    return *(static_cast<unsigned char *>(block) + size / 2) == 0x77;
}

/*
 * Takes blocks of `size` bytes until there are no more, gives all back, and takes as many again.
 * The blocks are chained through their first word, so that the books need no memory. At most `most`
 * are taken: a heap that reserved its range before the limit was set may go on beyond it.
 */
int exhaust_and_recover(std::size_t size, std::size_t most)
{
    std::size_t first_count = 0;
    for (int round = 0; round < 3; round++) {
        void *chain = nullptr;
        std::size_t count = 0;
        while (count < most) {
            errno = 0;
            void *block = malloc(size);
            if (block == nullptr)
                break;
            if (!is_writable(block, size))
                return 1;
            *static_cast<void **>(block) = chain;
            chain = block;
            count++;
        }
        if (count < most && errno != ENOMEM)
            return 2;
        while (chain != nullptr) {
            void *next = *static_cast<void **>(chain);
            errno = 9;
            free(chain);
            if (errno != 9)
                return 3;
            chain = next;
        }
        if (round == 0)
            first_count = count;
        else if (count * 10 < first_count * 9)
            return 4;
    }
    return 0;
}

TEST(Failure, OutOfAddressSpaceIsEnomemAndEverythingWorksAfterwards)
{
    for (std::size_t size : {std::size_t{64}, std::size_t{4000}, std::size_t{200000}, 40 * MIB}) {
        int status = status_of_child([size] {
            limit_address_space(100 * MIB);
            return exhaust_and_recover(size, 256 * MIB / size);
        });
        EXPECT_EQ(status, 0) << size;
    }
}

TEST(Failure, OutOfAddressSpaceThrowsBadAllocAndCallsTheHandler)
{
    int status = status_of_child([] {
        limit_address_space(64 * MIB);
        static int calls;
        static void *reserve;
        reserve = malloc(8 * MIB);
        std::set_new_handler([] {
            calls++;
            if (reserve == nullptr)
                throw std::bad_alloc();
            free(std::exchange(reserve, nullptr));
        });
        try {
            for (;;)
                opaque(::operator new(std::size_t{1} << 40));
        } catch (const std::bad_alloc &) {
            return calls == 2 ? 0 : 1;
        }
    });
    EXPECT_EQ(status, 0);
}

} // namespace
