/*
 * misuse_search.h: whether a block is free: the exact check behind a suspicion.
 */
#ifndef CALM_CORE_MISUSE_SEARCH_H
#define CALM_CORE_MISUSE_SEARCH_H

#include "base/attr.h"

/*
 * Whether the bin's block is in a cache, a batch or a depot. Searches that find nothing share
 * MISUSE_STEPS_MAX steps in the life of the process; after that each ends after
 * MISUSE_STEPS_A_SEARCH, and may miss a free block.
 */
enum { MISUSE_STEPS_MAX = 1 << 16, MISUSE_STEPS_A_SEARCH = 64 };
bool misuse_is_free(const void *block, unsigned bin);

/* Steps of all searches so far. */
size_t misuse_steps(void);

#endif
