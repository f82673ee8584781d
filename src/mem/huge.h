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
enum { HUGE_UNITS = 256 };

/* Units that must be in use or dirty before huge pages are asked for; SIZE_MAX: never. And how long
 * the first touch of one may take before there are none for a while. Set before the region grows.
 */
extern HIDDEN size_t huge_from;
extern HIDDEN uint64_t huge_ns_max;

/* Where huge pages may be, by places of their size; far ones share a bit, as 64 GiB have one each.
 */
enum { HUGE_WORDS = 512 };
extern HIDDEN struct huge_places {
    _Atomic bool are_any;
    _Atomic uint64_t bits[HUGE_WORDS];
} huge_places;

/* The place that a unit lies in. */
static inline size_t huge_place(size_t unit)
{
    return (unit + ((uintptr_t)region.base >> UNIT_SHIFT)) / HUGE_UNITS;
}

static inline bool huge_may_be_at(size_t unit)
{
    size_t place = huge_place(unit);
    return (load(&huge_places.bits[place / 64 % HUGE_WORDS], RELAXED) >> place % 64 & 1) != 0;
}

/* Huge pages may be in a range of units from now on. */
void huge_note(size_t unit, size_t units);

/* Dirty bytes that a page which was just made may account for. */
static inline size_t huge_spare_bytes(void)
{
    return load(&huge_places.are_any, RELAXED) ? (size_t)HUGE_UNITS << UNIT_SHIFT : 0;
}

/* Before a slab is taken: whether the heap is large enough and has no dirty unit. And makes a huge
 * page's units dirty, unless huge pages are slow just now. Any thread, not under a lock. */
bool huge_is_wanted(void);
void huge_provide(void);

#endif
