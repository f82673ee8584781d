/*
 * module_table_test.cpp: site/module_table.c finds the module of an address, and is bounded.
 */
#include <gtest/gtest.h>

#include "profile_support.h"

/* Seen to fail with `<` for `<=` in the search. */
TEST(ModuleTable, AnAddressBelongsToTheModuleWhoseRangeHasIt)
{
    auto table = calm_test::three_modules();
    const std::vector<std::pair<uintptr_t, size_t>> expected = {
        {0, 3},      {0xfff, 3},  {0x1000, 0}, {0x2fff, 0}, {0x3000, 1}, {0x3fff, 1},
        {0x4000, 3}, {0x6fff, 3}, {0x7000, 2}, {0x8fff, 2}, {0x9000, 3}, {UINTPTR_MAX, 3}};
    for (auto [address, index] : expected)
        EXPECT_EQ(module_table_find(table.get(), address), index) << std::hex << address;
    table->count = 0;
    EXPECT_EQ(module_table_find(table.get(), 0x1000), 0u);
}

TEST(ModuleTable, TheProcessesOwnModulesAreReadWithTheirPaths)
{
    auto table = std::make_unique<module_table>();
    module_table_read(table.get());
    ASSERT_EQ(table->error, 0);
    EXPECT_EQ(table->left_out, 0u);
    size_t own = module_table_find(table.get(), reinterpret_cast<uintptr_t>(&module_table_find));
    size_t libc = module_table_find(table.get(), reinterpret_cast<uintptr_t>(&getpid));
    ASSERT_LT(own, table->count);
    ASSERT_LT(libc, table->count);
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self);
    ASSERT_GT(length, 0);
    EXPECT_EQ(table->modules[own].path, std::string(self, static_cast<size_t>(length)));
    EXPECT_NE(own, libc);
}

/* Seen to fail without the count of those left out. */
TEST(ModuleTable, ModulesThatFindTheTableFullAreCounted)
{
    auto whole = std::make_unique<module_table>();
    module_table_read(whole.get());
    ASSERT_GT(whole->count, 1u);
    auto table = std::make_unique<module_table>();
    table->count = MODULES_MAX - 1;
    module_table_read(table.get());
    EXPECT_EQ(table->count, static_cast<size_t>(MODULES_MAX));
    EXPECT_EQ(table->left_out, whole->count - 1);
    EXPECT_STREQ(table->modules[MODULES_MAX - 1].path, whole->modules[0].path);

    auto wordless = std::make_unique<module_table>();
    wordless->words_used = MODULE_WORDS_BYTES - 3;
    module_table_read(wordless.get());
    EXPECT_EQ(wordless->count, 0u);
    EXPECT_EQ(wordless->left_out, whole->count);
}
