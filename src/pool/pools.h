/*
 * pools.h: which pools there are, so that the ordinary free can tell a pool's block from a foreign
 * pointer.
 */
#ifndef CALM_POOL_POOLS_H
#define CALM_POOL_POOLS_H

#include "base/atomic.h"
#include "base/attr.h"
#include "calmalloc/pool.h"

/* Entries of the table that were ever used. */
extern _Atomic uint32_t pools_used;

/* Enters a pool; false when CALM_POOLS_MAX are in. Removes it again. Any thread. */
bool pools_add(calm_pool *pool);
void pools_remove(calm_pool *pool);

/* The pool that has its blocks where `address` is, or NULL. Any thread; bounded by the number of
 * pools. The answer holds as long as the pool is not destroyed. */
calm_pool *pools_find_slow(const void *address);

ALWAYS_INLINE calm_pool *pools_find(const void *address)
{
    return load(&pools_used, RELAXED) == 0 ? NULL : pools_find_slow(address);
}

#endif
