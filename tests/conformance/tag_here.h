/*
 * tag_here.h: what the C half of tag_test.cpp offers.
 */
#ifndef CALM_TESTS_TAG_HERE_H
#define CALM_TESTS_TAG_HERE_H

#include <calmalloc/tag.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Tags of two requests on one line, then of the next. */
void c_tags(uint64_t out[3]);

/* The tag of line 7 of a file called same_name. */
uint64_t c_tag_of_same_name(void);

/* One block from each macro, of 48 bytes. */
void c_blocks(void *out[4]);

#ifdef __cplusplus
}
#endif

#endif
