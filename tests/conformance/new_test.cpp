/*
 * new_test.cpp: operator new and delete in all their forms, the new-handler, bad_alloc, and the
 * forms that only compilers call: with a hint of temperature, and returning the size together with
 * the block.
 */
#include "support.h"

#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <malloc.h>
#include <memory>
#include <new>
#include <string>
#include <vector>

/* The names as a compiler emits them; no header declares them. */
enum class __hot_cold_t : std::uint8_t;
void *operator new(std::size_t size, __hot_cold_t hint);
void *operator new[](std::size_t size, __hot_cold_t hint);
void *operator new(std::size_t size, const std::nothrow_t &, __hot_cold_t hint) noexcept;
void *operator new[](std::size_t size, const std::nothrow_t &, __hot_cold_t hint) noexcept;
void *operator new(std::size_t size, std::align_val_t alignment, __hot_cold_t hint);
void *operator new[](std::size_t size, std::align_val_t alignment, __hot_cold_t hint);
void *operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t &,
                   __hot_cold_t hint) noexcept;
void *operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t &,
                     __hot_cold_t hint) noexcept;

struct sized_block {
    void *block;
    std::size_t size;
};
extern "C" {
sized_block __size_returning_new(std::size_t size);
sized_block __size_returning_new_hot_cold(std::size_t size, __hot_cold_t hint);
sized_block __size_returning_new_aligned(std::size_t size, std::align_val_t alignment);
sized_block __size_returning_new_aligned_hot_cold(std::size_t size, std::align_val_t alignment,
                                                  __hot_cold_t hint);
}

namespace
{

const __hot_cold_t COLD = static_cast<__hot_cold_t>(0);
const __hot_cold_t HOT = static_cast<__hot_cold_t>(255);
const std::align_val_t BY_16 = std::align_val_t{16};
const std::align_val_t BY_4096 = std::align_val_t{4096};

/* Every allocating form, so that each rule is tested on each of them. */
struct form {
    const char *name;
    void *(*allocate)(std::size_t size);
    bool throws;
    std::size_t alignment;
};

void PrintTo(const form &which, std::ostream *out)
{
    *out << which.name;
}

const form FORMS[] = {
    {"Plain", [](std::size_t n) { return ::operator new(n); }, true, 16},
    {"Array", [](std::size_t n) { return ::operator new[](n); }, true, 16},
    {"Nothrow", [](std::size_t n) { return ::operator new(n, std::nothrow); }, false, 16},
    {"ArrayNothrow", [](std::size_t n) { return ::operator new[](n, std::nothrow); }, false, 16},
    {"Aligned", [](std::size_t n) { return ::operator new(n, BY_4096); }, true, 4096},
    {"ArrayAligned", [](std::size_t n) { return ::operator new[](n, BY_4096); }, true, 4096},
    {"AlignedNothrow", [](std::size_t n) { return ::operator new(n, BY_4096, std::nothrow); },
     false, 4096},
    {"ArrayAlignedNothrow",
     [](std::size_t n) { return ::operator new[](n, BY_4096, std::nothrow); }, false, 4096},
    {"Hot", [](std::size_t n) { return ::operator new(n, HOT); }, true, 16},
    {"ArrayHot", [](std::size_t n) { return ::operator new[](n, HOT); }, true, 16},
    {"NothrowCold", [](std::size_t n) { return ::operator new(n, std::nothrow, COLD); }, false, 16},
    {"ArrayNothrowCold", [](std::size_t n) { return ::operator new[](n, std::nothrow, COLD); },
     false, 16},
    {"AlignedHot", [](std::size_t n) { return ::operator new(n, BY_4096, HOT); }, true, 4096},
    {"ArrayAlignedHot", [](std::size_t n) { return ::operator new[](n, BY_4096, HOT); }, true,
     4096},
    {"AlignedNothrowCold",
     [](std::size_t n) { return ::operator new(n, BY_4096, std::nothrow, COLD); }, false, 4096},
    {"ArrayAlignedNothrowCold",
     [](std::size_t n) { return ::operator new[](n, BY_4096, std::nothrow, COLD); }, false, 4096},
    {"SizeReturning", [](std::size_t n) { return __size_returning_new(n).block; }, true, 16},
    {"SizeReturningHot", [](std::size_t n) { return __size_returning_new_hot_cold(n, HOT).block; },
     true, 16},
    {"SizeReturningAligned",
     [](std::size_t n) { return __size_returning_new_aligned(n, BY_4096).block; }, true, 4096},
    {"SizeReturningAlignedCold",
     [](std::size_t n) { return __size_returning_new_aligned_hot_cold(n, BY_4096, COLD).block; },
     true, 4096},
};

class OperatorNew : public testing::TestWithParam<form>
{
  protected:
    void TearDown() override
    {
        std::set_new_handler(nullptr);
    }

