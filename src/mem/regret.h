/*
 * regret.h: how much is purged and then taken again within a second, in pages or in units: purged
 * in vain. A program that slept in between purged for a reason, so who takes looks at the clock,
 * where something was purged lately.
 *
 * Owner: any thread. All of it is a guess: what is taken is held against what was purged lately,
 * whichever pages those were, and threads may count over each other.
 */
#ifndef CALM_MEM_REGRET_H
#define CALM_MEM_REGRET_H

#include "base/atomic.h"
#include "base/bits.h"
#include "os/os.h"

enum { REGRET_WINDOW_MS = 1000 };

struct regret {
    _Atomic size_t lately; /* purged in this window, and not taken again yet */
    _Atomic size_t taken;  /* again, and not held against the clock yet      */
    _Atomic size_t sum;    /* purged in vain                                 */
    _Atomic uint64_t purged_ms;
};

/* After what was taken: without a lock, since some kernels' clocks are system calls. */
static inline void regret_settle(struct regret *regret)
{
    if (likely(load(&regret->taken, RELAXED) == 0))
        return;
    size_t taken = exchange(&regret->taken, 0, RELAXED);
    if (os_clock_ms() - load(&regret->purged_ms, RELAXED) < REGRET_WINDOW_MS)
        fetch_add(&regret->sum, taken, RELAXED);
    else
        store(&regret->lately, 0, RELAXED);
}

/* Without a lock. */
static inline void regret_note_purged(struct regret *regret, size_t count)
{
    if (count == 0)
        return;
    regret_settle(regret);
    fetch_add(&regret->lately, count, RELAXED);
    store(&regret->purged_ms, os_clock_ms(), RELAXED);
}

/* Under any lock; regret_settle() comes after it. */
static inline void regret_note_taken(struct regret *regret, size_t count)
{
    size_t lately = load(&regret->lately, RELAXED), again = size_min(lately, count);
    if (likely(again == 0))
        return;
    store(&regret->lately, lately - again, RELAXED);
    fetch_add(&regret->taken, again, RELAXED);
}

static inline void regret_end_window(struct regret *regret)
{
    store(&regret->lately, 0, RELAXED);
}

#endif
