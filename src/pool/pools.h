/*
 * pools.h: the table of all pools, by which the heap's free tells a pool's block from a foreign
 * pointer.
 */
#ifndef CALM_POOL_POOLS_H
#define CALM_POOL_POOLS_H

#include "base/atomic.h"
#include "base/attr.h"
#include "calmalloc/pool.h"

/* Entries in use are all below this index; it only grows. */
extern _Atomic uint32_t pools_used;

/* Add and remove a pool. False: CALM_POOLS_MAX pools exist. Any thread. */
bool pools_add(calm_pool *pool);
void pools_remove(calm_pool *pool);

/* The pool whose blocks' range contains `address`, or NULL. Any thread; cost bounded by the number
 * of pools. The result is valid until the pool is destroyed. */
calm_pool *pools_find_slow(const void *address);

ALWAYS_INLINE calm_pool *pools_find(const void *address)
{
    return load(&pools_used, RELAXED) == 0 ? NULL : pools_find_slow(address);
}

#endif
