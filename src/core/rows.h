/*
 * rows.h: how bins are divided into rows, and whether cohorts share addresses.
 *
 * Shared, the default: a row is a home and a cohort, and bins may reuse each other's memory.
 * Separate: a row is a cohort, so there are up to ROW_LIMIT cohorts and no homes. Each unit of the
 * heap belongs for ever to the first cohort that used it: slabs are not lent, and spans have owners
 * (mem/span.h), numbered as rows. Design: docs/design/intern.md
 */
#ifndef CALM_CORE_ROWS_H
#define CALM_CORE_ROWS_H

#include "base/check.h"
#include "core/class.h"
#include "mem/span.h"

enum { COHORT_ENTRY_BYTES = CLASS_LIMIT * ENTRY_BYTES };
_Static_assert((int)SPAN_OWNER_LIMIT == (int)ROW_LIMIT, "an owner is a row; row 0 is nobody's");

/* The lowest cohorts and the highest belong to no site. A cache's entries of COHORT_DIVERTED are
 * always empty; those of COHORT_SAMPLED never have an array. Slabs never belong to armed cohorts.
 */
enum {
    COHORT_DIVERTED = 0, /* sites that take site/second.h; all sites before the start */
    COHORT_ARMED = 1,    /* sites whose requests core/armed.h counts */
    ARMED_COHORTS = 2,   /* alternate by start of sampling, to tell stale entries */
    COHORT_FIRST = COHORT_ARMED + ARMED_COHORTS, /* for sites, COHORTS_MAX of them */
    COHORT_SAMPLED = COHORT_LIMIT - 1,           /* small sampled blocks */
    COHORTS_MAX = COHORT_SAMPLED - COHORT_FIRST,
    DIVERTED_OFFSET = COHORT_DIVERTED * COHORT_ENTRY_BYTES,
    OWN_OFFSET_FIRST = COHORT_FIRST * COHORT_ENTRY_BYTES, /* sites' own cohorts begin here */
};

/* Set before the heap starts, constant afterwards. */
extern HIDDEN bool rows_are_separate;

/* The owner of the units of a bin's blocks, or of blocks served from the entries at an offset. 0:
 * none. */
ALWAYS_INLINE unsigned row_owner(unsigned bin)
{
    return rows_are_separate ? bin_row(bin) : 0;
}

ALWAYS_INLINE unsigned offset_owner(uint32_t cohort_offset)
{
    return rows_are_separate ? cohort_offset / COHORT_ENTRY_BYTES : 0;
}

/* Whether a bin's blocks are sampled ones. */
ALWAYS_INLINE bool bin_is_sampled(unsigned bin)
{
    return bin_row(bin) == COHORT_SAMPLED && bin_class(bin) != 0;
}

/* The rows whose bins may hold a block of `bin`: `*first` and how many from there. */
unsigned rows_of(unsigned bin, unsigned *first);

/* R1: a slab's unit belongs to its bin's cohort. R2: a large block's units have one owner. Other
 * threads must be quiet. */
verdict rows_verify(void);

#endif
