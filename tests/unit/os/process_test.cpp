/*
 * process_test.cpp: os/linux/process.c against the C library's own answers.
 */
#include <gtest/gtest.h>

#include <errno.h>
#include <sched.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "../support.h"

TEST(Process, FactsAgreeWithWhatTheCLibrarySays)
{
    struct os_facts facts;
    os_start(&facts);
    EXPECT_EQ(facts.page_bytes, static_cast<size_t>(sysconf(_SC_PAGESIZE)));
    EXPECT_EQ(facts.memory_bytes, static_cast<size_t>(get_phys_pages()) * facts.page_bytes);
    cpu_set_t mask;
    ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
    EXPECT_GE(facts.cpu_count, 1u);
    struct os_limits limits;
    os_limits_read(&limits, OS_LIMITS_START);
    EXPECT_EQ(facts.cpu_count, std::min(static_cast<unsigned>(CPU_COUNT(&mask)), limits.cpus));
    EXPECT_EQ(facts.memory_limit_bytes, std::min(limits.memory_max, limits.memory_high));
    EXPECT_FALSE(facts.is_secure);
}

TEST(Process, TheClockGoesForwardAtTheRightPace)
{
    uint64_t before = os_clock_ms();
    struct timespec pause = {0, 200000000};
    nanosleep(&pause, nullptr);
    uint64_t passed = os_clock_ms() - before;
    EXPECT_GE(passed, 180u);
    EXPECT_LE(passed, 5000u);
}

TEST(Process, RandomBytesDifferEachTime)
{
    std::set<uint64_t> seen;
    for (unsigned i = 0; i < 100; i++) {
        uint64_t value = 0;
        os_random(&value, sizeof value);
        seen.insert(value);
    }
    EXPECT_EQ(seen.size(), 100u);
}

TEST(Process, AllOfALongTextIsWrittenThroughAPipe)
{
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    std::string words(300000, 'x');
    std::string read_back;
    std::thread reader([&] {
        char buffer[5000];
        for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
            read_back.append(buffer, static_cast<size_t>(got));
    });
    EXPECT_EQ(os_write(ends[1], words.c_str(), words.size()), 0);
    close(ends[1]);
    reader.join();
    close(ends[0]);
    EXPECT_EQ(read_back, words);
    EXPECT_EQ(os_write(-1, "x", 1), -EBADF);
}

TEST(Process, TheEnvironmentIsTheProgramsOwn)
{
    setenv("CALM_UNIT_TEST", "words", 1);
    EXPECT_STREQ(os_environment("CALM_UNIT_TEST"), "words");
    EXPECT_EQ(os_environment("CALM_UNIT_TEST_ABSENT"), nullptr);
    char **before = environ;
    environ = nullptr;
    EXPECT_EQ(os_environment("CALM_UNIT_TEST"), nullptr);
    environ = before;
}

TEST(Process, TheProcessIdIsTheKernelsAlsoInAChild)
{
    EXPECT_EQ(os_process_id(), static_cast<uint32_t>(getpid()));
    os_set_errno(55);
    EXPECT_EQ(errno, 55);
}
