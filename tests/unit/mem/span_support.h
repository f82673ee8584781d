/*
 * span_support.h: what tests of spans begin with.
 */
#ifndef CALM_TESTS_SPAN_SUPPORT_H
#define CALM_TESTS_SPAN_SUPPORT_H

#include <gtest/gtest.h>

#include "../support.h"

/* Finds a place for the region, once, and lets owners have lists. */
inline void start_spans()
{
    struct os_facts facts;
    os_start(&facts);
    ASSERT_TRUE(region.base != nullptr || region_start(&facts) == 0);
    meta_start(256 * 1024 * 1024, facts.page_bytes);
}

#endif
