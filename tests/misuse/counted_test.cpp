/*
 * counted_test.cpp: with misuse=count a misuse is counted and left undone, and the heap stays
 * intact: the block that was freed twice is handed out once, the block that was freed from its
 * middle is still live.
 */
#include "blocks.h"
#include "child.h"

#include <calmalloc/calmalloc.h>
#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <malloc.h>
#include <set>
#include <thread>

extern "C" void sdallocx(void *block, std::size_t size, int flags);

namespace
{

std::uint64_t misuses()
{
    calm_stats stats;
    calm_stats_read(&stats);
    return stats.misuses;
}

/* Runs `misuse` with misuse=count, then demands that `count` were counted and that the heap is
 * intact and works. */
void expect_counted(std::uint64_t count, const std::function<void()> &misuse)
{
    outcome got = run_child([&] {
        demand(calm_option_set("misuse", 0) == 0, "the option can be set at any time");
        misuse();
        demand(misuses() == count, "every misuse is counted");
        demand(calm_verify() == nullptr, "the heap is intact");
        std::set<void *> live;
        for (int i = 0; i < 20000; i++)
            demand(live.insert(opaque(malloc(64))).second, "no block is handed out twice");
        demand(calm_verify() == nullptr, "the heap is still intact");
    });
    EXPECT_TRUE(WIFEXITED(got.status) && WEXITSTATUS(got.status) == 0)
        << got.status << ": " << got.errors;
}

TEST(Counted, ADoubleFreeLeavesTheBlockFreeOnce)
{
    for (std::size_t size : {8, 64, 1000, 32768, 1 << 20})
        expect_counted(3, [=] {
            company others(size > 32768 ? 100 : size, 200);
            void *block = opaque(malloc(size));
            free(block);
            errno = 66;
            for (int i = 0; i < 3; i++)
                free(opaque(block));
            demand(errno == 66, "errno is preserved");
            std::set<void *> live;
            for (int i = 0; i < 300; i++)
                demand(live.insert(opaque(malloc(size))).second, "the block is handed out once");
        });
}

TEST(Counted, ADoubleFreeAfter5000OthersLeavesTheBlockFreeOnce)
{
    expect_counted(1, [] {
        company others(64, 10002);
        void *block = others.middle();
        free(block);
        others.free_others();
        free(opaque(block));
    });
}

TEST(Counted, ADoubleFreeByAnotherThreadLeavesTheBlockFreeOnce)
{
    expect_counted(1, [] {
        void *block = opaque(malloc(64));
        free(block);
        std::thread([&] { free(opaque(block)); }).join();
    });
}

TEST(Counted, AnInteriorPointerLeavesTheBlockLive)
{
    for (std::size_t size : {64, 1000, 32768, 1 << 20})
        expect_counted(4, [=] {
            void *block = opaque(malloc(size));
            std::memset(block, 0x31, size);
            free(at(block, 1));
            free(at(block, 16));
            free(at(block, static_cast<std::ptrdiff_t>(size) / 2));
            sdallocx(at(block, 32), size, 0);
            for (int i = 0; i < 1000; i++)
                demand(opaque(malloc(size > 32768 ? 64 : size)) != block,
                       "the block is still live");
            for (std::size_t i = 0; i < size; i++)
                demand(static_cast<unsigned char *>(block)[i] == 0x31,
                       "the contents are untouched");
            free(block);
        });
}

TEST(Counted, ASizedFreeToldWrongLeavesTheBlockLive)
{
    for (std::size_t size : {64, 1000, 32768, 1 << 20})
        expect_counted(2, [=] {
            void *block = opaque(malloc(size));
            ::operator delete(block, size * 4);
            sdallocx(block, size / 4, 0);
            for (int i = 0; i < 1000; i++)
                demand(opaque(malloc(size > 32768 ? 64 : size)) != block,
                       "the block is still live");
            free(block);
        });
}

TEST(Counted, AReallocOfAFreedBlockReturnsNull)
{
    for (std::size_t size : {64, 32768, 1 << 20})
        expect_counted(2, [=] {
            void *block = opaque(malloc(size));
            free(block);
            demand(realloc(opaque(block), size * 2) == nullptr, "nothing grows from a freed block");
            demand(realloc(at(block, 16), 10) == nullptr, "nothing shrinks from the middle of one");
        });
}

TEST(Counted, TheUsableSizeOfAWrongAddressIsZero)
{
    expect_counted(2, [] {
        void *block = opaque(malloc(64));
        demand(malloc_usable_size(at(block, 16)) == 0, "no block begins here");
        free(block);
        demand(malloc_usable_size(opaque(block)) == 0, "the block is free");
    });
}

TEST(Counted, MisusesByManyThreadsKeepTheHeapIntact)
{
    expect_counted(8 * 2000, [] {
        std::vector<std::thread> threads;
        for (int t = 0; t < 8; t++)
            threads.emplace_back([] {
                for (std::size_t i = 0; i < 1000; i++) {
                    void *block = opaque(malloc(16 + i % 2000));
                    free(at(block, 8));
                    free(block);
                    free(opaque(block));
                }
            });
        for (std::thread &thread : threads)
            thread.join();
    });
}

} // namespace
