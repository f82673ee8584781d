/*
 * rows.c: which rows a block may be found in, and the check that no unit changed hands.
 *
 * Owner: rows_are_apart is set by whoever configures the heap, before it starts.
 */
#include "core/rows.h"

bool rows_are_apart;

unsigned rows_of(unsigned bin, unsigned *first)
{
    *first = rows_are_apart ? bin_row(bin) : 0;
    return rows_are_apart ? 1 : class_rows(bin_class(bin));
}

verdict rows_verify(void)
{
    for (size_t unit = 1; unit < load(&region.units, RELAXED); unit++) {
        unsigned kind = region_kind(unit), owner = region.tags[unit].owner;
        bool is_slab = bin_class(kind) != 0;
        if (is_slab && owner != row_owner(kind))
            return "R1: a slab's unit is another cohort's";
        if (kind == UNIT_BODY && owner != region.tags[unit - 1].owner)
            return "R2: a large block has units of several owners";
    }
    return NULL;
}
