/*
 * lock_model.c: the shipped os/lock.c under the explorer: mutual exclusion, and no wake-up is lost.
 *
 * os_wait and os_wake are the kernel's promise: a wait compares and falls asleep in one step.
 */
#include "explore.h"

#include "os/lock.c"

static struct lock lock;
static unsigned inside, entries;

void os_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ms)
{
    (void)timeout_ms;
    explore_point();
    if (atomic_load(word) == expected)
        explore_sleep(word);
}

void os_wake(_Atomic uint32_t *word, uint32_t count)
{
    explore_point();
    explore_wake(word, count);
}

/* Nothing interrupts a step of the model. */
bool os_signals_block(uint64_t *before)
{
    *before = 0;
    return false;
}

void os_signals_restore(uint64_t before)
{
    (void)before;
}

void check_stop(const char *format, ...)
{
    explore_fail(format);
}

static void begin(void)
{
    atomic_store(&lock.state, LOCK_FREE);
    inside = 0;
    entries = 0;
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
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        explore(&cases[i]);
    return 0;
}
