/*
 * rows_test.cpp: core/rows.c where cohorts share addresses; rows_apart_test.cpp has the rest.
 */
#include <gtest/gtest.h>

#include "../heap_support.h"

TEST(Rows, SharedRowsAreHomesAndCohortsAndNobodyOwnsUnits)
{
    ASSERT_TRUE(heap_start());
    ASSERT_FALSE(rows_are_separate);
    unsigned first = 1;
    EXPECT_EQ(rows_of(3 << CLASS_BITS | 1, &first), static_cast<unsigned>(ROWS_SHARED));
    EXPECT_EQ(first, 0u);
    EXPECT_EQ(row_owner(3 << CLASS_BITS | 1), 0u);
    void *block = heap_alloc_slow(100, 3 * COHORT_ENTRY_BYTES);
    EXPECT_EQ(region.tags[region_chunk(block)].owner, 0u);
    heap_free(block);
    EXPECT_EQ(span_owned_bytes(), 0u);
}
