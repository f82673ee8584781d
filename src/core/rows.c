/*
 * rows.c: which rows a block may be found in, and the check that no unit changed its owner.
 *
 * Owner: rows_are_separate is set by the configuration, before the heap starts.
 */
#include "core/rows.h"

bool rows_are_separate;

unsigned rows_of(unsigned bin, unsigned *first)
{
    *first = rows_are_separate ? bin_row(bin) : 0;
    return rows_are_separate ? 1 : class_rows(bin_class(bin));
}

verdict rows_verify(void)
{
    size_t end = 0; /* of the last large block so far */
    for (size_t unit = CHUNK_UNITS; unit < region_units(); unit++) {
        unsigned bin = region_bin(unit / CHUNK_UNITS), owner = region.tags[unit].owner;
        if (bin != NO_SLAB && owner != row_owner(bin))
            return "R1: a slab's unit is another cohort's";
        if (region_is_large(region_address(unit)))
            end = unit + region.tags[unit].units;
        else if (unit < end && owner != region.tags[unit - 1].owner)
            return "R2: a large block has units of several owners";
    }
    return NULL;
}
