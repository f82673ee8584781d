/*
 * policy_test.cpp: what holds for every policy.
 */
#include <gtest/gtest.h>

#include "../policy_support.h"

using calm_test::Cores;

class EveryPolicy : public testing::TestWithParam<std::string>
{
};

static std::string test_name(const testing::TestParamInfo<std::string> &named)
{
    std::string name = named.param;
    for (char &c : name)
        c = c == '-' ? '_' : c;
    return name;
}

/* But those that bind a task to a core, whatever that has. */
static std::vector<std::string> free_to_choose()
{
    std::vector<std::string> names;
    for (const std::string &name : calm_test::policy_names())
        if (!policy_find(name.c_str())->is_binding)
            names.push_back(name);
    return names;
}

INSTANTIATE_TEST_SUITE_P(Policy, EveryPolicy, testing::ValuesIn(free_to_choose()), test_name);

TEST(Policies, AreFoundByNameAndOnlyByTheWholeName)
{
    for (const std::string &name : calm_test::policy_names())
        EXPECT_EQ(policy_find(name.c_str())->name, name);
    EXPECT_EQ(policy_find("jbsq"), nullptr);
    EXPECT_EQ(policy_find("jsq-"), nullptr);
    EXPECT_EQ(policy_find(""), nullptr);
    EXPECT_NE(policy_find(POLICY_DEFAULT), nullptr);
    EXPECT_EQ(calm_test::policy_names().size(), 6u);
}

/* Seen to fail for each policy with `return true` in policy_feasible(). */
TEST_P(EveryPolicy, TakesTheOnlyCoreThatHasABlock)
{
    for (uint32_t cores : {2u, 7u, 64u, 1024u}) {
        Cores machine(GetParam().c_str(), cores);
        for (uint32_t only : {0u, 1u, cores - 1, cores / 2}) {
            machine.free_all(3, 0);
            machine.lines[only].free_blocks[3] = 1;
            for (uint64_t key = 0; key < 20; key++)
                ASSERT_EQ(machine.choose(3, key), only);
        }
    }
}

TEST_P(EveryPolicy, TakesTheOnlyCoreWhoseInboxHasRoom)
{
    for (uint32_t cores : {2u, 9u, 100u}) {
        Cores machine(GetParam().c_str(), cores);
        machine.busy_all(machine.view.inbox_capacity);
        machine.busy(cores - 2, 0);
        for (uint64_t key = 0; key < 20; key++)
            ASSERT_EQ(machine.choose(POLICY_NO_CLASS, key), cores - 2);
    }
}

TEST_P(EveryPolicy, RejectsOrHoldsWhenNoCoreIsFeasible)
{
    Cores machine(GetParam().c_str(), 12);
    uint32_t no = machine.policy->bound != 0 ? POLICY_HOLD : POLICY_REJECT;
    EXPECT_EQ(machine.choose(0), no);
    machine.free_all(0, 5);
    EXPECT_LT(machine.choose(0), 12u);
    machine.busy_all(machine.view.inbox_capacity);
    EXPECT_EQ(machine.choose(0), no);
    EXPECT_EQ(machine.choose(), no);
}

TEST_P(EveryPolicy, DecidesTheSameFromTheSameSeed)
{
    Cores a(GetParam().c_str(), 33, 7), b(GetParam().c_str(), 33, 7);
    uint64_t random = 5;
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t bits = policy_draw(&random);
        ASSERT_EQ(a.choose(POLICY_NO_CLASS, bits), b.choose(POLICY_NO_CLASS, bits));
        uint32_t core = static_cast<uint32_t>(bits % 33),
                 count = static_cast<uint32_t>(bits >> 40 & 7);
        for (Cores *machine : {&a, &b}) {
            machine->busy(core, count);
            machine->view.now_ns += 100;
            watch_served(&machine->lines[core], static_cast<uint32_t>(500 + (bits >> 50)), 1000);
        }
    }
}

/* With everything alike no policy may prefer a core; affine spreads by key. */
TEST_P(EveryPolicy, SpreadsEvenlyOverCoresThatAreAlike)
{
    Cores machine(GetParam().c_str(), 10);
    std::map<uint32_t, unsigned> taken;
    for (unsigned i = 0; i < 20000; i++) {
        uint32_t core = machine.choose(POLICY_NO_CLASS, i);
        taken[core]++;
        machine.view.now_ns += 100;
    }
    for (uint32_t core = 0; core < 10; core++)
        EXPECT_NEAR(taken[core], 2000, 350) << "core " << core;
}

TEST_P(EveryPolicy, WritesNothingBehindItsState)
{
    Cores machine(GetParam().c_str(), 19);
    size_t bytes = machine.policy->state_bytes(&machine.setup);
    std::vector<unsigned char> memory(bytes + 128, 0x5A);
    size_t skew = (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
    void *state = memory.data() + skew;
    machine.policy->start(state, &machine.setup);
    policy_task task = {};
    task.class_number = 2;
    machine.free_all(2, 3);
    for (unsigned i = 0; i < 3000; i++) {
        task.key = i;
        machine.policy->choose(state, &machine.view, &task);
        if (machine.policy->steal != nullptr)
            machine.policy->steal(state, &machine.view, i % 19);
    }
    for (size_t i = skew + bytes; i < memory.size(); i++)
        ASSERT_EQ(memory[i], 0x5A);
}
