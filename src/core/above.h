/*
 * above.h: the three calls that lower parts of core make of higher ones, in one table.
 *
 * Files of core are a stack of parts, and include those below (CORE_PARTS in tools/check_style.py).
 * What must go up goes through here, so that whoever reads a lower part sees where it ends. The
 * table is constant, and whole before the first request: the heap fills it (core/heap.c).
 */
#ifndef CALM_CORE_ABOVE_H
#define CALM_CORE_ABOVE_H

#include "base/attr.h"

struct above {
    bool (*start)(void); /* heap_start() */

    /* limit_settle(), at the end of a request, when the thread has nothing in hand. */
    bool (*settle)(bool is_refused);

    /* purge_some(): a step, of a thread that freed `bytes` since its last one. */
    void (*purge)(size_t bytes, bool is_short, bool is_sweep_due);
};
extern HIDDEN const struct above above;

/* Bytes of the calling thread's request that passed the limit; 0: none did since above.settle(). */
extern HIDDEN _Thread_local size_t limit_passed_by;

/* At the end of a request that got `block`: whether it is to be tried again. */
ALWAYS_INLINE bool limit_ends(const void *block)
{
    return unlikely(limit_passed_by != 0) && above.settle(block == NULL) && block == NULL;
}

#endif
