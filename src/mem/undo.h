/*
 * undo.h: undo log for a change that may stop halfway, as when a signal handler ends the thread
 * that makes it.
 *
 * Each word is saved before it is written. The thread that finds an unfinished change rolls it
 * back.
 *
 * Owner: the holder of the lock that guards the words. Program order of the stores is enough: one
 * thread changes and ends, and another rolls back after that.
 */
#ifndef CALM_MEM_UNDO_H
#define CALM_MEM_UNDO_H

#include "base/atomic.h"
#include "base/check.h"

enum { UNDO_WORDS = 64, UNDO_BYTES_MAX = 16 };

struct undo {
    _Atomic uint32_t count;
    struct {
        void *at;
        size_t size;
        char before[UNDO_BYTES_MAX];
    } words[UNDO_WORDS];
};

/* Saves `size` bytes before they are written. */
ALWAYS_INLINE void undo_keep(struct undo *undo, void *at, size_t size)
{
    uint32_t count = load(&undo->count, RELAXED);
    ASSERT(count < UNDO_WORDS && size <= UNDO_BYTES_MAX);
    undo->words[count].at = at;
    undo->words[count].size = size;
    __builtin_memcpy(undo->words[count].before, at, size);
    atomic_signal_fence(SEQ_CST);
    store(&undo->count, count + 1, RELAXED);
    atomic_signal_fence(SEQ_CST);
}

/* The change is complete: discards the log. */
ALWAYS_INLINE void undo_commit(struct undo *undo)
{
    atomic_signal_fence(SEQ_CST);
    store(&undo->count, 0, RELAXED);
    atomic_signal_fence(SEQ_CST);
}

/* Rolls back an incomplete change. */
static inline void undo_take_back(struct undo *undo)
{
    for (uint32_t i = load(&undo->count, RELAXED); i-- > 0;)
        __builtin_memcpy(undo->words[i].at, undo->words[i].before, undo->words[i].size);
    undo_commit(undo);
}

#endif
