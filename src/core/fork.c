/*
 * fork.c: the heap's part in a fork: takes its locks, and repairs the child's heap.
 *
 * Owner: the thread that forks, in its turn. Design: docs/design/threads.md
 */
#include "core/depot.h"
#include "core/heap.h"
#include "core/purge_turn.h"
#include "core/sampled_small.h"
#include "core/thread.h"
#include "mem/span.h"
#include "os/lock.h"
#include "os/os.h"

/* Forks take turns; a fork that does not get its turn in time takes no lock. */
static struct lock fork_lock;
static _Atomic uint32_t fork_turns;
static _Atomic uint32_t forks_made;

/* State of the thread that forks. */
static _Thread_local struct {
    unsigned depth; /* a handler may fork inside */
    bool has_turn;
    bool has_purge, has_spans; /* whether it took these locks */
    bool is_quiet, was_alone;
    uint64_t signals; /* signals blocked before */
    uint32_t number;  /* of this fork among the process's */
} at_fork;

/* Waits while other forks have their turns. False: the holder does not come back. */
static bool fork_turn_begin(void)
{
    for (;;) { /* each turn is another thread's progress */
        uint32_t turns = load(&fork_turns, RELAXED);
        if (lock_acquire_or_fail(&fork_lock, RANK_FORK)) {
            fetch_add(&fork_turns, 1, RELAXED);
            return true;
        }
        if (turns == load(&fork_turns, RELAXED))
            return false;
        lock_forgive(&fork_lock); /* a waiter in a long queue may have given up on the holder */
    }
}

/*
 * Outermost lock first. Caches have no lock. Of the caches of threads that the child lacks, one
 * whose `edits` is 0 is kept and mended, any other is emptied without flushing its blocks
 * (registry_adopt()): a per-CPU cache in the fork, another when a thread or the purger takes it.
 * A holder that does not run is waited for up to a second. The child then mends that depot, or
 * leaves the lists of spans alone.
 */
static void fork_before(void)
{
    uint64_t signals = 0;
    bool is_quiet = os_signals_block(&signals);
    if (at_fork.depth++ > 0) {
        if (is_quiet)
            os_signals_restore(signals);
        return;
    }
    at_fork.is_quiet = is_quiet;
    at_fork.signals = signals;
    at_fork.was_alone = os_is_alone();
    at_fork.number = fetch_add(&forks_made, 1, RELAXED);
    lock_own_word(); /* the child needs the number */
    at_fork.has_turn = fork_turn_begin();
    if (!at_fork.has_turn)
        return;
    at_fork.has_purge = purge_fork_lock();
    depot_fork_lock();
    at_fork.has_spans = span_fork_lock();
}

static void fork_in_parent(void)
{
    if (at_fork.depth > 1) { /* a handler forked: the outer fork has the locks */
        at_fork.depth--;
        return;
    }
    if (at_fork.has_turn) {
        if (at_fork.has_spans)
            span_fork_unlock();
        depot_fork_unlock();
        if (at_fork.has_purge)
            purge_fork_unlock();
        lock_release(&fork_lock, RANK_FORK);
    }
    bool is_quiet = at_fork.is_quiet;
    uint64_t signals = at_fork.signals;
    at_fork.depth = 0;
    if (is_quiet)
        os_signals_restore(signals);
}

static void fork_in_child(void)
{
    bool is_locked = at_fork.has_turn;
    lock_start();
    if (--at_fork.depth > 0)
        return;
    lock_reset(&fork_lock);
    span_fork_reset(is_locked && at_fork.has_spans);
    depot_fork_reset(is_locked);
    purge_fork_reset(is_locked && at_fork.has_purge);
    heap_fork_reset();
    thread_fork_adopt(at_fork.was_alone);
    void (*on_fork)(uint32_t) = load(&sampled_on_fork, RELAXED);
    if (on_fork != NULL)
        on_fork(at_fork.number);
    if (at_fork.is_quiet)
        os_signals_restore(at_fork.signals);
}

void heap_install_fork_hooks(void)
{
    static _Atomic bool is_installed;
    if (!load(&is_installed, RELAXED) && !exchange(&is_installed, true, ACQ_REL))
        os_on_fork(fork_before, fork_in_parent, fork_in_child);
}
