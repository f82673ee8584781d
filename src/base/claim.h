/*
 * claim.h: the few words that memory claimed once needs from the kernel; os gives them.
 *
 * Apart from os.h because the pools' small library has these and nothing else of os. Functions
 * return 0 or a negative errno value and leave things as they were on failure. They neither touch
 * errno nor allocate.
 */
#ifndef CALM_BASE_CLAIM_H
#define CALM_BASE_CLAIM_H

#include "base/attr.h"

enum { CLAIM_NO_HUGE = -22 }; /* -EINVAL */

/* Maps `bytes`, readable and writable, reading as zero, aligned to a page; with `is_huge` aligned
 * to and asking for huge pages, CLAIM_NO_HUGE where the kernel has none to ask for. -ENOMEM: no
 * room. */
int claim_map(size_t bytes, bool is_huge, void **out);

/* Makes every page of [start, start + bytes) resident. -ENOMEM: not all of them could be; some may
 * be now. */
int claim_populate(void *start, size_t bytes);

/* Locks the pages of the range into memory. -EPERM, -ENOMEM, -EAGAIN: refused, none is locked. */
int claim_lock(void *start, size_t bytes);
void claim_unlock(void *start, size_t bytes);

/* Returns what claim_map gave; one kernel call. */
void claim_return(void *start, size_t bytes);

/* Writes `length` bytes at `words` to standard error, and dies by SIGABRT. For a build that checks.
 */
NORETURN void claim_stop(const char *words, size_t length);

#endif
