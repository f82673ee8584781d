/*
 * large.h: blocks above MEDIUM_MAX: whole units of the region, grown in place, or moved by the
 * kernel.
 *
 * The tag of the first unit says that a block begins there.
 */
#ifndef CALM_CORE_LARGE_H
#define CALM_CORE_LARGE_H

#include "base/facts.h"
#include "core/class.h"

/* Longer blocks move as they grow, shorter ones are copied. */
enum { LARGE_SHORT_UNITS = 512 };

/* Units of a block of `bytes` <= PTRDIFF_MAX, one at least: less than an eighth more than are
 * needed, as long as that is less than a chunk, or a unit, so that blocks are of few lengths and
 * one that was freed is soon asked for. Before the heap has started, as where pages are no longer
 * than a unit. */
ALWAYS_INLINE size_t large_units(size_t bytes)
{
    enum { EIGHTH = 3 };
    unsigned top = bit_highest(bytes | UNIT_BYTES << EIGHTH);
    top = top < CHUNK_SHIFT + EIGHTH ? top : CHUNK_SHIFT + EIGHTH;
    size_t step = size_max((size_t)1 << (top - EIGHTH), region.granule);
    return align_up(size_max(bytes, 1), step) >> UNIT_SHIFT;
}

/*
 * Takes a block of `units`, its first one a multiple of `align_units`, from the spans of `owner`
 * (mem/span.h), or gives it back. *is_zero, unless NULL, says whether it reads as zero. NULL: no
 * memory. Any thread.
 */
void *large_acquire(size_t units, size_t align_units, unsigned owner, bool *is_zero);
void large_release(void *block);

/* Clears the first `bytes` of a block, and returns it; or allocates as many that are zero, straight
 * from the spans. NULL: no memory. */
void *large_clear(void *block, size_t bytes);
void *large_alloc_zeroed(size_t bytes, unsigned owner);

/* Changes the size of a large block in place. False: it is not the owner's, or has no room;
 * nothing changed. */
bool large_resize_in_place(void *block, size_t bytes, unsigned owner);

/* Grows a large block by moving its pages to a span of the owner, if it is longer than
 * LARGE_SHORT_UNITS then. NULL: that cannot be done; nothing changed. */
void *large_move(void *block, size_t bytes, unsigned owner);

/* A block of dirty memory that has room to grow to `room` units in place. NULL: there is none. */
void *large_acquire_in_room(size_t units, size_t room, unsigned owner);

/* Has the free of a live large block told (core/sampled.h). */
void large_mark_sampled(void *block);

/* Tells the free of a large block, if that is wanted; then it is as any other. */
void large_tell_free(void *block);
bool large_is_sampled(const void *block);

/* Whose units the large block has; 0 is nobody. */
ALWAYS_INLINE unsigned large_owner(const void *block)
{
    return region.tags[region_unit(block)].owner;
}

/* From now on the tag says that no block begins there, though the units are in no span. False: it
 * was free, also where several threads come at once. Or it is taken up again, for all of its units.
 */
bool large_lay_aside(void *block);
void large_take_up(void *block);

/* Notes which site asked for a block, for reports; or, where it is not known whether it is a live
 * large one, if it is. */
ALWAYS_INLINE void large_note_site(void *block, const void *site)
{
    store(&region.tags[region_unit(block)].site, (uintptr_t)site, RELAXED);
}

ALWAYS_INLINE void large_note_site_if(void *block, const void *site)
{
    if (block != NULL && region_holds(region_chunk(block)) && region_is_large(block))
        large_note_site(block, site);
}

/* Notes how many units were asked for: a block that grows may be longer. Written only when it
 * changes, as others read the line. */
ALWAYS_INLINE void large_note_asked(void *block, size_t units)
{
    struct span_tag *tag = &region.tags[region_unit(block)];
    if (unlikely(load(&tag->asked, RELAXED) != units))
        store(&tag->asked, (uint32_t)units, RELAXED);
}

/* Usable bytes of the large block at `block`: the units that were asked for. */
size_t large_usable(const void *block);

/* Units that it has. */
size_t large_length(const void *block);

/* Large blocks that are out, and their bytes; what the shelf holds is among them. */
size_t large_count(void);
size_t large_bytes(void);

extern const struct watch_fact large_facts[];

#endif
