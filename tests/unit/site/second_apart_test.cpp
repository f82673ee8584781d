/*
 * second_apart_test.cpp: site/second.c where cohorts are apart: large requests that a cache serves
 * are looked at now and then, too.
 */
#include <gtest/gtest.h>

#include "../heap_support.h"

namespace
{

enum { BYTES = 200000, ROUNDS = 200000 };

volatile unsigned sink;

/* After the call something is left to do, so that it is no jump. */
__attribute__((noinline)) void *wrapped(size_t bytes)
{
    void *block = calm_malloc(bytes);
    sink = sink + 1;
    return block;
}

/* Whose the block of each caller was. */
template <unsigned number> __attribute__((noinline)) unsigned owner_for(size_t bytes)
{
    void *block = wrapped(bytes + number);
    unsigned owner = large_owner(block);
    calm_free(block);
    sink = sink + number;
    return owner;
}

} // namespace

/* Seen to fail with find_known() that counts nothing for a look. */
TEST(SecondApart, AWrapperOfLargeRequestsIsLookedThroughThoughACacheServesThemAll)
{
    unsigned first = 0, second = 0;
    for (unsigned round = 0; round < ROUNDS && first == second; round++) {
        first = owner_for<1>(BYTES + round % 4);
        owner_for<2>(BYTES), owner_for<3>(BYTES), owner_for<4>(BYTES);
        second = owner_for<5>(BYTES);
    }
    EXPECT_NE(first, second) << "their callers have one cohort";
}

/* Seen to fail with find_known() that does not look. */
TEST(SecondApart, WhoOnlyAsksForLargeBlocksThatACacheHasAnswersFromOutside)
{
    const void *site = reinterpret_cast<const void *>(uintptr_t{0x123456});
    for (unsigned i = 0; i < 4; i++)
        heap_free(front_alloc(BYTES, site, nullptr));
    store(&remote.rate_bytes, uint64_t{1 << 20}, RELAXED);
    store(&remote.lease_ms, uint64_t{3600 * 1000}, RELAXED);
    store(&remote.asked, load(&remote.asked, RELAXED) + 1, RELEASE);
    heap_free(front_alloc(BYTES, site, nullptr));
    EXPECT_EQ(load(&remote.answered, ACQUIRE), load(&remote.asked, RELAXED));
    EXPECT_EQ(load(&remote.result, RELAXED), static_cast<uint32_t>(REMOTE_STARTED));
    sample_stop();
}
