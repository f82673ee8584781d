/*
 * wrapper_exact_test.cpp: site/wrapper.c where sites must be exact: no word that the program's data
 * can have written says who a wrapper's caller is.
 *
 * Each wrapper copies an input to its frame. First the input is short, so that all there is to
 * learn is learnt; then it is long and names a victim's site in every word. Seen to fail with
 * wrapper_start(false).
 */
#include <gtest/gtest.h>

#include <ucontext.h>

#include <algorithm>
#include <vector>

#include "wrapper_support.h"

extern "C" {
#include "wrapper_kinds.h"
void wrapper_tableless(void (*request)(size_t), size_t bytes, const void *record);
}

using calm_test::state_of;

namespace
{

enum { CALLERS = 6, ROUNDS = 40, SHORT_BYTES = 64, LONG_BYTES = 1024, STACK_BYTES = 256 << 10 };

const void *site_now, *named_now, *returns_now;
bool is_looked_at;
volatile unsigned sink;

__attribute__((noinline)) void request(size_t bytes)
{
    site_now = __builtin_extract_return_addr(__builtin_return_address(0));
    if (is_looked_at)
        wrapper_look(bytes, site_now);
    named_now = wrapper_see_through(site_now, __builtin_dwarf_cfa());
    const void *quick = wrapper_caller_quick(site_now, __builtin_dwarf_cfa());
    if (quick != nullptr && quick != named_now)
        named_now = nullptr;
}

template <int number>
__attribute__((noinline)) void call(wrapper_kind kind, const wrapper_input *input)
{
    kind(input);
    sink = sink + number;
}

using Caller = void (*)(wrapper_kind, const wrapper_input *);
const Caller callers[CALLERS] = {call<0>, call<1>, call<2>, call<3>, call<4>, call<5>};

/* A site as the victim has it: code of the program that no wrapper here returns to. */
const void *victim()
{
    return reinterpret_cast<const char *>(reinterpret_cast<uintptr_t>(&heap_verify)) + 1;
}

class WrapperExact : public testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_TRUE(heap_start());
        wrapper_configure(WRAPPERS_ON);
        wrapper_start(true);
        std::fill(forged_.begin(), forged_.end(), victim());
    }

    void TearDown() override
    {
        wrapper_start(false);
    }

    void one(wrapper_kind kind, unsigned number, size_t bytes, bool is_look)
    {
        const wrapper_input input = {request, 8 + number % 5 * 40, forged_.data(), bytes,
                                     &returns_now};
        is_looked_at = is_look;
        callers[number % CALLERS](kind, &input);
    }

    /* Learns it, then has the input name the victim. */
    void forge(const wrapper_kind *kinds)
    {
        for (size_t at = 0; kinds[at] != nullptr; at++) {
            for (unsigned i = 0; i < ROUNDS * CALLERS; i++)
                one(kinds[at], i, SHORT_BYTES, true);
            for (unsigned i = 0; i < ROUNDS * CALLERS; i++) {
                one(kinds[at], i, LONG_BYTES, false);
                ASSERT_NE(named_now, victim()) << "kind " << at;
                ASSERT_NE(named_now, nullptr) << "kind " << at << ": quick disagrees";
                ASSERT_TRUE(named_now == returns_now || named_now == site_now) << "kind " << at;
            }
#if defined(__x86_64__) && defined(__GLIBC__)
            EXPECT_EQ(state_of(site_now), WRAPPER_KNOWN) << "kind " << at;
            EXPECT_EQ(named_now, returns_now) << "kind " << at << " is looked through";
#endif
        }
    }

  private:
    std::vector<const void *> forged_ = std::vector<const void *>(LONG_BYTES / sizeof(void *));
};

TEST_F(WrapperExact, NoInputNamesTheCallerOfAWrapperWithFramePointers)
{
    forge(wrapper_kinds_pointers);
}

TEST_F(WrapperExact, NoInputNamesTheCallerOfAWrapperWithoutFramePointers)
{
    forge(wrapper_kinds_omitted);
}

TEST_F(WrapperExact, NoInputNamesTheCallerOfAWrapperThatIsNotOptimised)
{
    forge(wrapper_kinds_plain);
}

/* The frame pointer is the program's own. Seen to fail without is_told in place_of(). */
TEST_F(WrapperExact, AWrapperWithoutTablesIsTheSiteItself)
{
    for (unsigned round = 0; round < ROUNDS * CALLERS; round++) {
        const void *record[2] = {record, static_cast<const char *>(victim()) + round % 16};
        is_looked_at = true;
        wrapper_tableless(request, 8 + round % 5 * 40, record);
        ASSERT_EQ(named_now, site_now);
    }
    EXPECT_NE(state_of(site_now), WRAPPER_KNOWN);
}

WrapperExact *in_coroutine;
ucontext_t outside, inside;

/* A stack that the program made itself. */
TEST_F(WrapperExact, OnACoroutinesStackTheCallerIsTheSame)
{
    struct Runs : WrapperExact {
        using WrapperExact::forge;
        void TestBody() override {}
    };
    std::vector<char> stack(STACK_BYTES);
    in_coroutine = this;
    ASSERT_EQ(getcontext(&inside), 0);
    inside.uc_stack.ss_sp = stack.data();
    inside.uc_stack.ss_size = stack.size();
    inside.uc_link = &outside;
    makecontext(
        &inside,
        +[] {
            auto run = &Runs::forge;
            (in_coroutine->*run)(wrapper_kinds_pointers);
        },
        0);
    ASSERT_EQ(swapcontext(&outside, &inside), 0);
}

} // namespace
