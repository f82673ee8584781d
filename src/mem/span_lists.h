/*
 * span_lists.h: the lists of free spans, for span.c, which changes them, and span_lists.c, which
 * verifies them.
 *
 * One list for each length up to EXACT_MAX units, then EIGHTHS lists a doubling.
 */
#ifndef CALM_MEM_SPAN_LISTS_H
#define CALM_MEM_SPAN_LISTS_H

#include "base/bits.h"
#include "mem/span.h"

enum {
    EXACT_MAX = 32,
    EIGHTHS = 8,
    DOUBLINGS = 24,
    LIST_COUNT = EXACT_MAX + EIGHTHS * DOUBLINGS,
    LIST_WORDS = (LIST_COUNT + 63) / 64,
};

struct span_lists {
    uint64_t used[LIST_WORDS]; /* which lists are not empty */
    uint32_t heads[LIST_COUNT];
};

/* An owner's, of dirty or of clean spans. */
struct span_lists *span_lists_of(unsigned owner, unsigned state);

static inline unsigned span_list_of(size_t units)
{
    if (units <= EXACT_MAX)
        return (unsigned)units - 1;
    unsigned top = bit_highest(units);
    return EXACT_MAX + (top - 5) * EIGHTHS + (unsigned)(units >> (top - 3) & (EIGHTHS - 1));
}

/* Whether a free span of `state` and `owner` begins or ends at the unit. */
static inline bool span_is_alike(size_t unit, unsigned state, unsigned owner)
{
    return region.tags[unit].state == state && region.tags[unit].owner == owner;
}

/* Invariants S1 to S6 (span.c). Under the spans' lock; `owned_units` by owner. */
verdict span_lists_verify(const _Atomic uint32_t *owned_units, size_t dirty_units);

#endif
