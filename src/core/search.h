/*
 * search.h: a search for one block that may take so many steps, of a word or an entry each.
 *
 * Who frees a block that begins with the mark has the library search for it, so what the search may
 * cost is bounded (core/misuse_search.c). One that runs out of steps has not found the block.
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
