/*
 * lock.h: a lock of one word that sleeps in the kernel after a bounded number of looks.
 *
 * States: FREE -> HELD (acquire, one compare-and-swap) -> FREE (release); a thread that finds it
 * held looks LOOKS_MAX times, marks it WAITED and sleeps; a release of WAITED wakes one sleeper.
 * docs/protocols/lock.md has the table. Locks are taken in rising rank only; CHECKS 2 keeps a mask
 * of what a thread holds and stops on a wrong order.
 *
 * The word names the holder. Who finds that the holder has ended takes the lock over, and is told,
 * to mend what it guards. A handler that never returns keeps its thread's lock as a thread that is
 * stopped does.
 */
#ifndef CALM_OS_LOCK_H
#define CALM_OS_LOCK_H

#include "base/atomic.h"
#include "base/attr.h"
#include "base/check.h"
#include "os/os.h"

/* Outermost first. Several depots are held at once by fork, and two, one of them only tried, where
 * a slab moves. */
enum lock_rank { RANK_FORK, RANK_PURGE, RANK_DEPOT, RANK_SPAN };

/* How long a holder is waited for: long enough for one that runs, or is about to; or, where else
 * the caller could only fail, a second. */
enum lock_patience { PATIENCE_NONE, PATIENCE_SHORT, PATIENCE_LONG };

/* The holder's thread number, to which LOCK_WAITED is added. Numbers of threads are far below
 * LOCK_ELSEWHERE, which is added to that of a child like vfork's. LOCK_RETIRED is held by nobody,
 * and for ever. */
enum { LOCK_FREE, LOOKS_MAX = 100 };
#define LOCK_WAITED (UINT32_C(1) << 31)
#define LOCK_ELSEWHERE (UINT32_C(1) << 30)
#define LOCK_RETIRED LOCK_ELSEWHERE

struct lock {
    _Atomic uint32_t state;
    _Atomic uint8_t given_up; /* the patience that the holder has outlasted; it clears this */

    /* What the lock guards may be half changed: its last holder ended. The next one clears this. */
    _Atomic bool is_inherited;
};

extern _Thread_local uint32_t lock_ranks_held;
extern _Thread_local uint32_t lock_holder_id; /* of the calling thread; 0: not asked for yet */
extern _Thread_local uint32_t lock_id_before; /* of a fork's only thread, in the parent */
extern _Thread_local uint32_t lock_lent;      /* calls that lent the thread to a child */

uint32_t lock_learn_id(void);

/* Around a call whose child may work on the calling thread's variables: its number is another. */
ALWAYS_INLINE void lock_lend(void)
{
    lock_lent++;
}

ALWAYS_INLINE void lock_end_lending(void)
{
    if (lock_lent != 0) /* 0: a child with thread-local storage of its own */
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

/* Takes the lock if it becomes free within a bounded number of looks; never sleeps. */
bool lock_look(struct lock *lock);

ALWAYS_INLINE bool lock_try_briefly(struct lock *lock, enum lock_rank rank)
{
    if (likely(lock_try(lock, rank)))
        return true;
    if (!lock_look(lock))
        return false;
    lock_note_acquired(rank);
    return true;
}

/* Sleeps a bounded time. False: its holder does not run. A holder that outlasted as much patience
 * before is not waited for again; the calling thread never waits for itself. */
bool lock_wait_patiently(struct lock *lock, enum lock_rank rank, enum lock_patience patience);

ALWAYS_INLINE bool lock_try_patiently(struct lock *lock, enum lock_rank rank,
                                      enum lock_patience patience)
{
    if (!lock_wait_patiently(lock, rank, patience))
        return false;
    lock_note_acquired(rank);
    return true;
}

/* As lock_acquire(), but for a second at most. */
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

/* Who holds it is waited for again. */
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
    /* L3 release: publishes what the lock guards; pairs with L1 and L2. */
    if (unlikely((exchange(&lock->state, LOCK_FREE, RELEASE) & LOCK_WAITED) != 0))
        os_wake(&lock->state, 1);
}

/* Whether the lock's last holder ended while it held it; asked by its new holder, once. */
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

/* Whether the calling thread holds the lock already: it is in a handler of a signal that came
 * while it did. In a fork's child the lock stays its own, under its new number, until it goes on.
 */
ALWAYS_INLINE bool lock_is_own(struct lock *lock)
{
    return lock_holder(lock) == lock_own_word();
}

/* Before the first lock, and in a fork's child, where thread numbers are others. */
void lock_start(void);

/* For a fork's child, where the holder is this thread and sleepers no longer exist. */
ALWAYS_INLINE void lock_reset(struct lock *lock)
{
    lock_forgive(lock);
    store(&lock->state, LOCK_FREE, RELAXED);
}

/* In a fork's child: held for ever by a thread that it does not have, and waited for by nobody. */
ALWAYS_INLINE void lock_retire(struct lock *lock)
{
    store(&lock->given_up, PATIENCE_LONG, RELAXED);
    store(&lock->state, LOCK_RETIRED, RELAXED);
}

/* As lock_reset() of a lock that the fork took, or not: then it may be the handler's that
 * forked, who keeps it, or that of a thread of the parent, who may have been in the middle. */
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
