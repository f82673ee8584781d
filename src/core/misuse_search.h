/*
 * misuse_search.h: whether a block lies free; the exact check behind a suspicion.
 */
#ifndef CALM_CORE_MISUSE_SEARCH_H
#define CALM_CORE_MISUSE_SEARCH_H

#include "base/attr.h"

/*
 * Whether the block of a bin lies in a cache, a batch or a depot. Searches that find nothing may
 * take MISUSE_STEPS_MAX steps together in the life of the process; then each ends after
 * MISUSE_STEPS_A_SEARCH, and may miss a block that is free.
 */
enum { MISUSE_STEPS_MAX = 1 << 16, MISUSE_STEPS_A_SEARCH = 64 };
bool misuse_is_free(const void *block, unsigned bin);

/* Made so far. */
size_t misuse_steps(void);

#endif
