/*
 * claim.h: the kernel calls for memory that is claimed once; os implements them.
 *
 * Separate from os.h because the pools' small library has only these of os. Functions return 0 or a
 * negative errno value and leave things as they were on failure. They neither touch errno nor
 * allocate.
 */
#ifndef CALM_BASE_CLAIM_H
#define CALM_BASE_CLAIM_H

#include "base/attr.h"

enum { CLAIM_NO_HUGE = -22 }; /* -EINVAL */

/* Maps `bytes`, readable, writable, zero, and page-aligned; with `is_huge` aligned to huge pages,
 * which are requested. CLAIM_NO_HUGE: the kernel has none. -ENOMEM: no room. */
int claim_map(size_t bytes, bool is_huge, void **out);

/* Makes every page of [start, start + bytes) resident. -ENOMEM: only some may be. */
int claim_populate(void *start, size_t bytes);

/* Locks the range's pages into memory. -EPERM, -ENOMEM, -EAGAIN: refused, none is locked. */
int claim_lock(void *start, size_t bytes);
void claim_unlock(void *start, size_t bytes);

/* Unmaps what claim_map() mapped; one kernel call. */
void claim_return(void *start, size_t bytes);

/* Writes `length` bytes at `words` to standard error, and dies by SIGABRT. For builds with checks.
 */
NORETURN void claim_stop(const char *words, size_t length);

#endif
