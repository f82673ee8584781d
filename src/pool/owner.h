/*
 * owner.h: with CHECKS 2, stops a program in which two threads use a pool as its owner at once.
 *
 * The check cannot see whether two threads synchronised, so a change of owner is no error. An error
 * is a call that begins while another is inside. Each call lingers inside for a while, so that two
 * threads without synchronisation soon meet. A signal handler that interrupts a call counts as a
 * second thread.
 */
#ifndef CALM_POOL_OWNER_H
#define CALM_POOL_OWNER_H

#include "base/claim.h"
#include "pool/pool.h"

enum { OWNER_LINGERS = 20 };

ALWAYS_INLINE void owner_enter(calm_pool *pool)
{
    static const char words[] =
        "calmalloc: two threads allocate from one pool, or free as its owner, at once; give each a "
        "pool, or free by calm_pool_free_remote\n";
    if (CHECKS < 2)
        return;
    if (exchange(&pool->is_inside, 1, ACQUIRE) != 0)
        claim_stop(words, sizeof words - 1);
    for (unsigned i = 0; i < OWNER_LINGERS; i++)
        cpu_relax();
}

ALWAYS_INLINE void owner_leave(calm_pool *pool)
{
    if (CHECKS >= 2)
        store(&pool->is_inside, 0, RELEASE);
}

#endif
