/*
 * stack_test.cpp: os/linux/stack*.c: each case of stack_cases.h in each way that it is compiled,
 * and a C++ exception.
 */
#include <gtest/gtest.h>

#include <execinfo.h>

#include <stdexcept>

#include "../support.h"
#include "stack_cases.h"
extern "C" {
#include "os/stack.h"
}

namespace
{

void run_all(const struct stack_case *cases)
{
    for (const struct stack_case *one = cases; one->name != nullptr; one++) {
        const char *wrong = one->run();
        EXPECT_EQ(wrong, nullptr) << one->name << ": " << wrong;
    }
}

/* Captures when it ends, which is while an exception passes. */
struct Witness {
    std::vector<uintptr_t> &ours;
    std::vector<void *> &theirs;

    __attribute__((noinline)) ~Witness()
    {
        ours.resize(64);
        theirs.resize(64);
        ours.resize(os_stack(ours.data(), ours.size()));
        theirs.resize(
            static_cast<size_t>(backtrace(theirs.data(), static_cast<int>(theirs.size()))));
    }
};

__attribute__((noinline)) void throw_through(int depth, std::vector<uintptr_t> &ours,
                                             std::vector<void *> &theirs)
{
    if (depth == 0)
        throw std::runtime_error("passes");
    if (depth == 3) {
        Witness witness{ours, theirs};
        throw_through(depth - 1, ours, theirs);
    } else {
        throw_through(depth - 1, ours, theirs);
    }
}

} // namespace

TEST(Stack, FunctionsThatAreNotOptimised)
{
    run_all(stack_cases_plain);
}

TEST(Stack, OptimisedFunctionsWithoutFramePointers)
{
    run_all(stack_cases_optimised);
}

TEST(Stack, FunctionsWithFramePointers)
{
    run_all(stack_cases_pointers);
}

TEST(Stack, FunctionsWithoutUnwindTables)
{
    run_all(stack_cases_tableless);
}

TEST(Stack, AnExceptionOnItsWay)
{
    std::vector<uintptr_t> ours;
    std::vector<void *> theirs;
    EXPECT_THROW(throw_through(5, ours, theirs), std::runtime_error);
    ASSERT_EQ(ours.size() + 1, theirs.size());
    for (size_t i = 0; i < ours.size(); i++)
        EXPECT_EQ(ours[i], reinterpret_cast<uintptr_t>(theirs[i + 1])) << i;
}
