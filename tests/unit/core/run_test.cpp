/*
 * run_test.cpp: core/run.h finds neighbours in an array, and no others.
 */
#include <gtest/gtest.h>

#include <vector>

#include "../heap_support.h"

#include "core/run.h"

static const size_t bytes = 48;

/* Slots with blocks at these multiples of their size in a unit, over one that is NULL. */
class Slots
{
  public:
    explicit Slots(const std::vector<long> &places, uintptr_t unit = 100 * CHUNK_BYTES)
        : slots_(places.size() + 1)
    {
        slots_[0] = nullptr;
        for (size_t i = 0; i < places.size(); i++)
            slots_[i + 1] = reinterpret_cast<void *>(
                unit + static_cast<uintptr_t>(places[i] * static_cast<long>(bytes)));
    }

    size_t length(size_t most)
    {
        return run_length(slots_.data() + slots_.size(), most, bytes);
    }

  private:
    std::vector<void *> slots_;
};

/* Seen to fail with a run that goes on after a gap of two blocks. */
TEST(Run, IsAsLongAsNeighboursFollowEachOtherUpOrDown)
{
    EXPECT_EQ(Slots({5}).length(1), 1u);
    EXPECT_EQ(Slots({5, 9}).length(2), 1u);
    EXPECT_EQ(Slots({5, 6}).length(2), 2u);
    EXPECT_EQ(Slots({6, 5}).length(2), 2u);
    EXPECT_EQ(Slots({1, 2, 3, 5, 6, 7}).length(6), 3u);
    EXPECT_EQ(Slots({30, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3}).length(11), 10u);
    EXPECT_EQ(Slots({8, 7, 8, 9}).length(4), 3u) << "it turns round";
    EXPECT_EQ(Slots({7, 7}).length(2), 1u) << "twice the same";
}

TEST(Run, IsNoLongerThanIsAskedFor)
{
    for (size_t most = 1; most <= 9; most++)
        EXPECT_EQ(Slots({1, 2, 3, 4, 5, 6, 7, 8, 9}).length(most), most);
}

/* Neighbours of two slabs have bitmaps of their own. Seen to fail without the bound. */
TEST(Run, EndsWithItsUnit)
{
    std::vector<long> up, down;
    for (long place = -40; place < 40; place++)
        up.push_back(place);
    down.assign(up.rbegin(), up.rend());
    EXPECT_EQ(Slots(up).length(80), 40u);
    EXPECT_EQ(Slots(down).length(80), 40u);
    EXPECT_EQ(Slots(up, 100 * CHUNK_BYTES + 8).length(80), 40u);
}
