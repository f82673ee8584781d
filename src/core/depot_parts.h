/*
 * depot_parts.h: what the depot's sources share. Under the depot's lock, but for the last.
 */
#ifndef CALM_CORE_DEPOT_PARTS_H
#define CALM_CORE_DEPOT_PARTS_H

#include "core/depot.h"

/* The slab of a unit if it is the depot's own, else NULL. */
struct slab *depot_own_slab(const struct depot *depot, size_t unit);

/* Puts a slab whose count of free blocks changed into the list it belongs to. */
void depot_relist(struct depot *depot, struct slab *slab);

/* Keeps D1 when blocks became free, or are free no longer. */
void depot_count_free(struct depot *depot, size_t more, size_t fewer);

/* Puts blocks of the depot into the bitmaps, or aside while it is held. */
void depot_put_or_aside(struct depot *depot, void *const *blocks, size_t count);

#endif
