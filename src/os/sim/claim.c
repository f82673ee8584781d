/*
 * claim.c: memory claimed once, from the real kernel, with calls that fail on demand and a count of
 * the claimed bytes.
 */
#define _GNU_SOURCE

#include "base/claim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "os/sim/state.h"

enum { PAGE = 4096 };

static _Atomic size_t claimed;
static _Atomic size_t locked;

int claim_map(size_t bytes, bool is_huge, void **out)
{
    if (sim_enter(SIM_CLAIM))
        return is_huge ? CLAIM_NO_HUGE : -ENOMEM;
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return -ENOMEM;
    fetch_add(&claimed, bytes, RELAXED);
    *out = start;
    return 0;
}

int claim_populate(void *start, size_t bytes)
{
    if (sim_enter(SIM_POPULATE))
        return -ENOMEM;
    for (size_t at = 0; at < bytes; at += PAGE)
        ((volatile char *)start)[at] = ((volatile char *)start)[at];
    return 0;
}

int claim_lock(void *start, size_t bytes)
{
    (void)start;
    if (sim_enter(SIM_LOCK))
        return -EPERM;
    fetch_add(&locked, bytes, RELAXED);
    return 0;
}

void claim_unlock(void *start, size_t bytes)
{
    (void)start;
    if (bytes > load(&locked, RELAXED))
        sim_stop("claim_unlock: %zu bytes that are not locked", bytes);
    fetch_sub(&locked, bytes, RELAXED);
}

void claim_return(void *start, size_t bytes)
{
    if (bytes > load(&claimed, RELAXED))
        sim_stop("claim_return: %zu bytes that were not claimed", bytes);
    fetch_sub(&claimed, bytes, RELAXED);
    munmap(start, bytes);
}

size_t sim_claimed_bytes(void)
{
    return load(&claimed, RELAXED);
}

size_t sim_claimed_locked_bytes(void)
{
    return load(&locked, RELAXED);
}

void claim_stop(const char *words, size_t length)
{
    fwrite(words, 1, length, stderr);
    abort();
}
