/*
 * wait.c: sleeping on a word, waking sleepers, and whether a thread has ended: the kernel's futex.
 */
#define _GNU_SOURCE

#include "os/os.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "os/linux/syscall.h"

/* The kernel's numbers from <linux/futex.h>, which a C library need not provide. */
enum {
    WAIT = 0,
    WAKE = 1,
    TRY_LOCK = 8,  /* FUTEX_TRYLOCK_PI */
    PRIVATE = 128, /* only this process uses the word */
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

/* FUTEX_TRYLOCK_PI makes the kernel look for the holder that the word names. The word is on the
 * stack: no other thread waits for it. */
bool os_task_has_ended(uint32_t id)
{
    _Atomic uint32_t word = id;
    return system_call(SYS_futex, (long)&word, TRY_LOCK | PRIVATE, 0, 0, 0, 0) == -ESRCH;
}

#ifdef PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP

/* An error-checking mutex records its owner's number. 0: not here. */
static uint32_t noted_id(void)
{
    pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
    if (pthread_mutex_lock(&mutex) != 0)
        return 0;
    uint32_t id = (uint32_t)mutex.__data.__owner;
    pthread_mutex_unlock(&mutex);
    return id;
}

#else

static uint32_t noted_id(void)
{
    return 0;
}

#endif

uint32_t os_thread_id_asked(void)
{
    return (uint32_t)system_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

/* An interposed lock function may allocate, and so call this again. */
static uint32_t noted_once(void)
{
    static _Thread_local bool is_asking;
    uint32_t id = 0;
    if (!is_asking) {
        is_asking = true;
        id = noted_id();
        is_asking = false;
    }
    return id;
}

bool os_thread_is_noted(void)
{
    return noted_once() != 0;
}

uint32_t os_thread_id(void)
{
    uint32_t id = noted_once();
    return id != 0 ? id : os_thread_id_asked();
}
