/*
 * wait.c: sleeping on a word, and waking who sleeps on it: the kernel's futex.
 */
#define _GNU_SOURCE

#include "os/os.h"

#include <time.h>

#include "os/linux/syscall.h"

/* The kernel's numbers, as in <linux/futex.h>, which a C library need not bring. */
enum {
    WAIT = 0,
    WAKE = 1,
    PRIVATE = 128, /* the word is this process's alone */
};

void os_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ms)
{
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ms / 1000),
                               .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    long limit = timeout_ms == UINT64_MAX ? 0 : (long)&timeout;
    system_call(SYS_futex, (long)word, WAIT | PRIVATE, expected, limit, 0, 0);
}

void os_wake(_Atomic uint32_t *word, uint32_t count)
{
    system_call(SYS_futex, (long)word, WAKE | PRIVATE, count > INT32_MAX ? INT32_MAX : (long)count,
                0, 0, 0);
}
