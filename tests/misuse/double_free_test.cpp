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
const std::size_t SHELVED_MAX = 1 << 20; /* longer blocks go back to free memory at once */
const std::size_t LARGE_SIZES[] = {40000, 100000, SHELVED_MAX - 8, 1 << 20, 8 << 20, 48 << 20};

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

/* The last slot of a slab of which malloc has handed out the first blocks at most. */
char *never_handed_out(std::size_t size, std::size_t *usable)
{
    for (;;) {
        auto *block = static_cast<char *>(opaque(malloc(size)));
        *usable = malloc_usable_size(block);
        if (reinterpret_cast<std::uintptr_t>(block) % 65536 == 0)
            return block + (65536 / *usable - 1) * *usable;
    }
}

/* The same, and foretells what a call that is no free says of it. */
char *foretold_slot(std::size_t size, const char *verb, std::size_t *usable)
{
    char *slot = never_handed_out(size, usable);
    foretell("calmalloc: %s of %p: a block of %zu bytes that is already free", verb,
             static_cast<void *>(slot), *usable);
    return slot;
}

class NeverHandedOut : public testing::TestWithParam<std::size_t>
{
};

/* Seen to fail with class_begins_block() in heap_free(): the slot has two owners at once. */
TEST_P(NeverHandedOut, GivenToFreeStopsTheProgram)
{
    expect_stop([] {
        std::size_t usable;
        char *slot = never_handed_out(GetParam(), &usable);
        free_again(slot, usable);
    });
}

/* As the next two, seen to fail without slab_is_free() in is_free_already(). */
TEST_P(NeverHandedOut, GivenToUsableSizeStopsTheProgram)
{
    expect_stop([] {
        std::size_t usable;
        malloc_usable_size(opaque(foretold_slot(GetParam(), "usable size", &usable)));
    });
}

TEST_P(NeverHandedOut, GivenToReallocStopsTheProgram)
{
    expect_stop([] {
        std::size_t usable;
        char *slot = foretold_slot(GetParam(), "realloc", &usable);
        free(opaque(realloc(opaque(slot), usable)));
    });
}

/* A block that lies in this thread's cache because a refill brought it, and that nobody had. */
TEST_P(NeverHandedOut, AndCachedStopsTheProgram)
{
    expect_stop([] {
        std::size_t usable;
        char *first = never_handed_out(GetParam(), &usable);
        first -= (65536 / usable - 2) * usable; /* the second one of the slab */
        free_again(first, usable);
    });
}

INSTANTIATE_TEST_SUITE_P(Small, NeverHandedOut,
                         testing::Values(8, 16, 48, 64, 100, 1000, 2048, 5000, 10000), size_name);

void foretell_spoiled(void *block, std::size_t usable)
{
    foretell("calmalloc: malloc found %p: a free block of %zu bytes that was written to, or freed "
             "twice",
             block, usable);
}

/* What the program writes, to the block it freed and to the one it gets, must not matter. */
const std::uint64_t WRITTEN[] = {0, 1, 0x6162636465666768, UINT64_MAX};

/* Seen to fail with a malloc that hands unmarked blocks out. */
TEST_P(DoubleFree, OfABlockThatWasWrittenToInBetweenStopsTheProgramBeforeItHasTwoOwners)
{
    for (std::uint64_t before : WRITTEN)
        for (std::uint64_t after : WRITTEN)
            expect_stop([=] {
                auto *block = static_cast<volatile std::uint64_t *>(opaque(malloc(GetParam() + 8)));
                void *plain = const_cast<std::uint64_t *>(block);
                std::size_t usable = malloc_usable_size(plain);
                free(plain);
                block[0] = before;
                if (usable > 32768) /* its place says that it is free, whatever it holds */
                    free_again(plain, usable);
                free(opaque(plain));
                foretell_spoiled(plain, usable);
                for (int i = 0; i < 1000; i++)
                    *static_cast<volatile std::uint64_t *>(opaque(malloc(GetParam() + 8))) = after;
            });
}

TEST_P(DoubleFree, AndAWriteToAFreeBlockStopsTheProgramWhenItIsTheNextToBeHandedOut)
{
    if (GetParam() + 8 > SHELVED_MAX)
        GTEST_SKIP() << "free memory is not looked at";
    expect_stop([] {
        auto *block = static_cast<volatile std::uint64_t *>(opaque(malloc(GetParam() + 8)));
        void *plain = const_cast<std::uint64_t *>(block);
        foretell_spoiled(plain, malloc_usable_size(plain));
        free(plain);
        block[0] = 7;
        opaque(malloc(GetParam() + 8));
    });
}

class SmallBlock : public testing::TestWithParam<std::size_t>
{
};

/* Else the flush gives the slab away with a block that is live. Seen to fail where flushes do not
 * look at marks. */
TEST_P(SmallBlock, FreedTwiceBesideAWriteStopsTheProgramAtAFlush)
{
    expect_stop([] {
        std::vector<void *> blocks(100000 / GetParam() + 100);
        for (void *&block : blocks)
            block = opaque(malloc(GetParam()));
        void *twice = blocks[blocks.size() / 2];
        std::size_t usable = malloc_usable_size(twice);
        free(opaque(twice));
        *static_cast<volatile std::uint64_t *>(twice) = 7;
        free(opaque(twice));
        demand(opaque(malloc(GetParam())) == twice, "another block than the one freed last");
        foretell_spoiled(twice, usable);
        for (void *block : blocks)
            if (block != twice)
                free(opaque(block));
        malloc_trim(0);
    });
}

INSTANTIATE_TEST_SUITE_P(Sizes, SmallBlock,
                         testing::Values(8, 16, 48, 64, 100, 1000, 2048, 5000, 10000), size_name);

/* A thread that has not allocated yet may do so during the fork, in memory that the child then sees
 * from two moments. Seen to fail with a child that asks whether there was another cache only. */
TEST(DoubleFreeCheck, DoesNotBelieveMarksInAForkedChildOfAProgramWithSeveralThreads)
{
    std::atomic<bool> is_over{false};
    std::thread idle([&is_over] {
        while (!is_over)
            std::this_thread::yield();
    });
    expect_survival([] {
        for (std::size_t size : SMALL_SIZES) {
            auto *block = static_cast<volatile std::uint64_t *>(opaque(malloc(size + 8)));
            void *plain = const_cast<std::uint64_t *>(block);
            free(plain);
            block[0] = 7;
            demand(opaque(malloc(size + 8)) == plain, "another block than the one freed last");
        }
    });
    is_over = true;
    idle.join();
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
