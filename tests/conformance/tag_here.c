/*
 * tag_here.c: tag.h as C sees it.
 */
#include "tag_here.h"

void c_tags(uint64_t out[3])
{
    out[0] = CALM_HERE, out[1] = CALM_HERE;
    out[2] = CALM_HERE;
}

void c_blocks(void *out[4])
{
    out[0] = CALM_MALLOC_HERE(48);
    out[1] = CALM_CALLOC_HERE(3, 16);
    out[2] = CALM_REALLOC_HERE(NULL, 48);
    out[3] = CALM_ALIGNED_ALLOC_HERE(64, 48);
}

uint64_t c_tag_of_same_name(void)
{
#line 7 "same_name"
    return CALM_HERE;
}
