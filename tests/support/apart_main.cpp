/*
 * apart_main.cpp: runs each of a program's tests in a process of its own, forked before any test
 * ran.
 *
 * An allocator has one state in a process, and options that are read once. ctest asks for one test
 * at a time and starts a program for each; a program that is asked for several does the same by
 * forks, which cost less: under an emulator or a sanitizer most of a short test is the program's
 * start.
 */
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

namespace
{

enum { STATUS_SKIPPED = 77 };

/* Google Test itself applies the filter, when it lists the tests; nobody needs to read the list. */
std::vector<const testing::TestInfo *> chosen()
{
    fflush(stdout);
    int kept = dup(STDOUT_FILENO);
    if (kept < 0 || freopen("/dev/null", "w", stdout) == nullptr)
        return {};
    GTEST_FLAG_SET(list_tests, true);
    bool is_listed = RUN_ALL_TESTS() == 0;
    GTEST_FLAG_SET(list_tests, false);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    if (!is_listed)
        return {};
    std::vector<const testing::TestInfo *> found;
    testing::UnitTest &all = *testing::UnitTest::GetInstance();
    for (int i = 0; i < all.total_test_suite_count(); i++) {
        const testing::TestSuite &suite = *all.GetTestSuite(i);
        for (int j = 0; j < suite.total_test_count(); j++)
            if (suite.GetTestInfo(j)->should_run())
                found.push_back(suite.GetTestInfo(j));
    }
    return found;
}

std::string name_of(const testing::TestInfo &info)
{
    return std::string(info.test_suite_name()) + "." + info.name();
}

/* How the test's process ended, as waitpid says it. */
int run_apart(const testing::TestInfo &info)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        GTEST_FLAG_SET(filter, name_of(info));
        int result = RUN_ALL_TESTS();
        bool is_skipped = testing::UnitTest::GetInstance()->skipped_test_count() > 0;
        exit(result == 0 && is_skipped ? STATUS_SKIPPED : result);
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return status;
}

bool is_skip(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == STATUS_SKIPPED;
}

int run_each(const std::vector<const testing::TestInfo *> &tests)
{
    std::vector<std::string> failed;
    size_t skipped = 0;
    for (const testing::TestInfo *info : tests) {
        int status = run_apart(*info);
        if (is_skip(status))
            skipped++;
        else if (status != 0)
            failed.push_back(name_of(*info) + (WIFSIGNALED(status) ? ", by a signal" : ""));
    }
    printf("\n%zu tests, each in a process of its own: %zu passed, %zu failed, %zu skipped\n",
           tests.size(), tests.size() - failed.size() - skipped, failed.size(), skipped);
    for (const std::string &name : failed)
        printf("failed: %s\n", name.c_str());
    return failed.empty() ? 0 : 1;
}

} // namespace

int main(int count, char **words)
{
    testing::InitGoogleTest(&count, words);
    if (GTEST_FLAG_GET(list_tests))
        return RUN_ALL_TESTS();
    std::vector<const testing::TestInfo *> tests = chosen();
    return tests.size() > 1 ? run_each(tests) : RUN_ALL_TESTS();
}
