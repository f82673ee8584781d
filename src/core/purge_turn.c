/*
 * purge_turn.c: adds up what threads free, and starts the purger's steps.
 *
 * Owner: `owed` is each thread's own; the turn is the lock of rank RANK_PURGE, held for one step.
 * Design: docs/design/purge.md
 */
#include "core/purge_turn.h"

#include "core/above.h"
#include "core/class.h"
#include "os/lock.h"

enum {
    SWEEP_STEP_BYTES = 1024 * 1024, /* noted between two checks; only slabs are checked */
    SMALL_BYTES = 208,              /* frees of larger blocks purge in short slices */
};

struct purge_settings purge_settings = {
    .purges_on_free = true, .delay_ms = 50, .dirty_most = SIZE_MAX / 2, .limit = SIZE_MAX};

static struct lock purge_lock;
static _Atomic size_t noted_bytes; /* noted since the start */

/* The calling thread's frees since its last step. */
static _Thread_local struct {
    size_t bytes;
    bool is_short, is_held, is_step_due, is_sweep;
} owed;

bool purge_turn_begin(void)
{
    return lock_acquire_or_fail(&purge_lock, RANK_PURGE);
}

bool purge_turn_begin_soon(void)
{
    return load(&purge_lock.state, RELAXED) == LOCK_FREE &&
           lock_try_briefly(&purge_lock, RANK_PURGE);
}

void purge_turn_end(bool has_turn)
{
    if (has_turn)
        lock_release(&purge_lock, RANK_PURGE);
}

void purge_note(size_t bytes, size_t block_bytes)
{
    size_t before = fetch_add(&noted_bytes, bytes, RELAXED);
    size_t passed = before ^ (before + bytes); /* at least 2^n: a multiple of 2^n was passed */
    owed.bytes += bytes;
    if (likely(passed < PURGE_STEP_BYTES) || !load(&purge_settings.purges_on_free, RELAXED))
        return;
    owed.is_step_due = true;
    owed.is_short = block_bytes > SMALL_BYTES;
    bool is_of_slabs = block_bytes <= MEDIUM_MAX;
    owed.is_sweep = owed.is_sweep || (is_of_slabs && passed >= SWEEP_STEP_BYTES);
    if (!owed.is_held)
        purge_settle();
}

void purge_hold(void)
{
    owed.is_held = true;
}

void purge_end_hold(void)
{
    owed.is_held = false;
}

void purge_settle(void)
{
    if (likely(!owed.is_step_due))
        return;
    size_t bytes = owed.bytes;
    bool is_sweep_due = owed.is_sweep;
    owed.bytes = 0;
    owed.is_step_due = owed.is_sweep = false;
    above.purge(bytes, owed.is_short, is_sweep_due);
}

bool purge_fork_lock(void)
{
    return !lock_is_own(&purge_lock) && purge_turn_begin();
}

void purge_fork_unlock(void)
{
    purge_turn_end(true);
}

void purge_fork_reset(bool is_taken)
{
    lock_orphan(&purge_lock, is_taken);
}
