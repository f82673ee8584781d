/*
 * meta_test.cpp: mem/meta.c hands out zeroed, aligned pieces that never overlap.
 */
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include <unistd.h>

#include "../support.h"

static const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
static const size_t chunk_bytes = 1024 * 1024;

/* Enters [start, start + bytes) in a map of what was handed out; false when it meets another piece.
 */
static bool enter(std::map<uintptr_t, size_t> *pieces, const void *start, size_t bytes)
{
    uintptr_t from = reinterpret_cast<uintptr_t>(start);
    auto behind = pieces->upper_bound(from);
    if (behind != pieces->end() && behind->first < from + bytes)
        return false;
    if (behind != pieces->begin() && std::prev(behind)->first + std::prev(behind)->second > from)
        return false;
    pieces->emplace(from, bytes);
    return true;
}

/* What a piece's number leads back to. */
static void expect_numbered(void *piece)
{
    uint32_t number = meta_number(piece);
    EXPECT_NE(number, 0u);
    EXPECT_EQ(meta_at(number), piece);
}

TEST(Meta, APieceIsFoundByItsNumberInWhicheverChunkItIs)
{
    meta_start(chunk_bytes, page);
    EXPECT_EQ(meta_number(&chunk_bytes), 0u);
    for (unsigned i = 0; i < 200; i++)
        expect_numbered(meta_alloc(static_cast<size_t>(64) * (1 + i * 7), 64));
}

/* Seen to fail with `start` as the new `used` in chunk_take: the second piece met the first. */
TEST(Meta, PiecesAreZeroAlignedAndApart)
{
    meta_start(chunk_bytes, page);
    calm_test::Random random(3);
    std::map<uintptr_t, size_t> pieces;
    for (unsigned i = 0; i < 2000; i++) {
        size_t align = static_cast<size_t>(1) << random.below(13);
        size_t bytes = 1 + random.below(i % 50 == 0 ? 300000 : 3000);
        void *piece = meta_alloc(bytes, align);
        ASSERT_NE(piece, nullptr);
        ASSERT_EQ(reinterpret_cast<uintptr_t>(piece) % align, 0u);
        ASSERT_TRUE(calm_test::is_zero(piece, bytes));
        ASSERT_TRUE(enter(&pieces, piece, bytes));
        memset(piece, 0xAA, bytes);
    }
}

TEST(Meta, APieceLargerThanAChunkGetsAChunkOfItsOwn)
{
    meta_start(chunk_bytes, page);
    void *piece = meta_alloc(3 * chunk_bytes, page);
    ASSERT_NE(piece, nullptr);
    memset(piece, 1, 3 * chunk_bytes);
    EXPECT_NE(meta_alloc(100, 8), nullptr);
    EXPECT_EQ(meta_alloc(static_cast<size_t>(1) << 60, page), nullptr);
    EXPECT_NE(meta_alloc(100, 8), nullptr) << "a failure leaves it usable";
}

TEST(Meta, ItsFiguresAreInOrderAndAgreeWithWhatWasWritten)
{
    meta_start(chunk_bytes, page);
    ASSERT_NE(meta_alloc(1, 1), nullptr); /* there is a chunk, whose facts are resident */
    size_t resident_before = meta_resident_bytes();
    void *piece = meta_alloc(512 * 1024, page);
    ASSERT_NE(piece, nullptr);
    memset(piece, 1, 512 * 1024);
    EXPECT_EQ(meta_resident_bytes() - resident_before, 512u * 1024u);
    EXPECT_LE(meta_resident_bytes(), meta_mapped_bytes());
    EXPECT_LE(meta_mapped_bytes(), meta_reserved_bytes());
}

TEST(Meta, PiecesOfManyThreadsAreApart)
{
    meta_start(chunk_bytes, page);
    std::map<uintptr_t, size_t> pieces;
    std::mutex mutex;
    std::atomic<bool> is_wrong{false};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; t++) {
        threads.emplace_back([&, t] {
            calm_test::Random random(100 + t);
            for (unsigned i = 0; i < 500; i++) {
                size_t bytes = 1 + random.below(2000);
                void *piece = meta_alloc(bytes, 64);
                std::lock_guard<std::mutex> guard(mutex);
                if (piece == nullptr || !enter(&pieces, piece, bytes))
                    is_wrong = true;
            }
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_FALSE(is_wrong);
}
