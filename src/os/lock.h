/*
 * lock.h: a one-word lock that sleeps in the kernel after a bounded spin.
 *
 * States: FREE -> HELD (acquire, one compare-and-swap) -> FREE (release). A thread that finds the
 * lock held spins LOOKS_MAX times, marks it WAITED and sleeps; a release of WAITED wakes one
 * sleeper. docs/protocols/lock.md has the table. Locks are taken in rising rank only; CHECKS 2
 * keeps a mask of the ranks that a thread holds and stops on a wrong order.
 *
 * The word names the holder. A thread that finds that the holder has ended inherits the lock and
 * learns so, to repair the guarded data. A signal handler that never returns keeps its thread's
 * lock, like a stopped thread.
 */
#ifndef CALM_OS_LOCK_H
#define CALM_OS_LOCK_H

#include "base/atomic.h"
#include "base/attr.h"
#include "base/check.h"
#include "os/os.h"

/* Outermost first. Fork holds several depots at once; moving a slab holds two, one of them by
 * lock_try. */
enum lock_rank { RANK_FORK, RANK_SHORTAGE, RANK_PURGE, RANK_DEPOT, RANK_SPAN };

/* How long to wait for a holder. SHORT: enough for a holder that runs or is about to. LONG: a
 * second, for callers that could otherwise only fail. */
enum lock_patience { PATIENCE_NONE, PATIENCE_SHORT, PATIENCE_LONG };

/* The state is the holder's thread number, plus LOCK_WAITED if marked. Thread numbers are far below
 * LOCK_ELSEWHERE, which is added to the number of a child like vfork's. LOCK_RETIRED, such a child
 * without a number, is held for good, or by a child that cannot see its parent: nobody inherits
 * it. */
enum { LOCK_FREE, LOOKS_MAX = 100 };
#define LOCK_WAITED (UINT32_C(1) << 31)
#define LOCK_ELSEWHERE (UINT32_C(1) << 30)
#define LOCK_RETIRED LOCK_ELSEWHERE

struct lock {
    _Atomic uint32_t state;
    _Atomic uint8_t given_up; /* the patience that the holder has outlasted; release clears it */

    /* The last holder ended, so the guarded data may be half changed. The next holder clears this.
     */
    _Atomic bool is_inherited;
};

extern _Thread_local uint32_t lock_ranks_held;
extern _Thread_local uint32_t lock_holder_id; /* of the calling thread; 0: not known yet */
extern _Thread_local uint32_t lock_id_before; /* in a fork's child: this thread's, in the parent */
extern _Thread_local uint32_t lock_lent;      /* calls that lent the thread to a child */

uint32_t lock_learn_id(void);

/* Call around a system call whose child may run on the calling thread's variables, under another
 * number. */
ALWAYS_INLINE void lock_lend(void)
{
    lock_lent++;
}

ALWAYS_INLINE void lock_end_lending(void)
{
    if (lock_lent != 0) /* 0: a child with separate thread-local storage */
        lock_lent--;
}

ALWAYS_INLINE uint32_t lock_own_word(void)
{
    return likely(lock_holder_id != 0 && lock_lent == 0) ? lock_holder_id : lock_learn_id();
}

ALWAYS_INLINE void lock_note_acquired(enum lock_rank rank)
{
    if (CHECKS >= 2) {
        ASSERT((lock_ranks_held >> rank) == 0 ||
               (rank == RANK_DEPOT && (lock_ranks_held >> rank) == 1));
        lock_ranks_held |= 1u << rank;
    }
}

/* Takes the lock if it is free. */
ALWAYS_INLINE bool lock_try(struct lock *lock, enum lock_rank rank)
{
    uint32_t expected = LOCK_FREE;
    /* L1 acquire: pairs with L3 release. */
    if (!compare_swap(&lock->state, &expected, lock_own_word(), ACQUIRE, RELAXED))
        return false;
    lock_note_acquired(rank);
    return true;
}

/* Takes the lock if it becomes free within a bounded spin; never sleeps. */
bool lock_spin(struct lock *lock);

