/*
 * refault.h: counts refaults, in pages or units: memory that was purged and taken again within a
 * second, so the purge was in vain. A purge before a longer pause was worthwhile, so a thread that
 * takes recently purged memory reads the clock.
 *
 * Owner: any thread. The figures are estimates: taken memory counts against recently purged memory
 * whichever pages it consists of, and concurrent updates may be lost.
 */
#ifndef CALM_MEM_REFAULT_H
#define CALM_MEM_REFAULT_H

#include "base/atomic.h"
#include "base/bits.h"
#include "os/os.h"

enum { REFAULT_WINDOW_MS = 1000 };

struct refault_meter {
    _Atomic size_t lately; /* purged in this window and not taken again yet   */
    _Atomic size_t taken;  /* taken again and not compared with the clock yet */
    _Atomic size_t sum;    /* refaults                                        */
    _Atomic uint64_t purged_ms;
};

/* Call after taking memory, without a lock: some kernels' clocks are system calls. */
static inline void refault_settle(struct refault_meter *refaults)
{
    if (likely(load(&refaults->taken, RELAXED) == 0))
        return;
    size_t taken = exchange(&refaults->taken, 0, RELAXED);
    if (os_clock_ms() - load(&refaults->purged_ms, RELAXED) < REFAULT_WINDOW_MS)
        fetch_add(&refaults->sum, taken, RELAXED);
    else
        store(&refaults->lately, 0, RELAXED);
}

/* Call without a lock. */
static inline void refault_note_purged(struct refault_meter *refaults, size_t count)
{
    if (count == 0)
        return;
    refault_settle(refaults);
    fetch_add(&refaults->lately, count, RELAXED);
    store(&refaults->purged_ms, os_clock_ms(), RELAXED);
}

/* Call under any lock; call refault_settle() afterwards. */
static inline void refault_note_taken(struct refault_meter *refaults, size_t count)
{
    size_t lately = load(&refaults->lately, RELAXED), again = size_min(lately, count);
    if (likely(again == 0))
        return;
    store(&refaults->lately, lately - again, RELAXED);
    fetch_add(&refaults->taken, again, RELAXED);
}

static inline void refault_end_window(struct refault_meter *refaults)
{
    store(&refaults->lately, 0, RELAXED);
}

#endif
