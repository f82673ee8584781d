/*
 * double_free_test.cpp: a block that is freed twice stops the program, wherever its first free has
 * brought it: a cache, a batch, a depot's bitmap, another thread's cache, or the free spans.
 *
 * docs/misuse.md says which sentence appears when.
 */
#include "blocks.h"
#include "child.h"

#include <atomic>
#include <gtest/gtest.h>
#include <malloc.h>
#include <string>
#include <thread>

namespace
{

const std::size_t SMALL_SIZES[] = {1, 8, 16, 24, 64, 100, 128, 1000, 4096, 10000, 32768};
const std::size_t LARGE_SIZES[] = {40000, 100000, 1 << 20, 8 << 20, 48 << 20};

/* Frees `block`, whose usable size was `usable` while it lived, for the second time. */
void free_again(void *block, std::size_t usable)
{
    foretell("calmalloc: double free of %p: a block of %zu bytes that is already free", block,
             usable);
    free(opaque(block));
}

class DoubleFree : public testing::TestWithParam<std::size_t>
{
  protected:
    static bool is_small()
    {
        return GetParam() <= 32768;
    }

    /* Small blocks are in the company of their own kind. */
    static std::size_t company_size()
    {
        return is_small() ? GetParam() : 100;
    }
    static void *victim(const company &others)
    {
        return is_small() ? others.middle() : opaque(malloc(GetParam()));
    }
};

std::string size_name(const testing::TestParamInfo<std::size_t> &info)
{
    return std::to_string(info.param) + "Bytes";
}

TEST_P(DoubleFree, AtOnceStopsTheProgram)
{
    expect_stop([] {
        void *block = opaque(malloc(GetParam()));
        std::size_t usable = malloc_usable_size(block);
        free(block);
        free_again(block, usable);
    });
}

TEST_P(DoubleFree, AfterAnotherBlockWasFreedInBetweenStopsTheProgram)
{
    expect_stop([] {
        void *block = opaque(malloc(GetParam()));
        void *other = opaque(malloc(GetParam()));
        std::size_t usable = malloc_usable_size(block);
        free(block);
        free(other);
        free_again(block, usable);
    });
}

TEST_P(DoubleFree, After5000OtherFreesStopsTheProgram)
{
    expect_stop([] {
        company others(company_size(), 10002);
        void *block = victim(others);
        std::size_t usable = malloc_usable_size(block);
        free(block);
        others.free_others();
        free_again(block, usable);
    });
}

TEST_P(DoubleFree, OfABlockThatWasFreedAfter5000OthersStopsTheProgram)
{
    expect_stop([] {
        company others(company_size(), 10002);
        void *block = victim(others);
        std::size_t usable = malloc_usable_size(block);
        others.free_others();
        free(block);
        free_again(block, usable);
    });
}

TEST_P(DoubleFree, OfABlockThatALivingThreadHasFreedStopsTheProgram)
{
    expect_stop([] {
        void *block = opaque(malloc(GetParam()));
        std::size_t usable = malloc_usable_size(block);
        std::atomic<bool> is_freed{false};
        std::thread holder([&] {
            free(block);
            is_freed = true;
            for (;;)
                std::this_thread::sleep_for(std::chrono::seconds(60));
        });
        while (!is_freed)
            std::this_thread::yield();
        free_again(block, usable);
    });
}

/* What one thread allocates and another frees travels in whole batches. */
TEST_P(DoubleFree, OfABlockOnItsWayBetweenThreadsStopsTheProgram)
{
    expect_stop([] {
        company others(company_size(), 10002);
        void *block = victim(others);
        std::size_t usable = malloc_usable_size(block);
        std::atomic<bool> is_freed{false};
        std::thread holder([&] {
            free(block);
            others.free_others();
            is_freed = true;
            for (;;)
                std::this_thread::sleep_for(std::chrono::seconds(60));
        });
        while (!is_freed)
            std::this_thread::yield();
        free_again(block, usable);
    });
}

TEST_P(DoubleFree, OfABlockThatAnEndedThreadHasFreedStopsTheProgram)
{
    expect_stop([] {
        company others(company_size(), 1002);
        void *block = victim(others);
        std::size_t usable = malloc_usable_size(block);
        std::thread([&] { free(block); }).join();
        free_again(block, usable);
    });
}

/* The thread is there before the block is freed, because starting one allocates and might reuse the
 * block. */
TEST_P(DoubleFree, InAnotherThreadThanTheFirstStopsTheProgram)
{
    expect_stop([] {
        void *block = opaque(malloc(GetParam()));
        std::size_t usable = malloc_usable_size(block);
        std::atomic<bool> is_freed{false};
        std::thread second([&] {
            while (!is_freed)
                std::this_thread::yield();
            free_again(block, usable);
        });
        free(block);
        is_freed = true;
        second.join();
    });
}

TEST_P(DoubleFree, ThroughOperatorDeleteStopsTheProgram)
{
    expect_stop([] {
        void *block = opaque(::operator new(GetParam()));
        std::size_t usable = malloc_usable_size(block);
        ::operator delete(block);
        foretell("calmalloc: double free of %p: a block of %zu bytes that is already free", block,
                 usable);
        ::operator delete(opaque(block));
    });
}

TEST_P(DoubleFree, InAForkedChildOfABlockFreedBeforeTheForkStopsTheProgram)
{
    void *block = opaque(malloc(GetParam()));
    std::size_t usable = malloc_usable_size(block);
    free(block);
    expect_stop([=] { free_again(block, usable); });
}

INSTANTIATE_TEST_SUITE_P(Small, DoubleFree, testing::ValuesIn(SMALL_SIZES), size_name);
INSTANTIATE_TEST_SUITE_P(Large, DoubleFree, testing::ValuesIn(LARGE_SIZES), size_name);

TEST(DoubleFreeOfAnAlignedBlock, StopsTheProgram)
{
    for (std::size_t alignment : {16, 64, 4096})
        expect_stop([=] {
            void *block = opaque(aligned_alloc(alignment, 1000));
            std::size_t usable = malloc_usable_size(block);
            free(block);
            free_again(block, usable);
        });
}

/* Its neighbours on the same page are live, so the page stays, and with it the mark that raises the
 * suspicion. */
TEST(DoubleFreeAfterATrim, OfABlockAmongLiveOnesStopsTheProgram)
{
    for (std::size_t size : {8, 24, 64, 100, 1000})
        expect_stop([=] {
            company others(size, 1002);
            void *block = others.middle();
            std::size_t usable = malloc_usable_size(block);
            free(block);
            malloc_trim(0);
            free_again(block, usable);
        });
}

/* The page has gone back to the kernel, and the mark with it. The slab's bitmap still knows. */
TEST(DoubleFreeAfterATrim, OfABlockWhosePageIsGoneStopsTheProgramWhenItComesBackToItsSlab)
{
    for (std::size_t size : {4096, 10000, 32768})
        expect_stop([=] {
            company others(size, 1002);
            void *block = others.middle();
            std::size_t usable = malloc_usable_size(block);
            free(block);
            malloc_trim(0);
            free_again(block, usable);
            malloc_trim(0);
        });
}

TEST(DoubleFreeAfterATrim, OfALargeBlockStopsTheProgram)
{
    for (std::size_t size : LARGE_SIZES)
        expect_stop([=] {
            void *block = opaque(malloc(size));
            std::size_t usable = malloc_usable_size(block);
            free(block);
            malloc_trim(0);
            free_again(block, usable);
        });
}

/* Not a misuse: the same address freed again after it was handed out again. */
TEST(DoubleFreeCheck, DoesNotMistakeAReusedBlockForAFreeOne)
{
    expect_survival([] {
        for (std::size_t size : SMALL_SIZES)
            for (int i = 0; i < 20000; i++)
                free(opaque(malloc(size)));
    });
}

/* Contents of a freed block that look like whatever mark the heap may keep must not make a live
 * block look free. */
TEST(DoubleFreeCheck, DoesNotBelieveWhatALiveBlockHolds)
{
    expect_survival([] {
        for (std::size_t size : SMALL_SIZES) {
            if (size < sizeof(std::uint64_t) * 2)
                continue;
            auto *block = static_cast<std::uint64_t *>(opaque(malloc(size)));
            free(block);
            std::uint64_t left[2];
            for (int i = 0; i < 2; i++)
                left[i] = opaque(static_cast<volatile std::uint64_t *>(block))[i];
            void *kept[64];
            for (void *&other : kept) {
                other = opaque(malloc(size));
                auto *words = static_cast<volatile std::uint64_t *>(other);
                words[0] = left[0];
                words[1] = left[1];
            }
            for (void *other : kept)
                free(other);
        }
    });
}

} // namespace
