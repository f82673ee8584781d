/*
 * lock_model.c: the shipped os/lock.c under the explorer: mutual exclusion, no wake-up is lost, and
 * a lock whose holder ended is taken over once, by one who is told.
 *
 * os_wait and os_wake are the kernel's promise: a wait compares and falls asleep in one step. A
 * patient wait may end by time at once, or when nobody else can go on. Of the others only one whose
 * holder has ended does: in the library they all do, but nobody may have to rely on that.
 *
 * Not covered: what the machine reorders (the explorer runs all operations in one total order);
 * the futex calls themselves, for which os_wait() and os_wake() stand; more than four threads or
 * four preemptions; how long a wait takes; mending what the lock guards.
 */
#include "explore.h"

#include "os/lock.c"

static struct lock lock;
static unsigned inside, entries, inherited;
static bool has_ended[EXPLORE_THREADS_MAX];

enum { PROCESS = 7, THREAD_FIRST = 10 };

uint32_t os_process_id(void)
{
    return PROCESS;
}

uint32_t os_thread_id(void)
{
    return THREAD_FIRST + explore_self();
}

uint32_t os_thread_id_asked(void)
{
    return os_thread_id();
}

bool os_task_has_ended(uint32_t id)
{
    explore_point();
    return has_ended[id - THREAD_FIRST];
}

uint32_t os_parent_id(void)
{
    return 0;
}

/* A long wait is over after one turn. */
uint64_t os_clock_ms(void)
{
    static uint64_t now;
    return now += PATIENT_MS_MAX;
}

/* Thread-local variables are one to all threads of the explorer. */
static void be_self(void)
{
    lock_holder_id = os_thread_id();
}

void os_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ms)
{
    explore_point();
    uint32_t holder = expected & ~LOCK_WAITED;
    bool is_over = timeout_ms == PATIENT_MS
                       ? explore_pick(2) == 1
                       : holder >= THREAD_FIRST && has_ended[holder - THREAD_FIRST];
    if (is_over || atomic_load(word) != expected)
        return;
    if (timeout_ms == PATIENT_MS)
        explore_doze(word);
    else
        explore_sleep(word);
}

void os_wake(_Atomic uint32_t *word, uint32_t count)
{
    explore_point();
    explore_wake(word, count);
}

void check_stop(const char *format, ...)
{
    explore_fail(format);
}

static void begin(void)
{
    lock_start();
    atomic_store(&lock.state, LOCK_FREE);
    atomic_store(&lock.is_inherited, false);
    atomic_store(&lock.given_up, PATIENCE_NONE);
    inside = 0;
    entries = 0;
    inherited = 0;
    for (unsigned i = 0; i < EXPLORE_THREADS_MAX; i++)
        has_ended[i] = false;
}

static void enter(void)
{
    if (inside++ != 0)
        explore_fail("two threads are inside");
    explore_point();
    entries++;
    inside--;
}

static void once(void)
{
    lock_acquire(&lock, RANK_SPAN);
    enter();
    lock_release(&lock, RANK_SPAN);
}

static void twice(void)
{
    once();
    once();
}

static void try_once(void)
{
    if (!lock_try(&lock, RANK_SPAN))
        return;
    enter();
    lock_release(&lock, RANK_SPAN);
}

static void patient(void)
{
    if (!lock_try_patiently(&lock, RANK_SPAN, PATIENCE_SHORT))
        return;
    enter();
    lock_release(&lock, RANK_SPAN);
}

/* The second wait may be none. */
static void patient_twice(void)
{
    patient();
    patient();
}

static void enter_or_inherit(void)
{
    if (lock_was_inherited(&lock)) {
        inherited++;
        inside--; /* who ended there */
    }
    enter();
    lock_release(&lock, RANK_SPAN);
}

static void once_told(void)
{
    lock_acquire(&lock, RANK_SPAN);
    enter_or_inherit();
}

static void try_told(void)
{
    if (lock_try_briefly(&lock, RANK_SPAN))
        enter_or_inherit();
}

static void patient_told(void)
{
    if (lock_try_patiently(&lock, RANK_SPAN, PATIENCE_SHORT))
        enter_or_inherit();
}

/* Ends while it holds the lock; those that sleep notice in time. */
static void end_inside(void)
{
    lock_acquire(&lock, RANK_SPAN);
    if (lock_was_inherited(&lock))
        explore_fail("a lock was taken over from a thread that lives");
    inside++;
    explore_point();
    has_ended[explore_self()] = true;
    explore_wake(&lock.state, EXPLORE_THREADS_MAX);
}

/* The others were done before it, or one of them has taken over. */
static void end_told(void)
{
    if (inherited > 1)
        explore_fail("the lock was taken over twice");
    bool is_free = atomic_load(&lock.state) == LOCK_FREE;
    if (is_free != (inherited == 1))
        explore_fail("nobody was told that the holder ended");
}

static void end(void)
{
    if (atomic_load(&lock.state) != LOCK_FREE)
        explore_fail("the lock is held by nobody");
    if (entries < 2)
        explore_fail("a thread never got in");
}

int main(void)
{
    const struct explore_case cases[] = {
        {"lock: two threads, twice each", 4, 2, begin, {twice, twice}, end},
        {"lock: three threads", 3, 3, begin, {once, once, once}, end},
        {"lock: three threads, one only tries", 2, 3, begin, {twice, once, try_once}, end},
        {"lock: three threads, one is patient", 3, 3, begin, {patient, once, once}, end},
        {"lock: four threads, two are patient", 2, 4, begin, {patient, patient, once, once}, end},
        {"lock: one is patient twice", 3, 3, begin, {patient_twice, once, once}, end},
        {"lock: the holder ends, one is patient",
         2,
         3,
         begin,
         {end_inside, patient_told, once_told},
         end_told},
        {"lock: the holder ends, two want it",
         3,
         3,
         begin,
         {end_inside, once_told, once_told},
         end_told},
        {"lock: the holder ends, one only tries",
         3,
         3,
         begin,
         {end_inside, once_told, try_told},
         end_told},
    };
    explore_each_step(be_self);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        explore(&cases[i]);
    return 0;
}
