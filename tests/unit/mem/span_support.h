/*
 * span_support.h: what tests of spans begin with.
 */
#ifndef CALM_TESTS_SPAN_SUPPORT_H
#define CALM_TESTS_SPAN_SUPPORT_H

#include <gtest/gtest.h>

#include "../support.h"

/* Finds a place for the region and for owners' lists, once. */
inline void start_spans()
{
    struct os_facts facts;
    os_start(&facts);
    ASSERT_TRUE(region.base != nullptr || region_start(&facts) == 0);
    ASSERT_EQ(span_start_owners(facts.page_bytes), 0);
}

#endif
