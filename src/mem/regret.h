/*
 * regret.h: how much is purged and then taken again before the window ends, in pages or in units:
 * purged in vain.
 *
 * Owner: any thread. All of it is a guess: what is taken is held against what was purged lately,
 * whichever pages those were, and threads may count over each other.
 */
#ifndef CALM_MEM_REGRET_H
#define CALM_MEM_REGRET_H

#include "base/atomic.h"
#include "base/bits.h"

struct regret {
    _Atomic size_t lately; /* purged in this window, and not taken again yet */
    _Atomic size_t sum;    /* purged in vain                                 */
};

static inline void regret_note_purged(struct regret *regret, size_t count)
{
    fetch_add(&regret->lately, count, RELAXED);
}

static inline void regret_note_taken(struct regret *regret, size_t count)
{
    size_t lately = load(&regret->lately, RELAXED), again = size_min(lately, count);
    if (likely(again == 0))
        return;
    store(&regret->lately, lately - again, RELAXED);
    fetch_add(&regret->sum, again, RELAXED);
}

static inline void regret_end_window(struct regret *regret)
{
    store(&regret->lately, 0, RELAXED);
}

#endif
