/*
 * lock.c: the slow half of lock.h: spin a bounded number of times, then sleep in the kernel.
 *
 * Owner: `process` is written while the process has one thread that knows this heap.
 */
#include "os/lock.h"

#include "base/bits.h"

enum { LONG_MS = 20, PATIENT_MS = 5, PATIENT_SLEEPS = 8, PATIENT_MS_MAX = 1000 };

/* After a long wait in vain, a thread waits only shortly for other locks for this long: a stopped
 * thread may hold several, and a fork whose handlers do not return holds all depots. Not for the
 * turn to fork, whose holder may be another in a long queue. */
enum { LATELY_MS = 10 * PATIENT_MS_MAX };

_Thread_local uint32_t lock_ranks_held;
_Thread_local uint32_t lock_holder_id;
_Thread_local uint32_t lock_id_before;
_Thread_local uint32_t lock_lent;
static _Atomic uint32_t process; /* the process whose thread numbers are in locks */
_Atomic uint64_t os_failed_calls;

void lock_start(void)
{
    lock_ranks_held = 0;
    lock_id_before = lock_holder_id;
    lock_holder_id = 0;
    store(&process, os_process_id(), RELAXED);
}

/* Not cached while the thread is lent: a child like vfork's writes to its parent's variables, and
 * its number is not the C library's note. If the parent is not visible, the number means nothing to
 * the parent's other threads. */
uint32_t lock_learn_id(void)
{
    if (likely(lock_lent == 0))
        return lock_holder_id = os_thread_id();
    uint32_t id = os_thread_id_asked(), owner = load(&process, RELAXED);
    if (os_process_id() == owner)
        return id;
    return (os_parent_id() == owner ? id : 0) | LOCK_ELSEWHERE;
}

/* Spins until the lock is free, a bounded number of times, and takes it with the word `held`. */
static bool look(struct lock *lock, uint32_t held)
{
    for (unsigned look = 0; look < LOOKS_MAX; look++) {
        uint32_t expected = LOCK_FREE;
        if (load(&lock->state, RELAXED) == LOCK_FREE &&
            compare_swap(&lock->state, &expected, held, ACQUIRE, RELAXED))
            return true;
        cpu_relax();
    }
    return false;
}

/*
 * L2: marks the lock WAITED, and takes it if it is free. The mark stays in both cases, since other
 * threads may sleep too. Returns the old word.
 */
static uint32_t take_or_mark(struct lock *lock, uint32_t held)
{
    for (;;) { /* each turn is another thread's progress */
        uint32_t now = load(&lock->state, RELAXED);
        uint32_t wanted = (now == LOCK_FREE ? held : now) | LOCK_WAITED;
        if (compare_swap(&lock->state, &now, wanted, ACQUIRE, RELAXED))
            return now;
    }
}

/* Whether the holder has ended. A child of vfork is a separate process. A holder that cannot be
 * identified never ends. */
static bool is_over(uint32_t holder)
{
    uint32_t id = holder & ~LOCK_ELSEWHERE;
    return id != 0 && os_task_has_ended(id);
}

/* L4: inherits the lock from a holder that has ended. Not if numbers are another process's: in a
 * child of a fork that the C library did not see, and in a child of vfork. */
static bool inherit(struct lock *lock, uint32_t word, uint32_t held)
{
    if (!is_over(word & ~LOCK_WAITED) || os_process_id() != load(&process, RELAXED) ||
        !compare_swap(&lock->state, &word, held | LOCK_WAITED, ACQUIRE, RELAXED))
        return false;
    store(&lock->is_inherited, true, RELAXED);
    return true;
}

bool lock_spin(struct lock *lock)
{
    uint32_t held = lock_own_word();
    if (look(lock, held))
        return true;
    uint32_t word = load(&lock->state, RELAXED);
    return word != LOCK_FREE && inherit(lock, word, held);
}

/* Takes the lock, or sleeps at most `sleep_ms`. */
static bool take_or_sleep(struct lock *lock, uint64_t sleep_ms)
{
    uint32_t held = lock_own_word();
    uint32_t word = take_or_mark(lock, held) | LOCK_WAITED;
    if (word == (LOCK_FREE | LOCK_WAITED))
        return true;
    os_wait(&lock->state, word, sleep_ms);
    return load(&lock->state, RELAXED) == word && inherit(lock, word, held);
}

void lock_wait(struct lock *lock)
{
    if (lock_spin(lock))
        return;
    while (!take_or_sleep(lock, LONG_MS))
        continue;
}

/* Tries once more after the last sleep, and leaves the mark: the single wake-up of a release may
 * have ended that sleep, and must not be lost for other sleepers. */
static bool sleep_a_while(struct lock *lock, uint64_t sleep_ms)
{
    for (unsigned sleeps = 0; sleeps < PATIENT_SLEEPS; sleeps++)
        if (take_or_sleep(lock, sleep_ms))
            return true;
    return take_or_mark(lock, lock_own_word()) == LOCK_FREE;
}

bool lock_wait_patiently(struct lock *lock, enum lock_rank rank, enum lock_patience patience)
{
    static _Thread_local uint64_t outlasted_ms;
    if (patience == PATIENCE_LONG && rank != RANK_FORK && outlasted_ms != 0 &&
        os_clock_ms() - outlasted_ms < LATELY_MS)
        patience = PATIENCE_SHORT;
    if (load(&lock->given_up, RELAXED) >= patience || lock_is_own(lock))
        return false;
    uint64_t start = os_clock_ms(), waited = 0;
    do { /* longer each time: sleepers that look often slow the holder down */
        uint64_t most = (PATIENT_MS_MAX - waited) / PATIENT_SLEEPS;
        if (sleep_a_while(lock, size_max(PATIENT_MS, size_min(waited / 2, most))))
            return true;
        waited = os_clock_ms() - start;
    } while (patience == PATIENCE_LONG && waited < PATIENT_MS_MAX);
    if (patience == PATIENCE_LONG)
        outlasted_ms = os_clock_ms();
    store(&lock->given_up, (uint8_t)patience, RELAXED);
    if (load(&lock->state, RELAXED) == LOCK_FREE) /* the lock is free: do not give up on the next
                                                     holder */
        lock_forgive(lock);
    return false;
}
