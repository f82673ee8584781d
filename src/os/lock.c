/*
 * lock.c: the slow half of lock.h: look a bounded number of times, then sleep in the kernel.
 */
#include "os/lock.h"

_Thread_local uint32_t lock_ranks_held;
_Atomic uint64_t os_failed_calls;

bool lock_look(struct lock *lock)
{
    for (unsigned look = 0; look < LOOKS_MAX; look++) {
        uint32_t expected = LOCK_FREE;
        if (load(&lock->state, RELAXED) == LOCK_FREE &&
            compare_swap(&lock->state, &expected, LOCK_HELD, ACQUIRE, RELAXED))
            return true;
        cpu_relax();
    }
    return false;
}

/* L2 acquire after a sleep: leaves the mark WAITED, since others may sleep too; pairs with L3. */
static bool take_after_sleep(struct lock *lock)
{
    return exchange(&lock->state, LOCK_WAITED, ACQUIRE) == LOCK_FREE;
}

void lock_wait(struct lock *lock)
{
    if (lock_look(lock))
        return;
    while (!take_after_sleep(lock))
        os_wait(&lock->state, LOCK_WAITED, UINT64_MAX);
}

/* Signals are blocked before the lock is taken, and let through again where it was not. */
static bool take_quietly(struct lock *lock, bool (*take)(struct lock *))
{
    uint64_t signals = 0;
    bool is_quiet = os_signals_block(&signals);
    bool is_taken = take(lock);
    if (is_taken) {
        lock->is_quiet = is_quiet;
        lock->signals = signals;
    } else if (is_quiet) {
        os_signals_restore(signals);
    }
    return is_taken;
}

bool lock_look_quietly(struct lock *lock)
{
    return take_quietly(lock, lock_look);
}

void lock_wait_quietly(struct lock *lock)
{
    if (lock_look_quietly(lock))
        return;
    while (!take_quietly(lock, take_after_sleep))
        os_wait(&lock->state, LOCK_WAITED, UINT64_MAX);
}

void lock_release_quiet(struct lock *lock)
{
    bool is_quiet = lock->is_quiet;
    uint64_t signals = lock->signals;
    lock_open(lock);
    if (is_quiet)
        os_signals_restore(signals);
}
