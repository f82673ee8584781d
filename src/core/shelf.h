/*
 * shelf.h: large blocks of up to SPAN_UNITS_MAX units that were freed and are kept whole for a
 * while: one shelf for each length, or, where cohorts are apart, for the owners of some rows.
 *
 * A program that frees a block of some hundred KiB often asks for one of the same size next; on the
 * shelf it keeps its pages and is not merged and cut again. What all shelves hold is bounded, and
 * the purger empties those that lie idle.
 */
#ifndef CALM_CORE_SHELF_H
#define CALM_CORE_SHELF_H

#include "base/facts.h"

/* Takes a block of `units` <= SPAN_UNITS_MAX and of `owner` (mem/span.h) off a shelf, or a longer
 * one (span_units_given), marked in the map; NULL: there is none. Its contents are unspecified. */
void *shelf_find(size_t units, unsigned owner);

/* The same, or else from the spans. NULL: no memory. */
void *shelf_take(size_t units, unsigned owner);

/* Puts blocks of `units` on the shelf, each of its owner, or back to the spans where it is full.
 * Needs no memory. */
void shelf_give(size_t units, void *const *blocks, size_t count);

/* Whether `block`, of `units`, lies on its shelf. */
bool shelf_holds(size_t units, const void *block);

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
