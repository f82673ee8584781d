/*
 * seen_test.cpp: site/seen.h: which site an index is remembered for.
 *
 * Seen to fail with an address that the next one replaces at once, and with a note on the fast path
 * of malloc.
 */
#include <gtest/gtest.h>

#include "../heap_support.h"

/* Three sites that share an index, each time other ones. */
static uintptr_t site_of(unsigned number)
{
    return 0x7000000 + number * uintptr_t{SITES << CODE_ALIGN_LOG2} + (777 << CODE_ALIGN_LOG2);
}

static const void *pointer(uintptr_t address)
{
    return reinterpret_cast<const void *>(address);
}

static struct seen_site *seen_at(uintptr_t address)
{
    return &seen_sites[site_index(pointer(address))];
}

TEST(Seen, OfSitesThatShareAnIndexTheOneThatComesMostStays)
{
    struct seen_site *seen = seen_at(site_of(0));
    for (unsigned i = 0; i < 100; i++) {
        seen_note(pointer(site_of(0)));
        if (i % 3 == 0)
            seen_note(pointer(site_of(1)));
    }
    EXPECT_EQ(load(&seen->address, RELAXED), site_of(0));
    EXPECT_EQ(load(&seen->votes, RELAXED), 100u - 34);
    for (unsigned i = 0; i < 200; i++)
        seen_note(pointer(site_of(2)));
    EXPECT_EQ(load(&seen->address, RELAXED), site_of(2));
    EXPECT_EQ(load(&seen->votes, RELAXED), 200u - 66);
}

TEST(Seen, AMissIsNotedAndAHitIsNot)
{
    ASSERT_TRUE(heap_start());
    uintptr_t site = 0x9000123;
    std::vector<void *> blocks;
    for (unsigned i = 0; i < 5000; i++)
        blocks.push_back(front_alloc(600, pointer(site), nullptr));
    EXPECT_EQ(load(&seen_at(site)->address, RELAXED), site);
    uint64_t votes = load(&seen_at(site)->votes, RELAXED);
    EXPECT_GE(votes, 5000u / 128);
    EXPECT_LT(votes, 5000u / 2);
    for (unsigned i = 0; i < 1000; i++) {
        heap_free(blocks.back());
        blocks.back() = front_alloc(600, pointer(site), nullptr);
    }
    EXPECT_EQ(load(&seen_at(site)->votes, RELAXED), votes);
    for (void *block : blocks)
        heap_free(block);
}

TEST(Seen, EveryFormOfRequestIsNoted)
{
    ASSERT_TRUE(heap_start());
    auto is_noted = [](uintptr_t site, auto request) {
        heap_trim(); /* no cache has a block */
        heap_free(request(pointer(site)));
        return load(&seen_at(site)->address, RELAXED) == site;
    };
    auto small = [](const void *site) { return front_alloc(40, site, nullptr); };
    auto medium = [](const void *site) { return front_alloc(20000, site, nullptr); };
    auto zeroed = [](const void *site) { return front_zeroed(2, 50, site, nullptr); };
    auto aligned = [](const void *site) { return front_aligned(4096, 28000, site, nullptr); };
    EXPECT_TRUE(is_noted(0xA000010, small));
    EXPECT_TRUE(is_noted(0xA000020, medium));
    EXPECT_TRUE(is_noted(0xA000030, zeroed));
    EXPECT_TRUE(is_noted(0xA000040, aligned));
}
