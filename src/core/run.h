/*
 * run.h: where to cut an array of free blocks so that neighbours stay together.
 *
 * A run is blocks that lie side by side and were freed in address order, up or down. Passed on
 * whole, a run is allocated in that order again, and the processor prefetches each line. A run that
 * was cut stays cut, since batches are popped newest first: after some hundred rounds no two
 * neighbours would be left.
 *
 * Reasons and figures: docs/decisions/threads.md
 */
#ifndef CALM_CORE_RUN_H
#define CALM_CORE_RUN_H

#include "base/atomic.h"
#include "base/attr.h"

enum {
    RUN_BLOCKS_MIN = 64, /* smallest flush to adjust; below it runs are within RUN_SCAN_MAX */
    RUN_SCAN_MAX = 55,   /* slots to search for an end of a run */
};

/* Whether a run begins at the slot: its block and the one in the slot below, which may be NULL, are
 * not neighbours. */
ALWAYS_INLINE bool run_begins(void *_Atomic *slot, size_t bytes)
{
    uintptr_t apart = (uintptr_t)load(&slot[0], RELAXED) - (uintptr_t)load(&slot[-1], RELAXED);
    return apart != bytes && apart != -bytes;
}

/* How many blocks just below `end`, at most `most`, form one run in one chunk. */
ALWAYS_INLINE size_t run_length(void *_Atomic *end, size_t most, size_t bytes)
{
    if (run_begins(&end[-1], bytes))
        return 1;
    uintptr_t newest = (uintptr_t)load(&end[-1], RELAXED), next = newest;
    uintptr_t step = newest - (uintptr_t)load(&end[-2], RELAXED);
    size_t chunk = step == bytes ? newest % CHUNK_BYTES : CHUNK_BYTES - 1 - newest % CHUNK_BYTES;
    most = size_min(most, chunk / bytes + 1);
    void *_Atomic *slot = end - 1, *_Atomic *last = end - most;
    while (slot - 4 >= last && (uintptr_t)load(slot - 1, RELAXED) == next - step &&
           (uintptr_t)load(slot - 2, RELAXED) == next - 2 * step &&
           (uintptr_t)load(slot - 3, RELAXED) == next - 3 * step &&
           (uintptr_t)load(slot - 4, RELAXED) == next - 4 * step) {
        slot -= 4;
        next -= 4 * step;
    }
    for (; slot > last && (uintptr_t)load(slot - 1, RELAXED) == next - step; slot--)
        next -= step;
    return (size_t)(end - slot);
}

/* By how many slots, at most `most`, to move a cut so that it splits no run; `way` is 1 for up, -1
 * for down. 0 if every cut in reach splits one. */
ALWAYS_INLINE size_t run_move(void *_Atomic *cut, ptrdiff_t way, size_t most, size_t bytes)
{
    for (size_t slots = 0; slots <= most && slots < RUN_SCAN_MAX; slots++)
        if (run_begins(cut + way * (ptrdiff_t)slots, bytes))
            return slots;
    return 0;
}

#endif
