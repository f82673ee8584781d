/*
 * bounded_test.cpp: pool/bounded.c: blocks, misuse, and that no request within the capacity fails.
 */
#include <gtest/gtest.h>

#include <map>

#include "../pool_support.h"

namespace
{

constexpr size_t unit = CALM_BOUNDED_UNIT;

struct Memory {
    explicit Memory(size_t bytes)
        : bytes_((bytes + 63) / 64 * 64), start(static_cast<char *>(aligned_alloc(64, bytes_)))
    {
    }
    Memory(const Memory &) = delete;
    ~Memory()
    {
        free(start);
    }

  private:
    size_t bytes_;

  public:
    char *start;
};

struct BoundedTest : testing::Test {
    static constexpr size_t bytes = 1 << 18;
    Memory memory{bytes};
    calm_bounded *heap = nullptr;

    void SetUp() override
    {
        ASSERT_EQ(calm_bounded_create(memory.start, bytes, &heap), 0);
        ASSERT_EQ(bounded_verify(heap), nullptr);
    }
};

TEST_F(BoundedTest, BlocksAreAlignedLargeEnoughAndInside)
{
    for (size_t size : {0, 1, 63, 64, 65, 4000, 100000}) {
        auto *block = static_cast<char *>(calm_bounded_alloc(heap, size));
        ASSERT_NE(block, nullptr) << size;
        EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % unit, 0u);
        EXPECT_GE(calm_bounded_usable_size(heap, block), size);
        EXPECT_GE(block, memory.start);
        EXPECT_LE(block + calm_bounded_usable_size(heap, block), memory.start + bytes);
    }
}

TEST_F(BoundedTest, AllComesBackInOnePiece)
{
    size_t before = calm_bounded_free_bytes(heap);
    std::vector<void *> blocks;
    while (void *block = calm_bounded_alloc(heap, 64 + blocks.size() % 500))
        blocks.push_back(block);
    ASSERT_GT(blocks.size(), 100u);
    calm_test::Random random(4);
    while (!blocks.empty()) {
        std::swap(blocks[random.below(blocks.size())], blocks.back());
        ASSERT_EQ(calm_bounded_free(heap, blocks.back()), 0);
        ASSERT_EQ(bounded_verify(heap), nullptr);
        blocks.pop_back();
    }
    EXPECT_EQ(calm_bounded_free_bytes(heap), before);
    EXPECT_NE(calm_bounded_alloc(heap, before / 9 * 8), nullptr);
}

TEST_F(BoundedTest, EveryMisuseHasItsCodeAndChangesNothing)
{
    auto *block = static_cast<char *>(calm_bounded_alloc(heap, 1000));
    calm_bounded_alloc(heap, 1000);
    std::string before(memory.start, bytes);
    EXPECT_EQ(calm_bounded_free(heap, nullptr), 0);
    EXPECT_EQ(calm_bounded_free(heap, block + 1), CALM_EMISALIGNED);
    EXPECT_EQ(calm_bounded_free(heap, block + 64), CALM_EINTERIOR);
    EXPECT_EQ(calm_bounded_free(heap, memory.start), CALM_EFOREIGN);
    EXPECT_EQ(calm_bounded_free(heap, &before), CALM_EFOREIGN);
    EXPECT_EQ(calm_bounded_free(heap, memory.start + bytes), CALM_EFOREIGN);
    EXPECT_EQ(calm_bounded_usable_size(heap, block + 64), 0u);
    EXPECT_EQ(before, std::string(memory.start, bytes));
    EXPECT_EQ(calm_bounded_free(heap, block), 0);
    EXPECT_EQ(calm_bounded_free(heap, block), CALM_EDOUBLE);
    EXPECT_EQ(bounded_verify(heap), nullptr);
}

TEST_F(BoundedTest, ADoubleFreeIsSeenAfterTheBlockJoinedItsNeighbours)
{
    std::vector<char *> blocks;
    for (int i = 0; i < 5; i++)
        blocks.push_back(static_cast<char *>(calm_bounded_alloc(heap, 64 * 3)));
    for (int i : {1, 3, 2})
        ASSERT_EQ(calm_bounded_free(heap, blocks[static_cast<size_t>(i)]), 0);
    for (int i : {1, 2, 3})
        EXPECT_EQ(calm_bounded_free(heap, blocks[static_cast<size_t>(i)]), CALM_EDOUBLE);
    EXPECT_EQ(bounded_verify(heap), nullptr);
}

TEST_F(BoundedTest, TooMuchGivesNull)
{
    size_t all = calm_bounded_free_bytes(heap);
    EXPECT_EQ(calm_bounded_alloc(heap, all + 1), nullptr);
    EXPECT_EQ(calm_bounded_alloc(heap, SIZE_MAX), nullptr);
    EXPECT_EQ(calm_bounded_alloc(heap, static_cast<size_t>(1) << 30), nullptr);
    EXPECT_EQ(calm_bounded_free_bytes(heap), all);
}

