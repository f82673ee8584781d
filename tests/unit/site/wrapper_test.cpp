/*
 * wrapper_test.cpp: site/wrapper.c finds wrappers by the stacks that diverge, and looks through
 * those whose caller it can tell.
 *
 * request() stands for an exported function. Each wrapper below says itself where it returns to, so
 * the expected site does not come from what is tested.
 */
#include <alloca.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "wrapper_support.h"

extern "C" {
#include "site/tag.h"
}

using calm_test::state_of;

namespace
{

enum { CALLERS = 6, ROUNDS = 12 };

const void *site_now;                  /* where the last request returned to */
const void *named_now;                 /* what it was named                  */
std::vector<const void *> returns_now; /* of the layers above it, innermost first */
bool is_looked_at = true;              /* the next request */
volatile unsigned sink;

__attribute__((noinline)) void request(size_t bytes)
{
    site_now = __builtin_return_address(0);
    if (is_looked_at)
        wrapper_look(bytes, site_now);
    named_now = wrapper_see_through(site_now, __builtin_dwarf_cfa());
}

/* After the call something is left to do, so that it is no jump. */
#define LAYER(name, ...)                                                                           \
    __attribute__((noinline)) void name(size_t bytes)                                              \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
        returns_now.push_back(__builtin_return_address(0));                                        \
        sink = sink + 1;                                                                           \
    }

LAYER(plain_wrapper, request(bytes))
LAYER(same_size, request(48 + bytes * 0))
LAYER(inner_layer, request(bytes))
LAYER(middle_layer, inner_layer(bytes))
LAYER(outer_layer, middle_layer(bytes))
LAYER(outermost_layer, outer_layer(bytes))
LAYER(growing_frame, char *room = static_cast<char *>(alloca(bytes)); room[0] = 1;
      sink = sink + static_cast<unsigned>(room[0]); request(bytes))

volatile size_t room_bytes = 64;
LAYER(equal_frame, char *room = static_cast<char *>(alloca(room_bytes)); room[0] = 1;
      sink = sink + static_cast<unsigned>(room[0]); request(bytes))

using ModuleWrapper = void (*)(void (*)(size_t), size_t);
ModuleWrapper module_wrapper; /* of a library that can be unloaded */
LAYER(in_a_module, module_wrapper(request, bytes))
LAYER(one_caller, request(bytes))

using Layer = void (*)(size_t);

template <int number> __attribute__((noinline)) void call(Layer layer, size_t bytes)
{
    layer(bytes + number * 16);
    sink = sink + number;
}

using Caller = void (*)(Layer, size_t);
const Caller callers[CALLERS] = {call<0>, call<1>, call<2>, call<3>, call<4>, call<5>};

class Wrapper : public testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_TRUE(heap_start());
        wrapper_configure(WRAPPERS_ON);
    }

    /* Has every caller call the layer, a few times. */
    static void run(Layer layer, int rounds = ROUNDS)
    {
        for (int round = 0; round < rounds; round++)
            for (Caller caller : callers)
                one(caller, layer, 8);
    }

    static void one(Caller caller, Layer layer, size_t bytes)
    {
        returns_now.clear();
        caller(layer, bytes);
    }
};

/* Seen to fail with distances that count from the frame's end. */
TEST_F(Wrapper, TheCallersOfAWrapperBecomeTheSites)
{
    one(call<0>, plain_wrapper, 8);
    EXPECT_EQ(named_now, site_now) << "nothing is known yet";
    run(plain_wrapper);
    EXPECT_EQ(state_of(site_now), WRAPPER_KNOWN);
    EXPECT_TRUE(wrapper_has_index(site_index(site_now)));
    std::set<const void *> names;
    for (Caller caller : callers) {
        one(caller, plain_wrapper, 8);
        EXPECT_EQ(named_now, returns_now[0]);
        names.insert(named_now);
    }
    EXPECT_EQ(names.size(), static_cast<size_t>(CALLERS));
    for (unsigned bit = 47; bit < 64; bit++) { /* as a tag may have them, and an address has not */
        const void *other = reinterpret_cast<const void *>(reinterpret_cast<uintptr_t>(site_now) ^
                                                           uintptr_t{1} << bit);
        EXPECT_EQ(wrapper_see_through(other, __builtin_dwarf_cfa()), other) << bit;
        EXPECT_EQ(wrapper_caller_quick(other, __builtin_dwarf_cfa()), nullptr) << bit;
    }
}

/* Seen to fail with DIFFERENT_SIZES_MIN 1. */
TEST_F(Wrapper, WhatAlwaysAsksForOneSizeIsASiteHoweverManyCallIt)
{
    run(same_size);
    EXPECT_EQ(state_of(site_now), WRAPPER_NO);
    EXPECT_EQ(named_now, site_now);
}

