/*
 * stack_test.cpp: os/linux/stack*.c: each case of stack_cases.h in each way that it is compiled,
 * and a C++ exception.
 */
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <stdexcept>

#include "../support.h"
#include "stack_cases.h"
extern "C" {
#include "os/stack.h"
}

namespace
{

/* Twice: the second time most steps are those that were kept. */
void run_all(const struct stack_case *cases)
{
    for (int times = 0; times < 2; times++)
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
    ASSERT_GT(ours.size(), 6u);
    ASSERT_GT(theirs.size(), ours.size()); /* by what a sanitizer puts around it, too */
    size_t more = theirs.size() - ours.size();
    for (size_t i = 0; i < ours.size(); i++)
        EXPECT_EQ(ours[i], reinterpret_cast<uintptr_t>(theirs[i + more])) << i;
}

/*
 * A library is unloaded, and another one comes to its addresses that differs in nothing but how
 * large a function's frame is. The oracle is the C library's backtrace().
 *
 * Seen to fail with rows of libraries that are kept without a digest, and with one that leaves the
 * entry out.
 */
namespace
{

uintptr_t ours[64];
void *theirs[64];
size_t our_count, their_count;

__attribute__((noinline)) void capture_in_module()
{
    our_count = os_stack(ours, 64);
    their_count = static_cast<size_t>(backtrace(theirs, 64));
}

/* Where the library's function lies. */
void *stack_through(const char *file)
{
    void *module = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr)
        return nullptr;
    void *function = dlsym(module, "stack_module_call");
    for (int times = 0; times < 3; times++) {
        reinterpret_cast<int (*)(void (*)())>(function)(capture_in_module);
        EXPECT_EQ(our_count, their_count - 1) << file;
        for (size_t i = 0; i < our_count && i + 1 < their_count; i++)
            EXPECT_EQ(ours[i], reinterpret_cast<uintptr_t>(theirs[i + 1])) << file << " " << i;
    }
    dlclose(module);
    return function;
}

} // namespace

TEST(Stack, ALibraryAtTheAddressesOfAnother)
{
    if (calm_test::is_sanitized)
        GTEST_SKIP() << "a sanitizer keeps libraries";
    backtrace(theirs, 1); /* loads what it needs */
    void *small = stack_through(STACK_MODULE_SMALL);
    ASSERT_NE(small, nullptr);
    EXPECT_EQ(stack_through(STACK_MODULE_LARGE), small);
    EXPECT_EQ(stack_through(STACK_MODULE_SMALL), small);
}

/* Where nothing between the site and the start of the program needs more than a stack pointer. */
TEST(Stack, FromACallOnIsTheRestOfTheWhole)
{
#if defined(__x86_64__)
    uintptr_t whole[64], from[64];
    size_t count = 0;
    for (int times = 0; times < 2; times++) {
        size_t depth = os_stack(whole, 64);
        count = os_stack_from(whole[0], reinterpret_cast<uintptr_t>(__builtin_dwarf_cfa()), from,
                              64);
        EXPECT_TRUE(count == 0 || count == depth) << count << " of " << depth;
    }
    for (size_t i = 0; i < count; i++)
        EXPECT_EQ(from[i], whole[i]);
    EXPECT_EQ(
        os_stack_from(whole[0] + 1, reinterpret_cast<uintptr_t>(__builtin_dwarf_cfa()), from, 64),
        0u);
#endif
}

/* Seen to fail with a kept_at that counts from the frame before. */
TEST(Callers, AreTheStacksAndLieWhereTheySay)
{
    uintptr_t plain[24];
    os_caller places[24];
    size_t depth = os_stack(plain, 24);
    ASSERT_GE(depth, 3u);
    size_t count = os_callers(plain[1], places, 24);
    ASSERT_EQ(count, depth - 1);
    for (size_t i = 0; i < count; i++) {
        EXPECT_EQ(places[i].address, plain[i + 1]);
        if (places[i].kept_at == 0 || i == 0)
            continue;
        EXPECT_EQ(os_stack_word(places[i - 1].sp, places[i].kept_at), places[i].address);
        EXPECT_GT(places[i].sp, places[i - 1].sp);
        EXPECT_GE(places[i].kept_at, places[i - 1].sp);
        EXPECT_LT(places[i].kept_at, places[i].sp);
    }
    EXPECT_EQ(os_callers(plain[1], places, 2), 2u);
    EXPECT_EQ(os_callers(1, places, 24), 0u) << "no such caller";
}

