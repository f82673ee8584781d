/*
 * depot_parts.h: shared by the depot's sources. Callers hold the depot's lock unless a comment says
 * otherwise.
 */
#ifndef CALM_CORE_DEPOT_PARTS_H
#define CALM_CORE_DEPOT_PARTS_H

#include "core/depot.h"

/* The chunk's slab if this depot owns it, else NULL. */
struct slab *depot_own_slab(const struct depot *depot, size_t chunk);

/* The list for a slab of the class with `free_count` free blocks. */
ALWAYS_INLINE unsigned depot_list_for(unsigned class, unsigned free_count)
{
    if (unlikely(free_count == class_facts[class].capacity))
        return LIST_EMPTY;
    if (unlikely(free_count == 0))
        return SLAB_UNLISTED;
    return (free_count - 1) >> class_facts[class].list_shift;
}

/* Moves a slab whose free_count changed to the list for that count. */
void depot_relist(struct depot *depot, struct slab *slab);

/* Takes at most `want` blocks: the fullest slabs first, lowest addresses first. */
size_t depot_take_listed(struct depot *depot, void **out, size_t want);

/* Adds `more` - `fewer` to the counts of free blocks (D1). */
void depot_count_free(struct depot *depot, size_t more, size_t fewer);

/* Detaches a wholly free slab from its depot. The caller subtracts the slab's blocks from the
 * counts, and retires the slab after releasing the lock. */
void depot_orphan(struct depot *depot, struct slab *slab);

/* depot_chain: links a detached slab before others, NULL if none, and returns it. depot_retire:
 * retires a chain; not under the lock. Returns how many slabs. */
static inline struct slab *depot_chain(struct slab *slab, const struct slab *others)
{
    slab->next = others == NULL ? 0 : others->chunk;
    return slab;
}
size_t depot_retire(struct slab *chain);

/* Writes the addresses of `count` neighbours, from the lowest up. */
static inline void depot_list_run(void **out, size_t count, char *lowest, size_t bytes)
{
    for (size_t i = 0; i < count; i++)
        out[i] = lowest + i * bytes;
}

/* Records the caller's cache. True: several caches have used the depot. Without the lock. */
bool depot_note_user(struct depot *depot, uint32_t user);

/* Puts blocks into the bitmaps, or sets them aside (batch or deferred frees) while another thread
 * holds the lock. Without the lock. */
void depot_put_or_defer(struct depot *depot, void **blocks, size_t count);

#endif
