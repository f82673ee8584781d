/*
 * large.h: blocks above MEDIUM_MAX: whole units of the region, which grow in place or are moved by
 * the kernel.
 *
 * The first unit's tag says that a block begins there.
 */
#ifndef CALM_CORE_LARGE_H
#define CALM_CORE_LARGE_H

#include "base/facts.h"
#include "core/class.h"

/* Blocks that grow beyond this are moved by the kernel; shorter ones are copied. */
enum { LARGE_SHORT_UNITS = 512 };

/* Units of a block of `bytes` <= PTRDIFF_MAX, at least one. Rounded up to a multiple of an eighth
 * of the power of two below `bytes`, of a chunk at most, and of a unit and the granule at least:
 * with few lengths, a freed block soon fits a request. Before the heap starts, the granule counts
 * as a unit. */
ALWAYS_INLINE size_t large_units(size_t bytes)
{
    enum { EIGHTH = 3 };
    unsigned top = bit_highest(bytes | UNIT_BYTES << EIGHTH);
    top = top < CHUNK_SHIFT + EIGHTH ? top : CHUNK_SHIFT + EIGHTH;
    size_t step = size_max((size_t)1 << (top - EIGHTH), region.granule);
    return align_up(size_max(bytes, 1), step) >> UNIT_SHIFT;
}

/*
 * large_acquire takes a block of `units`, its first unit a multiple of `align_units`, from the
 * spans of `owner` (mem/span.h); large_release frees a block to them. *is_zero, unless NULL:
 * whether the block reads as zero. NULL: no memory. Any thread.
 */
void *large_acquire(size_t units, size_t align_units, unsigned owner, bool *is_zero);
void large_release(void *block);

/* large_clear zeroes the first `bytes` of a block and returns it. large_alloc_zeroed takes a zeroed
 * block from the spans; NULL: no memory. */
void *large_clear(void *block, size_t bytes);
void *large_alloc_zeroed(size_t bytes, unsigned owner);

/* Whether a block that grows in place takes pages that are not resident. A hint, without a lock. */
bool large_grows_fresh(const void *block);

/* Resizes a large block in place. False: another owner's block, or no room; nothing changed. */
bool large_resize_in_place(void *block, size_t bytes, unsigned owner);

/* Grows a large block beyond LARGE_SHORT_UNITS by moving its pages to a span of the owner. NULL:
 * not possible; the block is unchanged. */
void *large_move(void *block, size_t bytes, unsigned owner);

/* A block of dirty memory with room to grow to `room` units in place. NULL: none. */
void *large_acquire_in_room(size_t units, size_t room, unsigned owner);

/* The free of the live large block will call sampled_on_free (core/sampled.h). */
void large_mark_sampled(void *block);

/* Calls sampled_on_free if the large block is marked as sampled, and clears that mark. */
void large_report_free(void *block);
bool large_is_sampled(const void *block);

/* The owner of the large block's units; 0: nobody. */
ALWAYS_INLINE unsigned large_owner(const void *block)
{
    return region.tags[region_unit(block)].owner;
}

/* large_claim clears the tag's is_large; the units join no span. False: the block was free
 * already; of concurrent calls one gets true. large_revive makes the block live again, with all
 * its units. */
bool large_claim(void *block);
void large_revive(void *block);

/* Records the site that requested a block, for reports. large_note_site_if accepts any pointer, and
 * ignores what is not a live large block. */
ALWAYS_INLINE void large_note_site(void *block, const void *site)
{
    store(&region.tags[region_unit(block)].site, (uintptr_t)site, RELAXED);
}

ALWAYS_INLINE void large_note_site_if(void *block, const void *site)
{
    if (block != NULL && region_holds(region_chunk(block)) && region_is_large(block))
        large_note_site(block, site);
}

/* Records how many units were requested; a block that grows may be longer. Writes only a change,
 * since other threads read the line. */
ALWAYS_INLINE void large_note_asked(void *block, size_t units)
{
    struct span_tag *tag = &region.tags[region_unit(block)];
    if (unlikely(load(&tag->asked, RELAXED) != units))
        store(&tag->asked, (uint32_t)units, RELAXED);
}

/* Usable bytes of a large block: the requested units. */
size_t large_usable(const void *block);

/* Units of a large block, the unrequested ones included. */
size_t large_length(const void *block);

/* Live large blocks and their bytes, those in the large cache included. */
size_t large_count(void);
size_t large_bytes(void);

extern const struct watch_fact large_facts[];

#endif
