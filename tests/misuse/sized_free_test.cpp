/*
 * sized_free_test.cpp: a free that is told a size which fits neither the block nor a shrink in
 * place stops the program. What may be told: any size for which an allocation would have given a
 * block of this usable size.
 */
#include "blocks.h"
#include "child.h"

#include <calmalloc/adapter.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <new>
#include <string>

extern "C" {
void free_sized(void *block, std::size_t size);
void free_aligned_sized(void *block, std::size_t alignment, std::size_t size);
void sdallocx(void *block, std::size_t size, int flags);
}

namespace
{

struct way {
    const char *name;
    void (*release)(void *block, std::size_t size);
};

void PrintTo(const way &which, std::ostream *out)
{
    *out << which.name;
}

/* These also look whether a block begins at the pointer. */
const way WITH_EVERY_LOOK[] = {
    {"FreeSized", free_sized},
    {"FreeAlignedSized",
     [](void *block, std::size_t size) { free_aligned_sized(block, 16, size); }},
    {"AdapterChecked",
     [](void *block, std::size_t size) { calm_adapter_free_checked(block, size, 16); }},
    {"Sdallocx", [](void *block, std::size_t size) { sdallocx(block, size, 0); }},
    {"OperatorDelete", [](void *block, std::size_t size) { ::operator delete(block, size); }},
    {"OperatorDeleteArray",
     [](void *block, std::size_t size) { ::operator delete[](block, size); }},
    {"OperatorDeleteAligned",
     [](void *block, std::size_t size) { ::operator delete(block, size, std::align_val_t{16}); }},
    {"OperatorDeleteArrayAligned",
     [](void *block, std::size_t size) { ::operator delete[](block, size, std::align_val_t{16}); }},
};

/* To these a size that fits is proof of it. */
const way BY_SIZE[] = {
    {"Adapter", [](void *block, std::size_t size) { calm_adapter_free(block, size, 16); }},
    {"CalmFreeSized", calm_free_sized},
    {"CalmFreeAlignedSized",
     [](void *block, std::size_t size) { calm_free_aligned_sized(block, 16, size); }},
};

class SizedFree : public testing::TestWithParam<way>
{
};

std::string way_name(const testing::TestParamInfo<way> &info)
{
    return info.param.name;
}

void expect_refusal(std::size_t size, std::size_t told)
{
    expect_stop([=] {
        void *block = opaque(malloc(size));
        foretell("calmalloc: sized free of %p: has %zu, told %zu", block, malloc_usable_size(block),
                 told);
        SizedFree::GetParam().release(opaque(block), opaque(told));
    });
}

TEST_P(SizedFree, ToldMoreThanTheBlockHasStopsTheProgram)
{
    for (std::size_t size : {8, 64, 1000, 32768, 100000, 1 << 20})
        expect_refusal(
            size,
            malloc_usable_size(std::unique_ptr<void, void (*)(void *)>(malloc(size), free).get()) +
                1);
    expect_refusal(64, SIZE_MAX);
    expect_refusal(64, 1 << 20);
    expect_refusal(1 << 20, 2 << 20);
}

TEST_P(SizedFree, ToldAQuarterOfTheBlockStopsTheProgram)
{
    for (std::size_t size : {64, 1000, 32768, 1 << 20})
        expect_refusal(size, size / 4);
    expect_refusal(1 << 20, 64);
    expect_refusal(4096, 1);
}

TEST_P(SizedFree, ToldTheRightSizeGoesOn)
{
    expect_survival([] {
        for (std::size_t size = 0; size < 200000; size += 1 + size / 7)
            for (std::size_t told : {size, malloc_usable_size(opaque(malloc(size)))}) {
                void *block = opaque(malloc(size));
                GetParam().release(block, told);
            }
    });
}

TEST_P(SizedFree, ToldWhatReallocShrankToInPlaceGoesOn)
{
    expect_survival([] {
        for (std::size_t size = 32; size < 40000; size += size / 3)
            for (std::size_t less = size; less >= size / 2; less -= 1 + size / 8) {
                void *block = opaque(realloc(opaque(malloc(size)), less));
                GetParam().release(block, less);
            }
    });
}

/* The kernel moves the pages of so large a block that cannot grow where it is. Seen to fail where
 * half of the block's units, the last one begun, let it stay in place. */
TEST_P(SizedFree, ToldWhatReallocShrankAMovedBlockToGoesOn)
{
    expect_survival([] {
        const std::size_t unit = 65536, from = 600 * unit;
        for (std::size_t units : {1000, 1001})
            for (std::size_t less : {units * unit / 2 - 1, units / 2 * unit, units / 2 * unit + 1,
                                     (units / 2 - 1) * unit + 1}) {
                void *block = opaque(malloc(from)), *behind = opaque(malloc(from));
                block = opaque(realloc(block, units * unit));
                GetParam().release(opaque(realloc(block, less)), less);
                free(behind);
            }
    });
}

TEST_P(SizedFree, OfABlockThatIsAlreadyFreeStopsTheProgram)
{
    expect_stop([] {
        void *block = opaque(malloc(100));
        std::size_t usable = malloc_usable_size(block);
        GetParam().release(block, 100);
        foretell("calmalloc: double free of %p: a block of %zu bytes that is already free", block,
                 usable);
        GetParam().release(opaque(block), 100);
    });
}

class SizedFreeLooking : public SizedFree
{
};

/* Seen to fail with heap_free_own in free_sized and in calm_adapter_free_checked. */
TEST_P(SizedFreeLooking, InsideABlockToldItsSizeStopsTheProgram)
{
    expect_stop([] {
        auto *block = static_cast<char *>(opaque(malloc(48)));
        foretell("calmalloc: free of %p: 16 bytes inside a block of 48 bytes, not at its start",
                 static_cast<void *>(block + 16));
        GetParam().release(opaque(block + 16), 48);
    });
}

INSTANTIATE_TEST_SUITE_P(Way, SizedFree, testing::ValuesIn(WITH_EVERY_LOOK), way_name);
INSTANTIATE_TEST_SUITE_P(Way, SizedFreeLooking, testing::ValuesIn(WITH_EVERY_LOOK), way_name);
INSTANTIATE_TEST_SUITE_P(BySize, SizedFree, testing::ValuesIn(BY_SIZE), way_name);

/* Those that are told an alignment. Seen to fail without fits_alignment(). */
struct aligned_way {
    const char *name;
    void (*release)(void *block, std::size_t alignment, std::size_t size);
};

const aligned_way WITH_ALIGNMENT[] = {
    {"FreeAlignedSized", free_aligned_sized},
    {"AdapterChecked", [](void *block, std::size_t alignment,
                          std::size_t size) { calm_adapter_free_checked(block, size, alignment); }},
    {"Sdallocx", [](void *block, std::size_t alignment,
                    std::size_t size) { sdallocx(block, size, __builtin_ctzll(alignment)); }},
    {"OperatorDelete",
     [](void *block, std::size_t alignment, std::size_t size) {
         ::operator delete(block, size, std::align_val_t{alignment});
     }},
};

void PrintTo(const aligned_way &which, std::ostream *out)
{
    *out << which.name;
}

class AlignedFree : public testing::TestWithParam<aligned_way>
{
};

/* Those blocks that happen to be aligned so are of a class that never is. */
TEST_P(AlignedFree, ToldAnAlignmentThatSuchBlocksDoNotHaveStopsTheProgram)
{
    for (std::size_t at = 0; at < 40; at += 13)
        expect_stop([=] {
            company others(100, 40);
            void *block = others.blocks[at];
            foretell("calmalloc: sized free of %p: a block of %zu bytes, told an alignment of 32",
                     block, malloc_usable_size(block));
            GetParam().release(opaque(block), 32, 100);
        });
    expect_stop([] {
        char *block = static_cast<char *>(opaque(malloc(1 << 20)));
        std::size_t wrong = std::size_t{2}
                            << __builtin_ctzll(reinterpret_cast<std::uintptr_t>(block));
        foretell("calmalloc: sized free of %p: a block of %d bytes, told an alignment of %zu",
                 static_cast<void *>(block), 1 << 20, wrong);
        GetParam().release(opaque(block), wrong, 1 << 20);
    });
}

TEST_P(AlignedFree, ToldWhatWasAskedForGoesOn)
{
    expect_survival([] {
        for (std::size_t alignment = 1; alignment <= 4 << 20; alignment *= 2)
            for (std::size_t size = 1; size < 200000; size += 1 + size / 3)
                GetParam().release(opaque(calm_aligned_alloc(alignment, size)), alignment, size);
    });
}

INSTANTIATE_TEST_SUITE_P(Way, AlignedFree, testing::ValuesIn(WITH_ALIGNMENT),
                         [](const testing::TestParamInfo<aligned_way> &which) {
                             return std::string(which.param.name);
                         });

TEST(FreeAlignedSized, ToldAnAlignmentThatIsNoPowerOfTwoStopsTheProgram)
{
    expect_stop([] {
        void *block = opaque(aligned_alloc(64, 192));
        foretell("calmalloc: sized free of %p: a block of %zu bytes, told an alignment of 48",
                 block, malloc_usable_size(block));
        free_aligned_sized(opaque(block), opaque(std::size_t{48}), 192);
    });
}

/* What the adapters' free knows of an aligned block is its size and its alignment. */
TEST(AdapterFree, OfAlignedBlocksGoesOn)
{
    expect_survival([] {
        for (std::size_t alignment = 1; alignment <= 1 << 20; alignment *= 2)
            for (std::size_t size = 0; size < 100000; size += 1 + size) {
                void *block = opaque(calm_aligned_alloc(alignment, size));
                calm_adapter_free(block, size, alignment);
            }
    });
}

TEST(AdapterFree, OfNothingIsIgnored)
{
    expect_survival([] { calm_adapter_free(nullptr, 5, 1); });
}

} // namespace
