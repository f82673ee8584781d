/*
 * depot_support.h: what the tests of the depot's sources share.
 *
 * Blocks are taken and put straight from the depot, under bins that no other test uses.
 */
#ifndef CALM_TESTS_UNIT_CORE_DEPOT_SUPPORT_H
#define CALM_TESTS_UNIT_CORE_DEPOT_SUPPORT_H

#include <gtest/gtest.h>

#include <functional>

#include "../heap_support.h"

const uint32_t user = 1;
const size_t mib = 1024 * 1024;

inline unsigned bin_for(unsigned cohort, size_t bytes)
{
    return cohort * CLASS_LIMIT + class_of(bytes);
}

inline std::vector<void *> taken_from(unsigned bin, size_t count)
{
    std::vector<void *> blocks;
    while (blocks.size() < count) {
        void *out[REFILL_MAX];
        size_t got = depot_refill(bin, out, std::min<size_t>(count - blocks.size(), REFILL_MAX),
                                  user);
        if (got == 0)
            break;
        blocks.insert(blocks.end(), out, out + got);
    }
    return blocks;
}

/* Into bitmaps, or aside while another thread holds the depot. */
inline void put(unsigned bin, void *const *blocks, size_t count)
{
    std::vector<void *> array(blocks, blocks + count);
    depot_put_or_defer(depot_of(bin), array.data(), count);
}

inline void put_all(unsigned bin, const std::vector<void *> &blocks)
{
    for (size_t at = 0; at < blocks.size(); at += REFILL_MAX)
        put(bin, blocks.data() + at, std::min<size_t>(REFILL_MAX, blocks.size() - at));
}

class DepotTest : public testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_TRUE(heap_start());
        purge_settings.purges_on_free = false; /* nobody else takes what the test gives a depot */
        heap_trim();
        lend_share_ = depot_lend_share;
        depot_lend_share = 0; /* nobody lends, unless the test is about lending */
    }

    void TearDown() override
    {
        depot_lend_share = lend_share_;
        purge_settings.purges_on_free = true;
        EXPECT_EQ(depot_verify(), nullptr);
        EXPECT_EQ(span_verify(), nullptr);
    }

  private:
    size_t lend_share_ = 0;
};

/* Another thread does its work while this one holds the depot, and must not wait for it. */
inline void while_held(struct depot *depot, unsigned wait_ms, const std::function<void()> &work)
{
    lock_acquire(&depot->lock, RANK_DEPOT);
    std::atomic<bool> is_done{false};
    std::thread other([&] {
        work();
        is_done = true;
    });
    for (unsigned wait = 0; wait < wait_ms && !is_done; wait++)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(is_done);
    lock_release(&depot->lock, RANK_DEPOT);
    other.join();
}

#endif
