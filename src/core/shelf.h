/*
 * shelf.h: large blocks of up to SHELF_UNITS_MAX units that were freed and are kept whole for a
 * while: eight of each length in each home (core/home.h).
 *
 * A program that frees a large block often asks for one of the same size next; on the shelf it
 * keeps its pages and is not merged and cut again. No thread owns a shelf, so what lies there is
 * anybody's to take and to give back, however long the thread that freed it sleeps. The purger
 * empties shelves that hold more than is taken again, and those that lie idle.
 */
#ifndef CALM_CORE_SHELF_H
#define CALM_CORE_SHELF_H

#include "base/facts.h"

enum { SHELF_UNITS_MAX = 1024 };

/* A block of so many units, of an owner (mem/span.h), at a multiple of `align`, a power of two that
 * is a unit or more; or one of `room` to `room_most` units, of which the caller gives back the
 * rest.
 */
struct shelf_wish {
    size_t units;
    unsigned owner;
    size_t align;
    size_t room, room_most; /* 0: none is wished */
};

/* Takes such a block off a shelf, or a longer one: large_units_given(), or an eighth more above
 * LARGE_SHORT_UNITS. Live in the map; NULL: there is none. Its contents are unspecified. Any
 * thread, also before the heap has started. */
void *shelf_find(struct shelf_wish wish);

/* Frees a large block: puts it on a shelf, or back to the spans where it is too long or the shelves
 * of its length are full. Needs no memory. False: it was free already, and is untouched; of threads
 * that free one block at once all but one are told so. */
bool shelf_give(void *block);

/* Gives back what lies on the shelves; all, or what was not touched since the last call. Returns
 * blocks given back. */
size_t shelf_drain(bool is_all);

/* Before the region grows for `units`: gives all back if it is as much, and much beside the
 * region. Whether it was. */
bool shelf_drain_for_growth(size_t units);

/* Bytes on all shelves, as far as it can be read while others work. Cost: a look at each slot of
 * those that have blocks. */
size_t shelf_bytes(void);

extern const struct watch_fact shelf_facts[];

#endif
