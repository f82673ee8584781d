/*
 * huge.h: huge pages for slabs and for large blocks.
 */
#ifndef CALM_MEM_HUGE_H
#define CALM_MEM_HUGE_H

#include "base/atomic.h"
#include "base/attr.h"
#include "base/bits.h"
#include "mem/region.h"

/* HUGE_UNITS: of a huge page. HUGE_SMALL_NS: what the small pages of one take
 * (docs/decisions/large.md). */
enum { HUGE_UNITS = 256, HUGE_SMALL_NS = 700 * 1000 };

/* huge_from: units in use or dirty from which huge pages are made for slabs; SIZE_MAX: never.
 * huge_for_blocks: whether the kernel may make them in large blocks. Set before the region grows.
 */
extern HIDDEN size_t huge_from;
extern HIDDEN bool huge_for_blocks;

/* Where huge pages may be: one bit for each place of a huge page's size, modulo 64 GiB. */
enum { HUGE_WORDS = 512 };
extern HIDDEN struct huge_places {
    _Atomic bool are_any;
    _Atomic uint64_t bits[HUGE_WORDS];
} huge_places;

/* The place of a unit. */
static inline size_t huge_place(size_t unit)
{
    return (unit + ((uintptr_t)region.base >> UNIT_SHIFT)) / HUGE_UNITS;
}

static inline bool huge_may_be_at(size_t unit)
{
    size_t place = huge_place(unit);
    return (load(&huge_places.bits[place / 64 % HUGE_WORDS], RELAXED) >> place % 64 & 1) != 0;
}

/* Bytes that are purged at a time, from an address on. Where blocks may have huge pages, pieces lie
 * where these do, so that they go back whole. */
static inline size_t huge_piece_bytes(const void *at)
{
    const size_t piece = (size_t)PURGE_PIECE_UNITS << UNIT_SHIFT;
    return huge_for_blocks ? piece - (uintptr_t)at % piece : piece;
}

/* Marks a range of units as possibly huge. */
void huge_note(size_t unit, size_t units);

/*
 * huge_allow: lets the kernel make huge pages of units of a live block, as the program touches
 * them. `is_zero`: nothing is there. False: huge_for_blocks or a limit says no. huge_refuse: ends
 * that, and such advice of the program's. Any thread, for units of its own.
 */
bool huge_allow(size_t unit, size_t units, bool is_zero);
void huge_refuse(size_t unit, size_t units);

/* Dirty bytes that a new huge page may account for. */
static inline size_t huge_spare_bytes(void)
{
    return load(&huge_places.are_any, RELAXED) ? (size_t)HUGE_UNITS << UNIT_SHIFT : 0;
}

/* huge_is_wanted(): whether the heap is large enough and has no dirty unit; call before taking a
 * slab. huge_provide(): makes a huge page's units dirty, if the heap grows fast and huge pages are
 * not slow now. Any thread, without locks. */
bool huge_is_wanted(void);
void huge_provide(void);

#endif
