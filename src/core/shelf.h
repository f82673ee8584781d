/*
 * shelf.h: the eight large blocks of up to SHELF_UNITS_MAX units that were freed last, whole.
 *
 * A program that frees a buffer often asks for one of the same size next; on the shelf it keeps its
 * pages and is not merged and cut again. No thread owns the shelf: what lies there is anybody's to
 * take and to give back, however long the thread that freed it sleeps. What is not asked for soon
 * makes room for others; the purger empties slots that lie idle, and all of them when the heap has
 * more dirty memory than the program takes again.
 */
#ifndef CALM_CORE_SHELF_H
#define CALM_CORE_SHELF_H

#include "base/facts.h"

enum { SHELF_UNITS_MAX = 128 }; /* 1 MiB: for longer ones a look at the spans is little */

/* A block of so many units, of an owner (mem/span.h), at a multiple of `align`, a power of two that
 * is a unit or more. */
struct shelf_wish {
    size_t units;
    unsigned owner;
    size_t align;
};

/* Takes such a block off the shelf. Live in the map; NULL: there is none. Its contents are
 * unspecified. Any thread, also before the heap has started. */
void *shelf_find(struct shelf_wish wish);

/* Frees a large block: puts it on the shelf, in place of the oldest one where that is full, or back
 * to the spans where it is too long. Needs no memory. False: it was free already, and is untouched;
 * of threads that free one block at once all but one are told so. */
bool shelf_give(void *block);

/* Gives back what lies on the shelf; all, or what lay there at the last such call, too. Returns
 * blocks given back. Under the purger's turn, unless it is all. */
size_t shelf_drain(bool is_all);

/* Before the region grows for `units`: gives all back if it is as much. Whether it was. */
bool shelf_drain_for_growth(size_t units);

/* Bytes on the shelf, as far as it can be read while others work. */
size_t shelf_bytes(void);

extern const struct watch_fact shelf_facts[];

#endif
