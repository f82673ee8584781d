/*
 * search.h: a bounded search for one block; a step reads one word or entry.
 *
 * A program that frees a block which begins with the mark makes the library search for the block,
 * so the cost is bounded (core/misuse_search.c). A search that runs out of steps has not found the
 * block.
 */
#ifndef CALM_CORE_SEARCH_H
#define CALM_CORE_SEARCH_H

#include "base/attr.h"

struct search {
    const void *block;
    size_t left; /* steps */
};

ALWAYS_INLINE struct search search_unbounded(const void *block)
{
    struct search search = {block, SIZE_MAX};
    return search;
}

/* False: no step is left. */
ALWAYS_INLINE bool search_step(struct search *search)
{
    if (unlikely(search->left == 0))
        return false;
    search->left--;
    return true;
}

#endif
