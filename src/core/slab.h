/*
 * slab.h: one chunk cut into equal blocks, with its bitmap of free blocks far from them.
 *
 * A bit is set while its block lies in the depot. A block that is live, cached or in a batch has a
 * clear bit.
 */
#ifndef CALM_CORE_SLAB_H
#define CALM_CORE_SLAB_H

#include "base/bits.h"
#include "base/check.h"
#include "base/facts.h"
#include "core/class.h"

enum { SLAB_UNLISTED = 255 };

/* `dropped` has a bit for each of these, whatever the OS page. */
enum { SUB_PAGE = 4096 };

struct slab {
    /* Constant from carve to retire. */
    uint32_t chunk;
    uint16_t capacity;

    /* Under the depot's lock. */
    bin_index bin; /* changes when the slab moves to another cohort                           */
    uint16_t free_count; /* B1: popcount(free_map) == free_count <= capacity          */
    uint8_t list;        /* which of the depot's lists, or SLAB_UNLISTED              */
    bool is_pinned;      /* the purger has some of its free blocks: it stays here     */
    uint32_t next;       /* in the list, as chunk numbers; 0 is none                   */
    uint32_t previous;
    uint32_t tick;          /* purge tick of the last change                             */
    uint32_t dropped;       /* by page of the chunk: nothing resident, unless used since  */
    _Atomic uint32_t below; /* among unused ones, as numbers of metadata                */

    /* Of core/stray.h, lock-free; the map is made with the bookkeeping and stays with it. */
    _Atomic uint64_t *strays; /* a bit for each block                       */
    _Atomic uint32_t below_stray;
    _Atomic uint32_t has_strays; /* it is in a stack, or on its way into one or out of it */
    uint32_t lines;              /* of the bookkeeping, constant                          */

    /* Under the depot's lock. B3: every free block below it has the mark (core/mark.h), so that a
     * free of one is found without a look at the bitmap. The chunk map has it as a limit. */
    uint16_t marked;
    uint16_t unused;
    uint32_t padding[2];
    _Atomic uint64_t free_map[]; /* written under the lock; slab_is_free() only looks */
};
_Static_assert(offsetof(struct slab, free_map) == 64,
               "one line for the facts, the next for the map");

/* Cuts a fresh chunk into blocks of `bin`, all free. Whoever gets it for the depot enters it in the
 * map. NULL: no memory. */
struct slab *slab_carve(unsigned bin);

/* Gives the chunk back. Pre: all blocks free, no depot knows the slab any more. Not under a depot's
 * lock. */
void slab_retire(struct slab *slab);

/* Takes at most `want` blocks, lowest addresses first and whole lines at a time; all are marked.
 * Returns how many. */
size_t slab_take(struct slab *slab, void **out, size_t want);

/* As if all blocks of a fresh slab had been taken: the caller hands them out. */
void slab_clear(struct slab *slab);

/* Before the pages of blocks from number `block` on lose their marks. */
void slab_unmark_from(struct slab *slab, unsigned block);

/* Sets the bit of block number `block`. False: it was set already, so the block was freed twice. */
ALWAYS_INLINE bool slab_put(struct slab *slab, unsigned block)
{
    uint64_t bit = (uint64_t)1 << block % 64;
    uint64_t map = load(&slab->free_map[block / 64], RELAXED);
    if (unlikely((map & bit) != 0))
        return false;
    store(&slab->free_map[block / 64], map | bit, RELAXED);
    slab->free_count++;
    return true;
}

/* The same for `count` > 0 blocks of one word of the bitmap, from the lowest on. False: at least
 * one was set already, and none is now. */
ALWAYS_INLINE bool slab_put_run(struct slab *slab, unsigned lowest, size_t count)
{
    uint64_t bits = bits_below(count) << lowest % 64;
    uint64_t map = load(&slab->free_map[lowest / 64], RELAXED);
    if (unlikely((map & bits) != 0))
        return false;
    store(&slab->free_map[lowest / 64], map | bits, RELAXED);
    slab->free_count = (uint16_t)(slab->free_count + count);
    return true;
}

/*
 * Notes that so many sub-pages of slabs were dropped; about how many bytes of such pages were used
 * again before slab_forget_dropped() was called, each call of which halves them. Any thread.
 */
void slab_note_dropped(size_t pages);
size_t slab_regret_bytes(void);
void slab_forget_dropped(void);

/* After slab_take(), without a lock: holds dropped pages that were taken against the clock. */
void slab_settle_taken(void);

/* How many free blocks have the mark. Pre: one word is the whole bitmap. */
ALWAYS_INLINE unsigned slab_count_marked(const struct slab *slab)
{
    uint64_t marked = slab->marked == 0 ? 0 : bits_below(slab->marked);
    return bit_count(load(&slab->free_map[0], RELAXED) & marked);
}

/* Without the lock it is exact for a block that nobody else frees. */
ALWAYS_INLINE bool slab_is_free(const struct slab *slab, unsigned block)
{
    return (load(&slab->free_map[block / 64], RELAXED) >> block % 64 & 1) != 0;
}

/* As many as the bitmap has, rounded up to lines. */
ALWAYS_INLINE size_t slab_stray_words(const struct slab *slab)
{
    return (slab->lines - 1) * (size_t)(CACHE_LINE_BYTES / sizeof(uint64_t));
}

verdict slab_verify(const struct slab *slab);

extern const struct watch_fact slab_facts[];

ALWAYS_INLINE struct slab *slab_of_chunk(size_t chunk)
{
    return (struct slab *)region.tags[chunk * CHUNK_UNITS].slab;
}

ALWAYS_INLINE char *slab_start(const struct slab *slab)
{
    return region_chunk_address(slab->chunk);
}

#endif