ALWAYS_INLINE bool lock_try_briefly(struct lock *lock, enum lock_rank rank)
{
    if (likely(lock_try(lock, rank)))
        return true;
    if (!lock_spin(lock))
        return false;
    lock_note_acquired(rank);
    return true;
}

/* Sleeps a bounded time. False: the holder does not run. A holder that outlasted this patience
 * before is not waited for again; a thread never waits for itself. */
bool lock_wait_patiently(struct lock *lock, enum lock_rank rank, enum lock_patience patience);

ALWAYS_INLINE bool lock_try_patiently(struct lock *lock, enum lock_rank rank,
                                      enum lock_patience patience)
{
    if (!lock_wait_patiently(lock, rank, patience))
        return false;
    lock_note_acquired(rank);
    return true;
}

/* Like lock_acquire(), for at most a second. */
ALWAYS_INLINE bool lock_acquire_or_fail(struct lock *lock, enum lock_rank rank)
{
    return lock_try_briefly(lock, rank) || lock_try_patiently(lock, rank, PATIENCE_LONG);
}

void lock_wait(struct lock *lock);

ALWAYS_INLINE void lock_acquire(struct lock *lock, enum lock_rank rank)
{
    if (likely(lock_try(lock, rank)))
        return;
    lock_wait(lock);
    lock_note_acquired(rank);
}

/* Lets threads wait for the holder again. */
ALWAYS_INLINE void lock_forgive(struct lock *lock)
{
    store(&lock->given_up, PATIENCE_NONE, RELAXED);
}

ALWAYS_INLINE void lock_release(struct lock *lock, enum lock_rank rank)
{
    if (CHECKS >= 2)
        lock_ranks_held &= ~(1u << rank);
    if (unlikely(load(&lock->given_up, RELAXED) != PATIENCE_NONE))
        lock_forgive(lock);
    /* L3 release: publishes the guarded data; pairs with L1 and L2. */
    if (unlikely((exchange(&lock->state, LOCK_FREE, RELEASE) & LOCK_WAITED) != 0))
        os_wake(&lock->state, 1);
}

/* Whether the last holder ended while it held the lock. The new holder calls this once. */
ALWAYS_INLINE bool lock_was_inherited(struct lock *lock)
{
    if (likely(!load(&lock->is_inherited, RELAXED)))
        return false;
    store(&lock->is_inherited, false, RELAXED);
    return true;
}

/* LOCK_FREE, or the holder's number. */
ALWAYS_INLINE uint32_t lock_holder(const struct lock *lock)
{
    return load(&lock->state, RELAXED) & ~LOCK_WAITED;
}

/* Whether the calling thread holds the lock already: it runs a handler of a signal that interrupted
 * the holder. In a fork's child, the lock stays the thread's, under its new number. */
ALWAYS_INLINE bool lock_is_own(struct lock *lock)
{
    return lock_holder(lock) == lock_own_word();
}

/* Call before the first lock, and in a fork's child, where thread numbers differ. */
void lock_start(void);

/* For a fork's child, where this thread is the holder and no sleepers exist. */
ALWAYS_INLINE void lock_reset(struct lock *lock)
{
    lock_forgive(lock);
    store(&lock->state, LOCK_FREE, RELAXED);
}

/* In a fork's child: marks the lock as held for ever by a thread of the parent, so that no thread
 * waits for it. */
ALWAYS_INLINE void lock_retire(struct lock *lock)
{
    store(&lock->given_up, PATIENCE_LONG, RELAXED);
    store(&lock->state, LOCK_RETIRED, RELAXED);
}

/* In a fork's child: lock_reset() of a lock that the fork took or did not take. If it did not, the
 * holder may be the handler that forked, which keeps the lock, or a thread of the parent, which may
 * have been in the middle of a change. */
ALWAYS_INLINE void lock_orphan(struct lock *lock, bool is_taken)
{
    uint32_t holder = lock_holder(lock);
    bool is_own = !is_taken && holder != LOCK_FREE && holder == lock_id_before;
    if (!is_taken && !is_own && holder != LOCK_FREE)
        store(&lock->is_inherited, true, RELAXED);
    lock_reset(lock);
    if (is_own)
        store(&lock->state, lock_own_word(), RELAXED);
}

#endif
