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

/* The rows whose bins may hold a block of `bin`: *first, and how many from there. */
unsigned rows_of(unsigned bin, unsigned *first);

/* R1: a slab's unit belongs to its bin's cohort.   R2: a large block's units have one owner. Other
 * threads must be quiet. */
verdict rows_verify(void);

#endif