/* Seen to fail with DIFFERENT_CALLERS_MIN 1. */
TEST_F(Wrapper, WhatHasOneCallerIsASiteHoweverManySizesItAsksFor)
{
    for (size_t bytes = 0; bytes < 100; bytes++)
        one(call<0>, one_caller, bytes * 8);
    EXPECT_EQ(state_of(site_now), WRAPPER_NO);
    EXPECT_EQ(named_now, site_now);
}

/* Seen to fail with a stack pointer that stays where it was from layer to layer. */
TEST_F(Wrapper, LayersAreLookedThroughUpToTheirBound)
{
    for (Layer layer : {inner_layer, middle_layer, outer_layer, outermost_layer})
        run(layer);
    one(call<1>, outermost_layer, 8);
    ASSERT_EQ(returns_now.size(), 4u);
    EXPECT_EQ(named_now, returns_now[WRAPPER_DEPTH_MAX - 1]);
    one(call<2>, outer_layer, 8);
    EXPECT_EQ(named_now, returns_now[2]);
}

/* Its frame is as large as the request, so where it returns to is not at one distance. Seen to fail
 * with PROOFS_MIN 1. */
TEST_F(Wrapper, AFrameWhoseSizeVariesIsNotLookedThrough)
{
    for (size_t i = 0; i < 100; i++) {
        one(callers[i % CALLERS], growing_frame, 16 + i % 10 * 32);
        is_looked_at = false;
        one(callers[i % CALLERS], growing_frame, 400);
        is_looked_at = true;
        EXPECT_TRUE(named_now == site_now || named_now == returns_now[0]) << "nothing made up";
    }
    EXPECT_EQ(state_of(site_now), WRAPPER_BLIND);
    EXPECT_EQ(named_now, site_now);
    EXPECT_GE(wrapper_counts().blind, 1u);
}

/* Seen to fail without contradict(). */
TEST_F(Wrapper, AFactThatAWalkContradictsIsForgotten)
{
    run(equal_frame);
    ASSERT_EQ(state_of(site_now), WRAPPER_KNOWN);
    EXPECT_EQ(named_now, returns_now[0]);
    uint64_t before = wrapper_counts().mismatches;
    room_bytes = 640;
    one(call<3>, equal_frame, 8);
    EXPECT_EQ(wrapper_counts().mismatches, before + 1);
    EXPECT_EQ(named_now, site_now) << "the site, and nothing made up";
    run(equal_frame);
    EXPECT_EQ(named_now, returns_now[0]) << "it may be learnt once more";
    room_bytes = 64;
    run(equal_frame);
    EXPECT_EQ(state_of(site_now), WRAPPER_BLIND) << "but not for ever";
}

/* Seen to fail with a sweep that drops nothing. */
TEST_F(Wrapper, WhatIsKnownOfAModuleGoesWithIt)
{
    void *module = dlopen(WRAPPER_MODULE, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(module, nullptr) << dlerror();
    module_wrapper = reinterpret_cast<ModuleWrapper>(dlsym(module, "module_wrapper"));
    ASSERT_NE(module_wrapper, nullptr);
    run(in_a_module);
    const void *site = site_now;
    ASSERT_EQ(state_of(site), WRAPPER_KNOWN);
    EXPECT_NE(named_now, site);
    ASSERT_EQ(dlclose(module), 0);
    run(plain_wrapper, 300);
    EXPECT_EQ(state_of(site), WRAPPER_NO);
    EXPECT_EQ(wrapper_see_through(site, __builtin_dwarf_cfa()), site);
    EXPECT_FALSE(wrapper_has_index(site_index(site)) && site_index(site) != site_index(site_now));
}

TEST_F(Wrapper, LooksAreTakenEverMoreSeldom)
{
    uint64_t before = wrapper_counts().looks;
    for (unsigned i = 0; i < 1000000; i++)
        wrapper_tick(WRAPPER_MISS, 8, reinterpret_cast<const void *>(0x1234));
    uint64_t taken = wrapper_counts().looks - before;
    EXPECT_LE(taken, 2000u);
    EXPECT_GE(taken, 200u);
}

/* Seen to fail with the shifts left out. */
TEST(Tag, TwoTagsAreTwoSitesAndNoneIsAnAddress)
{
    std::map<const void *, uint64_t> tags;
    std::set<size_t> low, high;
    calm_test::Random random(3);
    for (uint64_t i = 1; i < 4000; i++) {
        for (uint64_t tag : {i, i << 12, i << 40, random.next() >> 1})
            EXPECT_EQ(tags.emplace(site_of_tag(tag), tag).first->second, tag);
        EXPECT_TRUE(site_is_tag(site_of_tag(i)));
        low.insert(site_index(site_of_tag(i)));
        high.insert(site_index(site_of_tag(i << 44)));
    }
    EXPECT_GE(low.size(), 3000u);
    EXPECT_GE(high.size(), 3000u);
    EXPECT_FALSE(site_is_tag(reinterpret_cast<const void *>(&site_of_tag)));
    EXPECT_EQ(site_of_tag(5), site_of_tag(5 | SITE_TAG_BIT)) << "the highest bit does not count";
}

} // namespace
