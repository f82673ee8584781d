/*
 * depot_parts.h: what the depot's sources share. Under the depot's lock, unless it says otherwise.
 */
#ifndef CALM_CORE_DEPOT_PARTS_H
#define CALM_CORE_DEPOT_PARTS_H

#include "core/depot.h"

/* The slab of a chunk if it is the depot's own, else NULL. */
struct slab *depot_own_slab(const struct depot *depot, size_t chunk);

/* The list for a slab of the class with so many free blocks. */
ALWAYS_INLINE unsigned depot_list_for(unsigned class, unsigned free_count)
{
    if (unlikely(free_count == class_facts[class].capacity))
        return LIST_EMPTY;
    if (unlikely(free_count == 0))
        return SLAB_UNLISTED;
    return (free_count - 1) >> class_facts[class].list_shift;
}

/* Puts a slab whose count of free blocks changed into the list it belongs to. */
void depot_relist(struct depot *depot, struct slab *slab);

/* Takes at most `want` blocks: of the fullest slabs, the lowest addresses first. */
size_t depot_take_listed(struct depot *depot, void **out, size_t want);

/* Keeps D1 when blocks became free, or are free no longer. */
void depot_count_free(struct depot *depot, size_t more, size_t fewer);

/* Takes a wholly free slab away from its depot; the caller counts its blocks off, and retires it
 * once the lock is released. */
void depot_orphan(struct depot *depot, struct slab *slab);
void depot_retire(struct slab *const *slabs, size_t count);

/* Notes whose cache came; true if others came before. Without the lock. */
bool depot_note_user(struct depot *depot, uint32_t user);

/* Puts blocks of the depot into the bitmaps, or aside while it is held. Without the lock. */
void depot_put_or_aside(struct depot *depot, void *const *blocks, size_t count);

#endif
