/*
 * bounded.h: what a bounded heap is made of.
 *
 * Memory is cut into units of 64 bytes. A run is a row of units that is one live block or one free
 * run; what is known of it lies in arrays by unit, apart from the memory. Free runs are listed by
 * length: exactly below 8 units, then 8 lengths to each doubling.
 *
 * Invariants, held by bounded_verify():
 *   B1 runs follow one another without a gap, and no two free ones are neighbours.
 *   B2 a free run of more than one unit says its length at both ends.
 *   B3 every free run is in the list of its length, and the bits say which lists have one.
 */
#ifndef CALM_POOL_BOUNDED_H
#define CALM_POOL_BOUNDED_H

#include "base/bits.h"
#include "base/check.h"
#include "calmalloc/pool.h"

enum {
    BOUNDED_STEP_LOG2 = 3,
    BOUNDED_STEPS = 1 << BOUNDED_STEP_LOG2,
    BOUNDED_LEVELS = 23, /* the first one exact, then one each doubling up to 2^24 */
    BOUNDED_UNITS_MAX = 1 << 24,
    BOUNDED_LENGTH = (1 << 26) - 1, /* the bits of a unit's word that hold a length */
};

#define BOUNDED_NONE UINT32_MAX

/* What begins at a unit, in the upper bits of its word. */
enum piece_kind {
    PIECE_INSIDE = 0 << 26,
    PIECE_LIVE = 1 << 26,     /* a live block of `length` units              */
    PIECE_RUN = 2 << 26,      /* a free run                                  */
    PIECE_RUN_END = 3 << 26,  /* the last unit of a free run of two or more  */
    PIECE_FORMERLY = 4 << 26, /* inside a free run; a block that was freed began here */
};

/* The owner's. */
struct calm_bounded {
    char *start;     /* of unit 0 */
    uint32_t *units; /* kind and length */
    uint32_t *next;  /* of free runs in one list */
    uint32_t *before;
    uint32_t count;
    uint32_t free_units;
    uint32_t levels; /* bit l: steps[l] is not 0 */
    uint8_t steps[BOUNDED_LEVELS];
    uint32_t first[BOUNDED_LEVELS][BOUNDED_STEPS];
};

/* Walks the whole heap. */
verdict bounded_verify(const calm_bounded *heap);

#endif
