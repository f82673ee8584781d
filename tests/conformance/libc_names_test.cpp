/*
 * libc_names_test.cpp: the C library's own second names, which some programs and interposers call
 * directly. Each does what its plain name does, on the same heap: blocks pass freely between both.
 */
#include "support.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

extern "C" {
void *__libc_malloc(std::size_t size);
void *__libc_calloc(std::size_t count, std::size_t size);
void *__libc_realloc(void *block, std::size_t size);
void __libc_free(void *block);
void *__libc_memalign(std::size_t alignment, std::size_t size);
void *__libc_valloc(std::size_t size);
void *__libc_pvalloc(std::size_t size);
}

namespace
{

TEST(LibcNames, MallocGivesBlocksThatFreeTakes)
{
    for (std::size_t size : sizes_up_to(4 * MIB)) {
        void *block = __libc_malloc(size);
        ASSERT_NE(block, nullptr);
        EXPECT_GE(malloc_usable_size(block), size);
        std::memset(block, 1, size);
        free(block);
    }
}

TEST(LibcNames, FreeTakesBlocksThatMallocGives)
{
    __libc_free(opaque<void *>(nullptr));
    for (std::size_t size : sizes_up_to(4 * MIB)) {
        void *block = malloc(size);
        ASSERT_NE(block, nullptr);
        errno = 55;
        __libc_free(block);
        EXPECT_EQ(errno, 55);
    }
}

TEST(LibcNames, CallocGivesZeroedBlocksAndChecksTheProduct)
{
    for (std::size_t size : sizes_up_to(4 * MIB)) {
        void *dirty = malloc(size * 2);
        ASSERT_NE(dirty, nullptr);
        std::memset(dirty, 0xCC, size * 2);
        free(dirty);
        void *block = __libc_calloc(2, size);
        ASSERT_NE(block, nullptr);
        EXPECT_EQ(nonzero_bytes(block, size * 2), 0u) << size;
        free(block);
    }
    errno = 0;
    EXPECT_EQ(__libc_calloc(opaque(SIZE_MAX), 2), nullptr);
    EXPECT_EQ(errno, ENOMEM);
}

TEST(LibcNames, ReallocKeepsTheContentsOfABlockOfMalloc)
{
    void *block = malloc(100);
    ASSERT_NE(block, nullptr);
    pattern_write(block, 100, 4);
    for (std::size_t size : {200, 50000, 3000000, 100}) {
        block = __libc_realloc(block, size);
        ASSERT_NE(block, nullptr);
        EXPECT_EQ(pattern_errors(block, 100, 4), 0u);
    }
    EXPECT_EQ(__libc_realloc(block, opaque<std::size_t>(0)), nullptr);
    block = __libc_realloc(opaque<void *>(nullptr), 10);
    EXPECT_NE(block, nullptr);
    free(block);
}

TEST(LibcNames, AlignedFormsAlign)
{
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (std::size_t alignment = 8; alignment <= 4 * MIB; alignment *= 2) {
        void *block = __libc_memalign(alignment, 100);
        ASSERT_NE(block, nullptr);
        EXPECT_TRUE(is_aligned(block, alignment));
        EXPECT_GE(malloc_usable_size(block), 100u);
        free(block);
    }
    void *block = __libc_valloc(100);
    EXPECT_TRUE(block != nullptr && is_aligned(block, page));
    free(block);
    block = __libc_pvalloc(page + 1);
    EXPECT_TRUE(block != nullptr && is_aligned(block, page));
    EXPECT_GE(malloc_usable_size(block), 2 * page);
    free(block);
}

TEST(LibcNames, SizesThatCannotBeHadFailWithEnomem)
{
    void *(*const by_size[])(std::size_t) = {__libc_malloc, __libc_valloc, __libc_pvalloc};
    for (auto allocate : by_size) {
        errno = 0;
        EXPECT_EQ(allocate(too_large()), nullptr);
        EXPECT_EQ(errno, ENOMEM);
    }
    errno = 0;
    EXPECT_EQ(__libc_memalign(64, too_large()), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(__libc_realloc(opaque<void *>(nullptr), too_large()), nullptr);
    EXPECT_EQ(errno, ENOMEM);
}

} // namespace