TEST(Bounded, BadMemoryIsRefusedAndUntouched)
{
    Memory memory(1 << 16);
    calm_bounded *heap = nullptr;
    EXPECT_EQ(calm_bounded_create(nullptr, 1 << 16, &heap), CALM_ENULL);
    EXPECT_EQ(calm_bounded_create(memory.start, 1 << 16, nullptr), CALM_ENULL);
    EXPECT_EQ(calm_bounded_create(memory.start + 8, 1 << 15, &heap), CALM_EMEMORY_ALIGN);
    EXPECT_EQ(calm_bounded_create(memory.start, SIZE_MAX, &heap), CALM_EMEMORY_END);
    EXPECT_EQ(calm_bounded_create(memory.start, 100, &heap), CALM_EBYTES_SMALL);
    EXPECT_EQ(calm_bounded_create(memory.start, static_cast<size_t>(1) << 40, &heap),
              CALM_EBYTES_LARGE);
    EXPECT_EQ(heap, nullptr);
}

TEST(Bounded, TheLeastMemoryHoldsOneUnit)
{
    size_t bytes = 0;
    calm_bounded *heap = nullptr;
    Memory memory(1 << 16);
    while (calm_bounded_create(memory.start, bytes, &heap) != 0)
        bytes++;
    EXPECT_EQ(calm_bounded_free_bytes(heap), unit);
    void *block = calm_bounded_alloc(heap, 64);
    EXPECT_LE(static_cast<char *>(block) + 64, memory.start + bytes);
    EXPECT_EQ(calm_bounded_alloc(heap, 0), nullptr);
    EXPECT_EQ(calm_bounded_free(heap, block), 0);
}

/* 255 * 64 + 255 is the most that the fuzz target asks for. */
TEST(Bounded, NoBlockLeavesTheMemoryWhateverItsLength)
{
    for (size_t bytes = 1; bytes <= 255 * 64 + 255; bytes += bytes < 16384 ? 13 : 1) {
        Memory memory(bytes + 64);
        memset(memory.start, 0x5A, bytes + 64);
        calm_bounded *heap = nullptr;
        if (calm_bounded_create(memory.start, bytes, &heap) != 0)
            continue;
        while (auto *block = static_cast<char *>(calm_bounded_alloc(heap, bytes % 700))) {
            size_t usable = calm_bounded_usable_size(heap, block);
            ASSERT_LE(block + usable, memory.start + bytes) << bytes;
            memset(block, 0xA5, usable);
        }
        ASSERT_EQ(bounded_verify(heap), nullptr) << bytes;
        ASSERT_EQ(std::string(memory.start + bytes, 64), std::string(64, 0x5A)) << bytes;
    }
}

/* Random sequences that stay within what the formula was told: not one request may fail. An
 * adversary on top: it frees every other block, so that no two holes join. */
TEST(BoundedCapacity, NoRequestWithinItFails)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        calm_test::Random random(seed);
        size_t blocks = 1 + random.below(60), largest = 1 + random.below(6000);
        size_t total = largest + random.below(100000);
        size_t capacity = calm_bounded_capacity(total, blocks, largest);
        Memory memory(capacity);
        calm_bounded *heap = nullptr;
        ASSERT_EQ(calm_bounded_create(memory.start, capacity, &heap), 0);
        std::map<char *, size_t> live;
        size_t sum = 0;
        for (int step = 0; step < 4000; step++) {
            size_t size = std::min(random.below(3) != 0 ? largest - random.below(largest / 4 + 1)
                                                        : 1 + random.below(largest),
                                   total - sum);
            if (live.size() < blocks && size > 0 && random.below(2) == 0) {
                auto *block = static_cast<char *>(calm_bounded_alloc(heap, size));
                ASSERT_NE(block, nullptr) << "seed " << seed << " step " << step;
                auto next = live.lower_bound(block);
                ASSERT_TRUE(next == live.end() || block + size <= next->first);
                ASSERT_TRUE(next == live.begin() ||
                            std::prev(next)->first + std::prev(next)->second <= block);
                memset(block, static_cast<int>(step), size);
                live[block] = size;
                sum += size;
            } else if (step % 500 == 499) {
                for (auto at = live.begin(); at != live.end();) {
                    sum -= at->second;
                    ASSERT_EQ(calm_bounded_free(heap, at->first), 0);
                    at = live.erase(at);
                    at = at == live.end() ? at : std::next(at);
                }
            } else if (!live.empty()) {
                auto at = std::next(live.begin(), static_cast<long>(random.below(live.size())));
                sum -= at->second;
                ASSERT_EQ(calm_bounded_free(heap, at->first), 0);
                live.erase(at);
            }
            if (step % 50 == 0) {
                ASSERT_EQ(bounded_verify(heap), nullptr) << "seed " << seed << " step " << step;
            }
        }
    }
}

TEST(BoundedCapacity, BeyondWhatCanBeManagedItIsZero)
{
    EXPECT_EQ(calm_bounded_capacity(SIZE_MAX, 1, 1), 0u);
    EXPECT_EQ(calm_bounded_capacity(1, SIZE_MAX, 1), 0u);
    EXPECT_EQ(calm_bounded_capacity(1, 1, SIZE_MAX), 0u);
    EXPECT_EQ(calm_bounded_capacity(1 << 20, 1 << 20, 1 << 20), 0u);
    EXPECT_GT(calm_bounded_capacity(0, 0, 0), 0u);
}

} // namespace