    /* Returns "a block", "null" or the kind of exception that came out. */
    static std::string outcome(std::size_t size)
    {
        try {
            void *block = GetParam().allocate(opaque(size));
            if (block == nullptr)
                return "null";
            free(block);
            return "a block";
        } catch (const std::bad_array_new_length &) {
            return "bad_array_new_length";
        } catch (const std::bad_alloc &) {
            return "bad_alloc";
        } catch (int value) {
            return "int " + std::to_string(value);
        }
    }

    static std::string failure()
    {
        return GetParam().throws ? "bad_alloc" : "null";
    }
};

std::string readable(const testing::TestParamInfo<form> &info)
{
    return info.param.name;
}

int handler_calls;
void *handler_reserve;

TEST_P(OperatorNew, GivesWritableBlocksOfEverySizeWithItsAlignment)
{
    for (std::size_t size : sizes_up_to(MIB)) {
        void *block = GetParam().allocate(size);
        ASSERT_NE(block, nullptr);
        EXPECT_TRUE(is_aligned(block, size > 8 ? GetParam().alignment : 8)) << size;
        EXPECT_GE(malloc_usable_size(block), size);
        pattern_write(block, size, 1);
        EXPECT_EQ(pattern_errors(block, size, 1), 0u);
        ::operator delete(block);
    }
}

TEST_P(OperatorNew, SizeZeroGivesDistinctBlocks)
{
    void *first = GetParam().allocate(opaque<std::size_t>(0));
    void *second = GetParam().allocate(opaque<std::size_t>(0));
    EXPECT_NE(first, nullptr);
    EXPECT_NE(second, nullptr);
    EXPECT_NE(first, second);
    ::operator delete(first);
    ::operator delete(second);
}

TEST_P(OperatorNew, FailsAsItsFormSaysWhenThereIsNoHandler)
{
    EXPECT_EQ(outcome(too_large()), failure());
    EXPECT_EQ(outcome(SIZE_MAX), failure());
    EXPECT_EQ(outcome(std::size_t{1} << 60), failure());
    EXPECT_EQ(outcome(100), "a block");
}

TEST_P(OperatorNew, CallsTheHandlerUntilItIsTakenAway)
{
    handler_calls = 0;
    std::set_new_handler([] {
        if (++handler_calls == 3)
            std::set_new_handler(nullptr);
    });
    EXPECT_EQ(outcome(too_large()), failure());
    EXPECT_EQ(handler_calls, 3);
}

TEST_P(OperatorNew, HandsOnABadAllocThatTheHandlerThrows)
{
    handler_calls = 0;
    std::set_new_handler([] {
        handler_calls++;
        throw std::bad_alloc();
    });
    EXPECT_EQ(outcome(too_large()), failure());
    EXPECT_EQ(handler_calls, 1);
}

TEST_P(OperatorNew, TheHandlerMayAllocateAndFree)
{
    handler_calls = 0;
    handler_reserve = malloc(1000);
    std::set_new_handler([] {
        free(std::exchange(handler_reserve, nullptr));
        free(malloc(5000));
        if (++handler_calls == 2)
            throw std::bad_alloc();
    });
    EXPECT_EQ(outcome(too_large()), failure());
    EXPECT_EQ(handler_calls, 2);
}

INSTANTIATE_TEST_SUITE_P(Form, OperatorNew, testing::ValuesIn(FORMS), readable);

class ThrowingOperatorNew : public OperatorNew
{
};

TEST_P(ThrowingOperatorNew, HandsOnWhateverElseTheHandlerThrows)
{
    std::set_new_handler([] { throw 42; });
    EXPECT_EQ(outcome(too_large()), "int 42");
}

std::vector<form> throwing_forms()
{
    std::vector<form> forms;
    for (const form &candidate : FORMS)
        if (candidate.throws)
            forms.push_back(candidate);
    return forms;
}

INSTANTIATE_TEST_SUITE_P(Form, ThrowingOperatorNew, testing::ValuesIn(throwing_forms()), readable);

TEST(OperatorNewAligned, EveryAlignmentWorks)
{
    for (std::size_t alignment = 1; alignment <= 16 * MIB; alignment *= 2)
        for (std::size_t size : {std::size_t{1}, alignment, alignment + 1}) {
            std::align_val_t by = std::align_val_t{alignment};
            void *block = ::operator new(size, by);
            EXPECT_TRUE(is_aligned(block, alignment));
            ::operator delete(block, by);
            block = ::operator new[](size, by);
            EXPECT_TRUE(is_aligned(block, alignment));
            ::operator delete[](block, by);
        }
}

TEST(OperatorDelete, EveryFormFreesItsBlock)
{
    for (std::size_t size : sizes_up_to(MIB)) {
        ::operator delete(::operator new(size));
        ::operator delete[](::operator new[](size));
        ::operator delete(::operator new(size), size);
        ::operator delete[](::operator new[](size), size);
        ::operator delete(::operator new(size, std::nothrow), std::nothrow);
        ::operator delete[](::operator new[](size, std::nothrow), std::nothrow);
        ::operator delete(::operator new(size, BY_16), BY_16);
        ::operator delete[](::operator new[](size, BY_16), BY_16);
        ::operator delete(::operator new(size, BY_4096), size, BY_4096);
        ::operator delete[](::operator new[](size, BY_4096), size, BY_4096);
        ::operator delete(::operator new(size, BY_4096, std::nothrow), BY_4096, std::nothrow);
        ::operator delete[](::operator new[](size, BY_4096, std::nothrow), BY_4096, std::nothrow);
    }
}

TEST(OperatorDelete, OfNullDoesNothing)
{
    void *null = opaque<void *>(nullptr);
    ::operator delete(null);
    ::operator delete[](null);
    ::operator delete(null, 10);
    ::operator delete[](null, 10);
    ::operator delete(null, std::nothrow);
    ::operator delete[](null, std::nothrow);
    ::operator delete(null, BY_16);
    ::operator delete[](null, BY_16);
    ::operator delete(null, 10, BY_16);
    ::operator delete[](null, 10, BY_16);
    ::operator delete(null, BY_16, std::nothrow);
    ::operator delete[](null, BY_16, std::nothrow);
}

TEST(SizeReturningNew, ReturnsTheUsableSize)
{
    for (std::size_t size : sizes_up_to(MIB)) {
        for (sized_block got :
             {__size_returning_new(size), __size_returning_new_hot_cold(size, HOT)}) {
            EXPECT_GE(got.size, size);
            EXPECT_EQ(got.size, malloc_usable_size(got.block)) << size;
            pattern_write(got.block, got.size, 1);
            ::operator delete(got.block, got.size);
        }
        for (sized_block got : {__size_returning_new_aligned(size, BY_4096),
                                __size_returning_new_aligned_hot_cold(size, BY_4096, COLD)}) {
            EXPECT_TRUE(is_aligned(got.block, 4096));
            EXPECT_EQ(got.size, malloc_usable_size(got.block)) << size;
            ::operator delete(got.block, got.size, BY_4096);
        }
    }
}

TEST(CxxLibrary, ContainersAndExceptionsUseTheHeapAsEver)
{
    struct alignas(512) wide {
        char bytes[512];
    };
    for (int round = 0; round < 100; round++) {
        std::vector<std::string> strings;
        for (int i = 0; i < 1000; i++)
            strings.push_back(std::string(static_cast<std::size_t>(i), 'x'));
        EXPECT_EQ(strings.back().size(), 999u);
        auto aligned = std::make_unique<wide[]>(7);
        EXPECT_TRUE(is_aligned(aligned.get(), 512));
        auto shared = std::make_shared<std::vector<wide>>(3);
        EXPECT_TRUE(is_aligned(shared->data(), 512));
        EXPECT_THROW(throw std::string(5000, 'y'), std::string);
    }
}

} // namespace
