/*
 * wrong_address_test.cpp: addresses inside the heap where no block begins: inside a block, beside a
 * slab's last block, in free memory, before and behind all blocks. Each stops the program with what
 * is there instead.
 */
#include "blocks.h"
#include "child.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <malloc.h>
#include <string>

namespace
{

struct place {
    std::size_t size;
    std::ptrdiff_t offset;
};

void PrintTo(const place &where, std::ostream *out)
{
    *out << where.offset << " inside " << where.size;
}

class InteriorPointer : public testing::TestWithParam<place>
{
};

std::string place_name(const testing::TestParamInfo<place> &info)
{
    return std::to_string(info.param.offset) + "Inside" + std::to_string(info.param.size) + "Bytes";
}

TEST_P(InteriorPointer, StopsTheProgramWithItsOffset)
{
    expect_stop([] {
        void *block = opaque(malloc(GetParam().size));
        void *inside = at(block, GetParam().offset);
        foretell("calmalloc: free of %p: %zu bytes inside a block of %zu bytes, not at its start",
                 inside, static_cast<std::size_t>(GetParam().offset), malloc_usable_size(block));
        free(inside);
    });
}

TEST_P(InteriorPointer, GivenToReallocStopsTheProgramWithItsOffset)
{
    expect_stop([] {
        void *block = opaque(malloc(GetParam().size));
        void *inside = at(block, GetParam().offset);
        foretell(
            "calmalloc: realloc of %p: %zu bytes inside a block of %zu bytes, not at its start",
            inside, static_cast<std::size_t>(GetParam().offset), malloc_usable_size(block));
        opaque(realloc(inside, 100));
    });
}

TEST_P(InteriorPointer, GivenToUsableSizeStopsTheProgramWithItsOffset)
{
    expect_stop([] {
        void *block = opaque(malloc(GetParam().size));
        void *inside = at(block, GetParam().offset);
        foretell(
            "calmalloc: usable size of %p: %zu bytes inside a block of %zu bytes, not at its start",
            inside, static_cast<std::size_t>(GetParam().offset), malloc_usable_size(block));
        opaque(malloc_usable_size(inside));
    });
}

INSTANTIATE_TEST_SUITE_P(Small, InteriorPointer,
                         testing::Values(place{1, 1}, place{8, 4}, place{16, 8}, place{64, 1},
                                         place{64, 16}, place{64, 63}, place{100, 8},
                                         place{1000, 512}, place{4096, 4095}, place{10000, 4096},
                                         place{32768, 1}, place{32768, 16384}),
                         place_name);
INSTANTIATE_TEST_SUITE_P(Large, InteriorPointer,
                         testing::Values(place{100000, 1}, place{100000, 16}, place{100000, 65536},
                                         place{1 << 20, 4096}, place{1 << 20, 1 << 19},
                                         place{1 << 20, (1 << 20) - 1}, place{48 << 20, 40 << 20},
                                         place{48 << 20, 65536}),
                         place_name);

TEST(InteriorPointer, OfAnAlignedBlockStopsTheProgramWithItsOffset)
{
    for (std::size_t alignment : {64, 4096, 65536, 1 << 20})
        expect_stop([=] {
            void *block = opaque(aligned_alloc(alignment, 5000));
            void *inside = at(block, 48);
            foretell(
                "calmalloc: free of %p: 48 bytes inside a block of %zu bytes, not at its start",
                inside, malloc_usable_size(block));
            free(inside);
        });
}

TEST(InteriorPointer, GivenToSizedFreesStopsTheProgramWithItsOffset)
{
    for (std::size_t size : {64, 1 << 20})
        expect_stop([=] {
            void *block = opaque(malloc(size));
            void *inside = at(block, 16);
            foretell(
                "calmalloc: free of %p: 16 bytes inside a block of %zu bytes, not at its start",
                inside, malloc_usable_size(block));
            ::operator delete(inside, size);
        });
}

/* Between the last block of a slab and the end of its memory lie bytes that belong to no block. */
TEST(SlabTail, WhereNoBlockBeginsStopsTheProgram)
{
    const std::size_t size = 5000;
    void *tail = nullptr;
    company blocks(size, 400);
    std::size_t usable = malloc_usable_size(blocks.blocks[0]);
    std::sort(blocks.blocks.begin(), blocks.blocks.end());
    for (std::size_t i = 0; i + 1 < blocks.blocks.size() && tail == nullptr; i++) {
        void *end = at(blocks.blocks[i], static_cast<std::ptrdiff_t>(usable));
        if (at(blocks.blocks[i + 1], 0) > end &&
            at(blocks.blocks[i + 1], 0) < at(end, static_cast<std::ptrdiff_t>(usable)))
            tail = end;
    }
    if (tail == nullptr)
        GTEST_SKIP() << "no slab of this size has a tail";
    for (std::ptrdiff_t offset : {0, 16})
        expect_stop([=] {
            foretell("calmalloc: free of %p: no block begins here; the memory is free",
                     at(tail, offset));
            free(at(tail, offset));
        });
    for (void *block : blocks.blocks)
        free(block);
}

/* A large block that was freed may be kept whole for the next request. */
TEST(FreeMemory, InsideALargeBlockThatIsKeptWholeStopsTheProgram)
{
    for (std::ptrdiff_t offset : {16, 4096, 65536, 1 << 19})
        expect_stop([=] {
            void *block = opaque(malloc(1 << 20));
            free(block);
            foretell("calmalloc: free of %p: no block begins here; the memory is free",
                     at(block, offset));
            free(at(block, offset));
        });
}

TEST(FreeMemory, InsideALargeBlockThatIsNoLongerKeptStopsTheProgram)
{
    for (std::ptrdiff_t offset : {16, 4096, 65536, 1 << 20})
        expect_stop([=] {
            void *block = opaque(malloc(2 << 20));
            free(block);
            malloc_trim(0);
            foretell("calmalloc: free of %p: no block begins here; the memory is free",
                     at(block, offset));
            free(at(block, offset));
        });
}

TEST(FreeMemory, GivenToReallocOrUsableSizeStopsTheProgram)
{
    expect_stop([] {
        void *block = opaque(malloc(1 << 20));
        free(block);
        malloc_trim(0);
        foretell("calmalloc: realloc of %p: no block begins here; the memory is free",
                 at(block, 64));
        opaque(realloc(at(block, 64), 100));
    });
    expect_stop([] {
        void *block = opaque(malloc(1 << 20));
        free(block);
        malloc_trim(0);
        foretell("calmalloc: usable size of %p: no block begins here; the memory is free",
                 at(block, 64));
        opaque(malloc_usable_size(at(block, 64)));
    });
}

/* Reserved address space that no block has reached yet is as foreign as any. */
TEST(FreeMemory, ThatTheHeapHasNotReachedYetIsForeign)
{
    expect_survival([] {
        void *beyond = at(opaque(malloc(100)), std::ptrdiff_t{1} << 30);
        foretell("calmalloc: foreign free of %p: not from calmalloc; ignored", beyond);
        free(beyond);
    });
}

TEST(ReallocOfAFreedBlock, StopsTheProgram)
{
    for (std::size_t size : {8, 64, 1000, 32768, 100000, 8 << 20})
        for (std::size_t to : {std::size_t{1}, size, size * 2, std::size_t{1} << 20})
            expect_stop([=] {
                void *block = opaque(malloc(size));
                std::size_t usable = malloc_usable_size(block);
                free(block);
                foretell("calmalloc: realloc of %p: a block of %zu bytes that is already free",
                         block, usable);
                opaque(realloc(opaque(block), to));
            });
}

/* Realloc to zero is a free, and says so. */
TEST(ReallocOfAFreedBlock, ToZeroIsADoubleFree)
{
    expect_stop([=] {
        void *block = opaque(malloc(64));
        std::size_t usable = malloc_usable_size(block);
        free(block);
        foretell("calmalloc: double free of %p: a block of %zu bytes that is already free", block,
                 usable);
        opaque(realloc(opaque(block), opaque(0)));
    });
}

TEST(UsableSizeOfAFreedBlock, StopsTheProgram)
{
    for (std::size_t size : {8, 64, 1000, 32768, 100000, 8 << 20})
        expect_stop([=] {
            void *block = opaque(malloc(size));
            std::size_t usable = malloc_usable_size(block);
            free(block);
            foretell("calmalloc: usable size of %p: a block of %zu bytes that is already free",
                     block, usable);
            opaque(malloc_usable_size(opaque(block)));
        });
}

} // namespace
