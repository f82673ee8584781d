/*
 * thread.c: real sleeping, and the C library's hooks.
 */
#define _GNU_SOURCE

#include "os/os.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/sim/state.h"

enum {
    KERNEL_WAIT = 0, /* the numbers of <linux/futex.h>, which a C library need not provide */
    KERNEL_WAKE = 1,
};

static pthread_key_t exit_key;
static bool is_exit_key_made;

static void (*fork_before)(void);
static void (*fork_in_parent)(void);
static void (*fork_in_child)(void);

void os_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ms)
{
    sim_enter(SIM_WAIT);
    int before = errno;
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ms / 1000),
                               .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    syscall(SYS_futex, word, KERNEL_WAIT, expected, timeout_ms == UINT64_MAX ? NULL : &timeout,
            NULL, 0);
    errno = before;
}

void os_wake(_Atomic uint32_t *word, uint32_t count)
{
    sim_enter(SIM_WAKE);
    int before = errno;
    syscall(SYS_futex, word, KERNEL_WAKE, count > INT32_MAX ? INT32_MAX : (int)count, NULL, NULL,
            0);
    errno = before;
}

/* No test of the simulator sends signals. */
bool os_signals_block(uint64_t *before)
{
    *before = 0;
    return false;
}

void os_signals_restore(uint64_t before)
{
    (void)before;
}

/* The simulator does not say. */
bool os_is_alone(void)
{
    return false;
}

int os_on_thread_exit(void (*on_exit)(void *value))
{
    if (is_exit_key_made)
        sim_stop("os_on_thread_exit: installed twice");
    if (sim_enter(SIM_THREAD_EXIT))
        return -ENOMEM;
    int result = pthread_key_create(&exit_key, on_exit);
    is_exit_key_made = result == 0;
    return -result;
}

int os_thread_exit_arm(void *value)
{
    if (sim_enter(SIM_ARM))
        return -ENOMEM;
    return is_exit_key_made ? -pthread_setspecific(exit_key, value) : -EAGAIN;
}

/* The simulator interposes nothing. */
bool os_is_telling(void)
{
    return false;
}

/* The simulator's lock is innermost: a kernel never forks in the middle of a call. */
static void before(void)
{
    fork_before();
    sim_lock();
}

static void in_parent(void)
{
    sim_unlock();
    fork_in_parent();
}

static void in_child(void)
{
    sim_lock_reset();
    fork_in_child();
}

int os_on_fork(void (*before_fork)(void), void (*parent)(void), void (*child)(void))
{
    if (fork_before != NULL)
        sim_stop("os_on_fork: installed twice");
    if (sim_enter(SIM_FORK))
        return -ENOMEM;
    fork_before = before_fork;
    fork_in_parent = parent;
    fork_in_child = child;
    return -pthread_atfork(before, in_parent, in_child);
}
