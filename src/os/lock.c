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

void lock_wait(struct lock *lock)
{
    if (lock_look(lock))
        return;
    /* L2 acquire after a sleep: leaves the mark WAITED, since others may sleep too; pairs with L3.
     */
    while (exchange(&lock->state, LOCK_WAITED, ACQUIRE) != LOCK_FREE)
        os_wait(&lock->state, LOCK_WAITED, UINT64_MAX);
}
