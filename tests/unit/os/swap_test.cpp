/*
 * swap_test.cpp: os/linux/swap.c says which pages are in memory, and what is sent out keeps its
 * bytes. Whether it leaves is the machine's matter: tests/environment/cold.c.
 */
#include <gtest/gtest.h>

#include <sys/mman.h>

#include "../support.h"

namespace
{

/* Seen to fail with the entries of one page further, and with the first 64 read over and over. */
TEST(OsSwap, PresentAreThePagesThatWereTouched)
{
    struct os_facts facts;
    os_start(&facts);
    const size_t pages = 150;
    void *start = nullptr;
    ASSERT_EQ(os_reserve(pages * facts.page_bytes, facts.page_bytes, &start), 0);
    ASSERT_EQ(os_commit(start, pages * facts.page_bytes), 0);
    char *bytes = static_cast<char *>(start);
    for (size_t i = 0; i < pages; i += 7)
        bytes[i * facts.page_bytes] = 1;
    std::vector<uint8_t> present(pages, 9);
    ASSERT_EQ(os_present(start, pages * facts.page_bytes, present.data()), 0);
    for (size_t i = 0; i < pages; i++)
        EXPECT_EQ(present[i], i % 7 == 0 ? 1 : 0) << i;
    os_page_out(start, pages * facts.page_bytes);
    os_cool(start, pages * facts.page_bytes);
    for (size_t i = 0; i < pages; i++)
        EXPECT_EQ(bytes[i * facts.page_bytes], i % 7 == 0 ? 1 : 0) << i;
    EXPECT_EQ(os_release(start, pages * facts.page_bytes), 0);
}

} // namespace
