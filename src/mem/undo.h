/*
 * undo.h: what words were before a change that may end halfway, as when a signal's handler ends the
 * thread that makes it.
 *
 * Each word is kept before it is written. Who finds a change that nobody will finish takes it back.
 *
 * Owner: whoever has the lock of what the words belong to. The order of the stores is the program's
 * own: one thread changes and ends, and another takes back after that.
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

/* Keeps `size` bytes, which are about to be written. */
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

/* The change is whole: nothing of it is taken back from now on. */
ALWAYS_INLINE void undo_commit(struct undo *undo)
{
    atomic_signal_fence(SEQ_CST);
    store(&undo->count, 0, RELAXED);
    atomic_signal_fence(SEQ_CST);
}

/* Takes back a change that is not whole. */
static inline void undo_take_back(struct undo *undo)
{
    for (uint32_t i = load(&undo->count, RELAXED); i-- > 0;)
        __builtin_memcpy(undo->words[i].at, undo->words[i].before, undo->words[i].size);
    undo_commit(undo);
}

#endif
