/*
 * shelf.h: large blocks of up to SPAN_UNITS_MAX units that were freed and are kept whole for a
 * while.
 *
 * A program that frees a block of some hundred KiB often asks for one of the same size next; on the
 * shelf it keeps its pages and is not merged and cut again. What all shelves hold is bounded, and
 * the purger empties those that lie idle.
 */
#ifndef CALM_CORE_SHELF_H
#define CALM_CORE_SHELF_H

#include "base/facts.h"

/* Takes a block of `units`, or a longer one off a shelf (span_units_given), marked in the map;
 * NULL: no memory. Its contents are unspecified. */
void *shelf_take(size_t units);

/* As shelf_take, but only of exactly `units`, and what lies on the shelf. */
void *shelf_pop(size_t units);

/* Puts blocks of `units` on the shelf, or back to the spans where it is full. Needs no memory. */
void shelf_give(size_t units, void *const *blocks, size_t count);

/* Whether `block` lies on the shelf of `units`. */
bool shelf_holds(size_t units, const void *block);

/* Gives back what lies on the shelves; all, or what was not touched since the last call. Returns
 * blocks given back. */
size_t shelf_drain(bool is_all);

/* Before the region grows: gives all back if it is much beside the region. Whether it was. */
bool shelf_drain_for_growth(void);

/* Bytes on all shelves. */
size_t shelf_bytes(void);

extern const struct watch_fact shelf_facts[];

void shelf_fork_lock(void);
void shelf_fork_unlock(void);
void shelf_fork_reset(bool is_locked);

#endif
