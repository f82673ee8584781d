/*
 * run.h: where an array of free blocks is cut, so that neighbours stay together.
 *
 * Blocks that lie side by side and were freed in the order of their addresses, up or down, are a
 * run. Handed over as they are they are allocated in that order again, and the processor fetches
 * each line before it is asked for. What was cut within a run does not come together again, since
 * batches are taken newest first: after some hundred rounds no two neighbours would be left.
 *
 * Why, and what it brings: docs/decisions/threads.md
 */
#ifndef CALM_CORE_RUN_H
#define CALM_CORE_RUN_H

#include "base/atomic.h"
#include "base/attr.h"

enum {
    RUN_BLOCKS_MIN = 64, /* that leave at once; with fewer, runs would be as short as the looks */
    RUN_LOOKS = 55,      /* slots to look at for an end that parts nothing */
};

/* Whether the block in a slot does not lie beside the one in the slot below, which may be NULL. */
ALWAYS_INLINE bool run_begins(void *_Atomic *slot, size_t bytes)
{
    uintptr_t apart = (uintptr_t)load(&slot[0], RELAXED) - (uintptr_t)load(&slot[-1], RELAXED);
    return apart != bytes && apart != -bytes;
}

/* How many of the blocks below `end`, at most `most`, lie side by side, up or down, and in one
 * chunk. */
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

/* By how many slots a cut must move, no more than `most`, to part no run; `way` is 1 for up, -1 for
 * down. 0 where every place does. */
ALWAYS_INLINE size_t run_move(void *_Atomic *cut, ptrdiff_t way, size_t most, size_t bytes)
{
    for (size_t slots = 0; slots <= most && slots < RUN_LOOKS; slots++)
        if (run_begins(cut + way * (ptrdiff_t)slots, bytes))
            return slots;
    return 0;
}

#endif
