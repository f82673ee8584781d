/*
 * shelf.h: large blocks of up to SHELF_UNITS_MAX units that were freed and are kept whole for a
 * while: a shelf for each length, or, where cohorts are apart, for the owners of some rows.
 *
 * A program that frees a large block often asks for one of the same size next; on the shelf it
 * keeps its pages and is not merged and cut again. The purger empties shelves that hold more than
 * is taken again, and those that lie idle.
 */
#ifndef CALM_CORE_SHELF_H
#define CALM_CORE_SHELF_H

#include "base/facts.h"

enum { SHELF_UNITS_MAX = 1024 };

/* A block of so many units, of an owner (mem/span.h), at a multiple of `align`, a power of two that
 * is a unit or more. */
struct shelf_wish {
    size_t units;
    unsigned owner;
    size_t align;
};

/* Takes such a block off a shelf, or a longer one: span_units_given(), or an eighth more of those
 * that caches do not hold. Marked in the map; NULL: there is none. Its contents are unspecified. */
void *shelf_find(struct shelf_wish wish);

/* The same, or else from the spans. NULL: no memory. */
void *shelf_take(struct shelf_wish wish);

/* Puts a block on its shelf, as a free one, or back to the spans where it is too long or the shelf
 * full. Needs no memory. */
void shelf_give(void *block);

/* Gives back what lies on the shelves; all, or what was not touched since the last call. Returns
 * blocks given back. */
size_t shelf_drain(bool is_all);

/* Before the region grows for `units`: gives all back if it is as much, and much beside the
 * region. Whether it was. */
bool shelf_drain_for_growth(size_t units);

/* Bytes on all shelves. */
size_t shelf_bytes(void);

extern const struct watch_fact shelf_facts[];

void shelf_fork_lock(void);
void shelf_fork_unlock(void);
void shelf_fork_reset(bool is_locked);

#endif
