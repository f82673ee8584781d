/*
 * claim.c: memory claimed once, on Linux.
 *
 * System calls only, and no state: the pools' small library links this file without the rest of os.
 * Design: docs/design/pool.md
 */
#define _GNU_SOURCE

#include "base/claim.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "os/linux/syscall.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum {
    HUGE_BYTES = 2 * 1024 * 1024,
    TOUCH_BYTES = 4096, /* no machine has smaller pages */
};

static bool is_error(long result)
{
    return result < 0 && result >= -4095;
}

static int advise(void *start, size_t bytes, int advice)
{
    return (int)system_call(SYS_madvise, (long)start, (long)bytes, advice, 0, 0, 0);
}

void claim_return(void *start, size_t bytes)
{
    system_call(SYS_munmap, (long)start, (long)bytes, 0, 0, 0, 0);
}

static int map_huge(size_t bytes, void **out)
{
    size_t whole = align_up(bytes, TOUCH_BYTES);
    if (whole < bytes || whole > SIZE_MAX - HUGE_BYTES)
        return -ENOMEM;
    void *first;
    int error = claim_map(whole + HUGE_BYTES, false, &first);
    if (error != 0)
        return error;
    char *start = (char *)align_up((size_t)first, HUGE_BYTES);
    size_t head = (size_t)(start - (char *)first);
    if (head > 0)
        claim_return(first, head);
    claim_return(start + whole, HUGE_BYTES - head);
    error = advise(start, bytes, MADV_HUGEPAGE);
    if (error != 0) {
        claim_return(start, bytes);
        return error;
    }
    *out = start;
    return 0;
}

int claim_map(size_t bytes, bool is_huge, void **out)
{
    if (is_huge)
        return map_huge(bytes, out);
    long at = system_call(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (is_error(at))
        return (int)at;
    *out = (void *)at;
    return 0;
}

int claim_populate(void *start, size_t bytes)
{
    char *first = (char *)align_down((size_t)start, TOUCH_BYTES);
    size_t whole = bytes + (size_t)((char *)start - first);
    int error = advise(first, whole, MADV_POPULATE_WRITE);
    if (error != -EINVAL)
        return error;
    /* Kernels before 5.14 do not know the advice: touch the pages and keep their contents. */
    for (size_t at = 0; at < bytes; at += TOUCH_BYTES)
        ((volatile char *)start)[at] = ((volatile char *)start)[at];
    if (bytes > 0)
        ((volatile char *)start)[bytes - 1] = ((volatile char *)start)[bytes - 1];
    return 0;
}

int claim_lock(void *start, size_t bytes)
{
    int error = (int)system_call(SYS_mlock, (long)start, (long)bytes, 0, 0, 0, 0);
    if (error != 0)
        claim_unlock(start, bytes); /* a part may be locked */
    return error;
}

void claim_unlock(void *start, size_t bytes)
{
    system_call(SYS_munlock, (long)start, (long)bytes, 0, 0, 0, 0);
}

void claim_stop(const char *words, size_t length)
{
    system_call(SYS_write, 2, (long)words, (long)length, 0, 0, 0);
    long process = system_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
    system_call(SYS_tgkill, process, system_call(SYS_gettid, 0, 0, 0, 0, 0, 0), SIGABRT, 0, 0, 0);
    __builtin_trap(); /* where the signal is ignored */
}
