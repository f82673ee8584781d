/*
 * child.cpp: see child.h. Standard error of the child is a memory file, so that it can write any
 * amount without anyone reading; what it foretells is in shared memory, so that an abort cannot
 * lose it.
 */
#include "child.h"

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

const std::size_t FORETOLD_CAPACITY = 1 << 16;
const unsigned CHILD_SECONDS_MAX = 60;

char *foretold_text()
{
    static char *text = static_cast<char *>(mmap(nullptr, FORETOLD_CAPACITY, PROT_READ | PROT_WRITE,
                                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    return text;
}

std::string contents(int file)
{
    std::string text(static_cast<std::size_t>(lseek(file, 0, SEEK_END)), '\0');
    if (pread(file, &text[0], text.size(), 0) != static_cast<ssize_t>(text.size()))
        text = "(unreadable)";
    close(file);
    return text;
}

/* Makes the child one that dies quietly and in time, with its standard error in `errors`. */
void settle_child(int errors)
{
    rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(errors, STDERR_FILENO);
    alarm(CHILD_SECONDS_MAX);
}

std::string description(int status)
{
    if (WIFSIGNALED(status))
        return std::string("killed by ") + strsignal(WTERMSIG(status));
    return "exited with " + std::to_string(WEXITSTATUS(status));
}

} // namespace

void foretell(const char *format, ...)
{
    char *text = foretold_text();
    std::size_t length = std::strlen(text);
    va_list arguments;
    va_start(arguments, format);
    int more = std::vsnprintf(text + length, FORETOLD_CAPACITY - length - 2, format, arguments);
    va_end(arguments);
    std::strcpy(text + length + more, "\n");
}

void demand(bool condition, const char *complaint)
{
    if (condition)
        return;
    dprintf(STDERR_FILENO, "demand failed: %s\n", complaint);
    _exit(99);
}

outcome run_child(const std::function<void()> &misuse)
{
    foretold_text()[0] = '\0';
    int errors = memfd_create("errors", 0);
    pid_t child = fork();
    if (child == 0) {
        settle_child(errors);
        misuse();
        _exit(0);
    }
    outcome got{-1, "", ""};
    if (child > 0)
        waitpid(child, &got.status, 0);
    got.errors = contents(errors);
    got.foretold = foretold_text();
    return got;
}

outcome run_program(const std::string &program, const std::vector<std::string> &arguments,
                    const std::string &options)
{
    std::vector<char *> words{const_cast<char *>(program.c_str())};
    for (const std::string &argument : arguments)
        words.push_back(const_cast<char *>(argument.c_str()));
    words.push_back(nullptr);
    int errors = memfd_create("errors", 0);
    int output = memfd_create("output", 0);
    pid_t child = fork();
    if (child == 0) {
        settle_child(errors);
        dup2(output, STDOUT_FILENO);
        setenv("CALM_OPTIONS", options.c_str(), 1);
        execv(program.c_str(), words.data());
        _exit(127);
    }
    outcome got{-1, "", ""};
    if (child > 0)
        waitpid(child, &got.status, 0);
    got.errors = contents(errors);
    got.foretold = contents(output);
    return got;
}

void expect_stopped(const outcome &got)
{
    EXPECT_EQ(got.errors, got.foretold);
    EXPECT_NE(got.foretold, "") << "the misuse was never reached";
    EXPECT_TRUE(WIFSIGNALED(got.status) && WTERMSIG(got.status) == SIGABRT)
        << description(got.status);
}

void expect_survived(const outcome &got)
{
    EXPECT_EQ(got.errors, got.foretold);
    EXPECT_TRUE(WIFEXITED(got.status) && WEXITSTATUS(got.status) == 0) << description(got.status);
}

void expect_stop(const std::function<void()> &misuse)
{
    expect_stopped(run_child(misuse));
}

void expect_survival(const std::function<void()> &misuse)
{
    expect_survived(run_child(misuse));
}
