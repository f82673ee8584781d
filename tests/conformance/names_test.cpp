/*
 * names_test.cpp: every standard name resolves inside libcalmalloc, for the program and for the
 * libraries it uses.
 *
 * A name that is missing reaches the C library's heap without a word, and the block then meets our
 * free as a foreign pointer. So each name is looked up as the dynamic linker would, and the object
 * that defines it is asked for.
 */
#include "support.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <string>
#include <unistd.h>
#include <wchar.h>

namespace
{

const char *const C_NAMES[] = {
    "malloc",
    "calloc",
    "realloc",
    "free",
    "reallocarray",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "valloc",
    "pvalloc",
    "malloc_usable_size",
    "free_sized",
    "free_aligned_sized",
    "mallocx",
    "rallocx",
    "xallocx",
    "sallocx",
    "dallocx",
    "sdallocx",
    "nallocx",
    "malloc_trim",
    "mallinfo",
    "mallinfo2",
    "malloc_info",
    "malloc_stats",
    "mallopt",
    "cfree",
    "__libc_malloc",
    "__libc_calloc",
    "__libc_realloc",
    "__libc_free",
    "__libc_memalign",
    "__libc_valloc",
    "__libc_pvalloc",
};

const char *const NEW_AND_DELETE_NAMES[] = {
    "_Znwm",
    "_Znam",
    "_ZnwmRKSt9nothrow_t",
    "_ZnamRKSt9nothrow_t",
    "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
    "_ZdlPv",
    "_ZdaPv",
    "_ZdlPvm",
    "_ZdaPvm",
    "_ZdlPvRKSt9nothrow_t",
    "_ZdaPvRKSt9nothrow_t",
    "_ZdlPvSt11align_val_t",
    "_ZdaPvSt11align_val_t",
    "_ZdlPvmSt11align_val_t",
    "_ZdaPvmSt11align_val_t",
    "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    "_ZdaPvSt11align_val_tRKSt9nothrow_t",
};

const char *const COMPILER_NAMES[] = {
    "_Znwm12__hot_cold_t",
    "_Znam12__hot_cold_t",
    "_ZnwmRKSt9nothrow_t12__hot_cold_t",
    "_ZnamRKSt9nothrow_t12__hot_cold_t",
    "_ZnwmSt11align_val_t12__hot_cold_t",
    "_ZnamSt11align_val_t12__hot_cold_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t12__hot_cold_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t12__hot_cold_t",
    "__size_returning_new",
    "__size_returning_new_aligned",
    "__size_returning_new_hot_cold",
    "__size_returning_new_aligned_hot_cold",
};

std::string owner_of(const char *name)
{
    void *address = dlsym(RTLD_DEFAULT, name);
    if (address == nullptr)
        return "nobody";
    Dl_info info;
    if (dladdr(address, &info) == 0 || info.dli_fname == nullptr)
        return "an unknown object";
    return info.dli_fname;
}

class StandardName : public testing::TestWithParam<const char *>
{
};

std::string readable(const testing::TestParamInfo<const char *> &info)
{
    return info.param;
}

TEST_P(StandardName, ResolvesInsideLibcalmalloc)
{
    EXPECT_NE(owner_of(GetParam()).find("libcalmalloc"), std::string::npos)
        << GetParam() << " belongs to " << owner_of(GetParam());
}

INSTANTIATE_TEST_SUITE_P(C, StandardName, testing::ValuesIn(C_NAMES), readable);
INSTANTIATE_TEST_SUITE_P(Cxx, StandardName, testing::ValuesIn(NEW_AND_DELETE_NAMES), readable);
INSTANTIATE_TEST_SUITE_P(Compiler, StandardName, testing::ValuesIn(COMPILER_NAMES), readable);

/* The usable size of a foreign pointer is 0, so a block that has one is ours. */
void expect_ours_and_free(void *block, std::size_t size)
{
    ASSERT_NE(block, nullptr);
    EXPECT_GE(malloc_usable_size(block), size);
    free(block);
}

TEST(StandardNames, WhatTheCLibraryAllocatesForItsCallerIsOurs)
{
    expect_ours_and_free(strdup("a string"), 9);
    expect_ours_and_free(strndup("a string", 3), 4);
    expect_ours_and_free(wcsdup(L"wide"), 5 * sizeof(wchar_t));
    expect_ours_and_free(realpath("/", nullptr), 2);
    expect_ours_and_free(getcwd(nullptr, 0), 2);
    char *printed = nullptr;
    ASSERT_EQ(asprintf(&printed, "%0*d", 5000, 7), 5000);
    expect_ours_and_free(printed, 5001);
}

TEST(StandardNames, WhatAStreamGrowsForItsCallerIsOurs)
{
    char *text = nullptr;
    std::size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    ASSERT_NE(stream, nullptr);
    for (int i = 0; i < 100000; i++)
        ASSERT_GT(fprintf(stream, "%d\n", i), 0);
    ASSERT_EQ(fclose(stream), 0);
    EXPECT_EQ(length, 588890u);
    EXPECT_EQ(strncmp(text, "0\n1\n2\n", 6), 0);

    stream = fmemopen(text, length, "r");
    ASSERT_NE(stream, nullptr);
    char *line = nullptr;
    std::size_t capacity = 0;
    ASSERT_EQ(getline(&line, &capacity, stream), 2);
    ASSERT_GT(getdelim(&line, &capacity, 'x', stream), 588000);
    EXPECT_GE(malloc_usable_size(line), capacity);
    free(line);
    ASSERT_EQ(fclose(stream), 0);
    expect_ours_and_free(text, length + 1);
}

TEST(StandardNames, WhatADirectoryScanReturnsIsOurs)
{
    dirent **entries = nullptr;
    int count = scandir("/", &entries, nullptr, alphasort);
    ASSERT_GT(count, 2);
    for (int i = 0; i < count; i++)
        expect_ours_and_free(entries[i], 1);
    expect_ours_and_free(entries, static_cast<std::size_t>(count) * sizeof(dirent *));
}

} // namespace
