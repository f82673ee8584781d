/*
 * huge.h: huge pages for slabs.
 */
#ifndef CALM_MEM_HUGE_H
#define CALM_MEM_HUGE_H

#include "base/atomic.h"
#include "base/attr.h"
#include "base/bits.h"
#include "mem/region.h"

/* Units of a huge page, of the machines that have the most of them. */
enum { HUGE_UNITS = 32 };

/* Units that must be in use or dirty before huge pages are asked for; SIZE_MAX: never. And how long
 * the first touch of one may take before there are none for a while. Set before the region grows.
 */
extern HIDDEN size_t huge_from;
extern HIDDEN uint64_t huge_ns_max;

/* The lowest unit of a huge page that was ever provided; SIZE_MAX: none was. */
extern HIDDEN _Atomic size_t huge_lowest;

/* Dirty bytes that a page which was just made may account for. */
static inline size_t huge_spare_bytes(void)
{
    return load(&huge_lowest, RELAXED) == SIZE_MAX ? 0 : (size_t)HUGE_UNITS << UNIT_SHIFT;
}

/* Before a slab is taken: whether the heap is large enough and has no dirty unit. And makes a huge
 * page's units dirty, unless huge pages are slow just now. Any thread, not under a lock. */
bool huge_is_wanted(void);
void huge_provide(void);

#endif
