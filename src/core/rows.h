/*
 * rows.h: how the rows of bins are given out, and whether cohorts share addresses.
 *
 * Shared, which is usual: a row is a home and a cohort, and what one bin gave back another may
 * have. Apart: a row is a cohort, of which there may be up to ROWS_APART; there are no homes. Each
 * unit of the heap belongs to the cohort that had it first, for ever: slabs are not lent, and spans
 * have owners (mem/span.h), which are numbered as rows. Design: docs/design/intern.md
 */
#ifndef CALM_CORE_ROWS_H
#define CALM_CORE_ROWS_H

#include "base/check.h"
#include "core/class.h"
#include "mem/span.h"

enum { COHORT_ENTRY_BYTES = CLASS_LIMIT * ENTRY_BYTES };
_Static_assert((int)SPAN_OWNER_LIMIT == (int)ROW_LIMIT, "an owner is a row; row 0 is nobody's");

/* Of cohorts the lowest ones and the highest are nobody's. What a cache has of the first and of the
 * last is empty for ever. No slab is of the armed ones. */
enum {
    COHORT_DIVERTED = 0, /* of sites whose requests go to site/second.h; before the start, of all */
    COHORT_ARMED = 1,    /* of those whose requests are counted by core/armed.h                   */
    ARMED_COHORTS = 2,   /* taken in turn, so that what is left of one is not mistaken            */
    COHORT_FIRST = COHORT_ARMED + ARMED_COHORTS, /* for sites, COHORTS_MAX of them */
    COHORT_SAMPLED = COHORT_LIMIT - 1,           /* of sampled small blocks        */
    COHORTS_MAX = COHORT_SAMPLED - COHORT_FIRST,
    DIVERTED_OFFSET = COHORT_DIVERTED * COHORT_ENTRY_BYTES,
    OWN_OFFSET_FIRST = COHORT_FIRST * COHORT_ENTRY_BYTES, /* from here on, sites' own cohorts */
};

/* Constant once the heap has started; set before. */
extern HIDDEN bool rows_are_apart;

/* Who owns the units of a bin's blocks, or of what is served from the entries at an offset: 0 is
 * nobody. */
ALWAYS_INLINE unsigned row_owner(unsigned bin)
{
    return rows_are_apart ? bin_row(bin) : 0;
}

ALWAYS_INLINE unsigned offset_owner(uint32_t cohort_offset)
{
    return rows_are_apart ? cohort_offset / COHORT_ENTRY_BYTES : 0;
}

/* Whether a bin's blocks are sampled ones. */
ALWAYS_INLINE bool bin_is_sampled(unsigned bin)
{
    return bin_row(bin) == COHORT_SAMPLED && bin_class(bin) != 0;
}

/* The rows whose bins may hold a block of `bin`: *first, and how many from there. */
unsigned rows_of(unsigned bin, unsigned *first);

/* R1: a slab's unit belongs to its bin's cohort.   R2: a large block's units have one owner. Other
 * threads must be quiet. */
verdict rows_verify(void);

#endif