/* By short rows and by a whole walk. Seen to fail with a first_sp that nobody looks at. */
TEST(Callers, WhatTheTablesTellIsTheStackFromTheCallOn)
{
    uintptr_t plain[24], told[8];
    uintptr_t sp = reinterpret_cast<uintptr_t>(__builtin_dwarf_cfa());
    for (int times = 0; times < 3; times++) {
        ASSERT_GE(os_stack(plain, 24), 3u);
        size_t count = os_stack_told(plain[0], sp, told, 3);
        if (count == 0) /* the C library does not find tables */
            return;
        ASSERT_EQ(count, 3u);
        for (size_t i = 0; i < count; i++)
            EXPECT_EQ(told[i], plain[i]);
        EXPECT_EQ(os_stack_told(plain[0] + 1, sp, told, 3), 0u) << "no such caller";
        EXPECT_EQ(os_stack_told(plain[0], sp + 16, told, 3), 0u) << "it returns elsewhere";
    }
}

/* Seen to fail (to fault) without asking the kernel. */
TEST(Callers, AWordBeyondTheStackIsNotRead)
{
    auto *pages = static_cast<char *>(mmap(nullptr, 3 * OS_STACK_PAGE, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(pages, MAP_FAILED);
    ASSERT_EQ(mprotect(pages + 2 * OS_STACK_PAGE, OS_STACK_PAGE, PROT_NONE), 0);
    uintptr_t start = reinterpret_cast<uintptr_t>(pages), sp = start + OS_STACK_PAGE - 64;
    *reinterpret_cast<uintptr_t *>(pages + OS_STACK_PAGE - 8) = 111;
    *reinterpret_cast<uintptr_t *>(pages + OS_STACK_PAGE + 8) = 222;
    EXPECT_EQ(os_stack_word(sp, start + OS_STACK_PAGE - 8), 111u);
    for (unsigned twice = 0; twice < 2; twice++)
        EXPECT_EQ(os_stack_word(sp, start + OS_STACK_PAGE + 8), 222u);
    EXPECT_EQ(os_stack_word(sp, start + 2 * OS_STACK_PAGE), 0u);
    ASSERT_EQ(munmap(pages, 3 * OS_STACK_PAGE), 0);
}

#if defined(__x86_64__)

/*
 * A program that stops at every instruction, by the processor's trap flag. The oracle is a list of
 * return addresses kept by looking at calls: one adds what it pushes, and those below the stack
 * pointer are gone. Every frame of every function is met in every state that way: before and after
 * its prologue, in stubs that bind symbols lazily, and in the C++ runtime while it unwinds.
 *
 * Seen to fail: what the cases find; rows that are kept without some of their saves; "greater" for
 * "greater or equal" in the expression of those stubs; a function that a signal interrupted looked
 * up before its address, as a caller is.
 */
namespace steps
{

constexpr size_t depth_max = 128;
constexpr int trap_flag = 0x100, trapped_by_flag = 2;

struct Call {
    uintptr_t slot, returns_to;
};

Call calls[depth_max]; /* outermost first */
size_t call_count;
void *base[depth_max]; /* who called the function that starts to step */
size_t base_count;
uintptr_t last_sp;
bool is_call;
size_t taken, missed;
uintptr_t missed_at[256];

bool is_call_at(uintptr_t pc)
{
    const unsigned char *code = reinterpret_cast<const unsigned char *>(pc);
    while (*code == 0xf2 || *code == 0x3e || *code == 0x66 || *code == 0x67 ||
           (*code & 0xf0) == 0x40)
        code++;
    return *code == 0xe8 || (*code == 0xff && (code[1] & 0x38) == 0x10);
}

bool is_right(const uintptr_t *ours, size_t count, uintptr_t pc)
{
    size_t at = 2; /* behind the kernel's way out of this handler */
    if (count != at + call_count + base_count || ours[1] != pc)
        return false;
    for (size_t i = call_count; i-- > 0;)
        if (ours[at++] != calls[i].returns_to)
            return false;
    for (size_t i = 0; i < base_count; i++)
        if (ours[at++] != reinterpret_cast<uintptr_t>(base[i]))
            return false;
    return true;
}

void on_step(int, siginfo_t *info, void *context)
{
    greg_t *registers = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
    uintptr_t pc = static_cast<uintptr_t>(registers[REG_RIP]);
    uintptr_t sp = static_cast<uintptr_t>(registers[REG_RSP]);
    if (info->si_code != trapped_by_flag) { /* a breakpoint: begins, or ends */
        registers[REG_EFL] ^= trap_flag;
        is_call = false;
        return;
    }
    if (is_call && sp == last_sp - sizeof sp && call_count < depth_max)
        calls[call_count++] = {sp, *reinterpret_cast<uintptr_t *>(sp)};
    while (call_count > 0 && calls[call_count - 1].slot < sp)
        call_count--;
    is_call = is_call_at(pc);
    last_sp = sp;
    uintptr_t ours[depth_max];
    size_t count = os_stack(ours, depth_max);
    taken++;
    if (is_right(ours, count, pc))
        return;
    if (missed < 256)
        missed_at[missed] = pc;
    missed++;
}

__attribute__((noinline)) void run(void (*body)())
{
    call_count = taken = missed = 0;
    base_count = static_cast<size_t>(backtrace(base, depth_max)) - 1;
    memmove(base, base + 1, base_count * sizeof base[0]);
    __asm__ volatile("int3\n\tnop"); /* the first stop is after the next instruction */
    body();
    __asm__ volatile("int3");
}

void complain(uintptr_t pc, bool is_throwing)
{
    Dl_info info = {};
    const char *file = dladdr(reinterpret_cast<void *>(pc), &info) != 0 ? info.dli_fname : "";
    if (!is_throwing || strstr(file, "libgcc_s") == nullptr)
        ADD_FAILURE() << "another stack " << pc - reinterpret_cast<uintptr_t>(info.dli_fbase)
                      << " in " << file;
}

/*
 * Steps through `body`; how many instructions there were. Just before an exception's handler is
 * entered, the runtime overwrites the registers that its own frames have saved; for these few
 * instructions nobody can know its callers.
 */
size_t through(void (*body)(), bool is_throwing = false)
{
    static char room[1 << 16];
    stack_t alternate = {}, before = {};
    alternate.ss_sp = room;
    alternate.ss_size = sizeof room;
    struct sigaction action = {}, action_before = {};
    action.sa_sigaction = on_step;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaltstack(&alternate, &before);
    sigaction(SIGTRAP, &action, &action_before);
    run(body);
    sigaction(SIGTRAP, &action_before, nullptr);
    sigaltstack(&before, nullptr);
    for (size_t i = 0; i < missed && i < 256; i++)
        complain(missed_at[i], is_throwing);
    EXPECT_LE(missed, is_throwing ? 200u : 0u) << "of " << taken;
    return taken;
}

int compare(const void *a, const void *b)
{
    return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

void use_the_c_library()
{
    int numbers[] = {5, 3, 9, 1, 7};
    qsort(numbers, 5, sizeof numbers[0], compare);
    char text[64];
    snprintf(text, sizeof text, "%d %.3f %s", numbers[0], 2.5, "word");
    volatile double number = strtod("3.25e2", nullptr);
    volatile long found = labs(-1) + static_cast<long>(number);
    found = static_cast<long>(strspn(text, "0123456789")) + found;
}

void throw_and_catch()
{
    try {
        std::vector<uintptr_t> none;
        throw std::runtime_error(std::string("passes") + std::to_string(none.size()));
    } catch (const std::exception &error) {
        volatile size_t length = strlen(error.what());
        (void)length;
    }
}

void take_a_stack()
{
    uintptr_t callers[16];
    volatile size_t count = os_stack(callers, 16);
    (void)count;
}

} // namespace steps

TEST(StackAtEveryInstruction, OfTheCLibraryAndOfStubsThatBindLazily)
{
    if (calm_test::is_sanitized)
        GTEST_SKIP() << "a sanitizer's functions are in the way";
    for (int times = 0; times < 2; times++)
        EXPECT_GT(steps::through(steps::use_the_c_library), 2000u);
}

TEST(StackAtEveryInstruction, OfTheRuntimeWhileItUnwinds)
{
    if (calm_test::is_sanitized)
        GTEST_SKIP() << "a sanitizer's functions are in the way";
    EXPECT_GT(steps::through(steps::throw_and_catch, true), 2000u);
}

TEST(StackAtEveryInstruction, OfTheWalkItself)
{
    if (calm_test::is_sanitized)
        GTEST_SKIP() << "a sanitizer's functions are in the way";
    for (int times = 0; times < 2; times++)
        EXPECT_GT(steps::through(steps::take_a_stack), 1000u);
}

#endif
