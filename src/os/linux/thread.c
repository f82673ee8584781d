/*
 * thread.c: the calling thread's signals, and the C library's hooks for thread exit and fork.
 */
#define _GNU_SOURCE

#include "os/os.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "os/linux/syscall.h"
#include "os/linux/told.h"

static pthread_key_t exit_key;
static bool is_exit_key_made;

enum { SIGNAL_SET_BYTES = 8 };

/* The C library's flag, from version 2.32 on. While it is set, no other thread can wait for a lock.
 */
extern char __libc_single_threaded __attribute__((weak));

#define SIGNAL_BIT(signal) (UINT64_C(1) << ((signal) - 1))

/* Signals that the thread's own instructions raise: a step, a breakpoint, or a system call that a
 * filter passes to a handler. The kernel ends a process that blocks such a signal. */
#define RAISED_HERE (SIGNAL_BIT(SIGTRAP) | SIGNAL_BIT(SIGSYS))

/* Signals by which the C library cancels threads and changes their credentials. Other threads wait
 * for their handlers. Threads of the library's own that block them go on to do so. */
#ifdef __GLIBC__
#define OF_THE_LIBRARY (SIGNAL_BIT(32) | SIGNAL_BIT(33))
#else
#define OF_THE_LIBRARY (SIGNAL_BIT(32) | SIGNAL_BIT(33) | SIGNAL_BIT(34))
#endif

bool os_is_alone(void)
{
    return &__libc_single_threaded != NULL && __libc_single_threaded != 0;
}

bool os_signals_block(uint64_t *before)
{
    if (os_is_alone())
        return false;
    uint64_t more = ~(RAISED_HERE | OF_THE_LIBRARY);
    return system_call(SYS_rt_sigprocmask, SIG_BLOCK, (long)&more, (long)before, SIGNAL_SET_BYTES,
                       0, 0) == 0;
}

void os_signals_restore(uint64_t before)
{
    system_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, SIGNAL_SET_BYTES, 0, 0);
}

int os_on_thread_exit(void (*on_exit)(void *value))
{
    int result = pthread_key_create(&exit_key, on_exit);
    is_exit_key_made = result == 0;
    return -result;
}

/* Allocates for keys above 31 in the GNU C library; a program may interpose it, too. */
int os_thread_exit_arm(void *value)
{
    if (!is_exit_key_made)
        return -EAGAIN;
    told_depth++;
    int error = pthread_setspecific(exit_key, value);
    told_depth--;
    return -error;
}

int os_on_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    return -pthread_atfork(before, in_parent, in_child);
}
