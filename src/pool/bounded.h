/*
 * bounded.h: the parts of a bounded heap.
 *
 * Memory is divided into units of 64 bytes. A run is a sequence of units that is one live block or
 * one free run. Metadata is in arrays by unit, separate from the memory. Free runs are listed by
 * length: exactly below 8 units, then 8 lists for each doubling.
 *
 * Invariants, checked by bounded_verify():
 *   B1 runs follow one another without a gap; no two neighbours are both free.
 *   B2 a free run of two or more units has its length at both ends.
 *   B3 every free run is in the list of its length; the bits tell which lists are not empty.
 */
#ifndef CALM_POOL_BOUNDED_H
#define CALM_POOL_BOUNDED_H

#include "base/bits.h"
#include "base/check.h"
#include "calmalloc/pool.h"

enum {
    BOUNDED_STEP_LOG2 = 3,
    BOUNDED_STEPS = 1 << BOUNDED_STEP_LOG2,
    BOUNDED_LEVELS = 23, /* one exact, then one for each doubling up to 2^24 */
    BOUNDED_UNITS_MAX = 1 << 24,
    BOUNDED_LENGTH = (1 << 26) - 1, /* mask of the length in a unit's word */
};

#define BOUNDED_NONE UINT32_MAX

/* The kind of unit, in the upper bits of its word. */
enum piece_kind {
    PIECE_INSIDE = 0 << 26,
    PIECE_LIVE = 1 << 26,    /* first unit of a live block, with its length */
    PIECE_RUN = 2 << 26,     /* first unit of a free run, with its length   */
    PIECE_RUN_END = 3 << 26, /* last unit of a free run of two or more      */
    PIECE_FREED = 4 << 26,   /* inside a free run; a freed block began here */
};

/* The owner's. */
struct calm_bounded {
    char *start;     /* of unit 0 */
    uint32_t *units; /* kind and length of each unit */
    uint32_t *next;  /* in the list of free runs */
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
