/*
 * above.h: the three calls from lower parts of core to higher ones, in one table.
 *
 * Files of core are a stack of parts and include only parts below (CORE_PARTS in
 * tools/check_style.py). Upward calls go through this table, so that a reader of a lower part sees
 * where that part ends. The table is constant, and filled before the first request (core/heap.c).
 */
#ifndef CALM_CORE_ABOVE_H
#define CALM_CORE_ABOVE_H

#include "base/attr.h"

struct above {
    bool (*start)(void); /* heap_start() */

    /* limit_settle(), at the end of a request, when the thread holds nothing. */
    bool (*settle)(bool is_refused);

    /* purge_some(): a purge step, by a thread that freed `bytes` since its last step. */
    void (*purge)(size_t bytes, bool is_short, bool is_sweep_due);
};
extern HIDDEN const struct above above;

/* Bytes of the calling thread's request that exceeded the limit. 0: none since above.settle(). */
extern HIDDEN _Thread_local size_t limit_passed_by;

/* At the end of a request that got `block`: whether to try again. */
ALWAYS_INLINE bool limit_should_retry(const void *block)
{
    return unlikely(limit_passed_by != 0) && above.settle(block == NULL) && block == NULL;
}

#endif
