/*
 * slab.h: one chunk cut into equal blocks; the bitmap of free blocks lies far from them, in
 * metadata.
 *
 * A bit is set while its block is free in the slab. The bit is clear while the block is live,
 * cached, in a batch, deferred, or claimed by the purger.
 */
#ifndef CALM_CORE_SLAB_H
#define CALM_CORE_SLAB_H

#include "base/bits.h"
#include "base/check.h"
#include "base/facts.h"
#include "core/class.h"

enum { SLAB_UNLISTED = 255 };

/* `dropped` has a bit for each sub-page, for any OS page size. */
enum { SUB_PAGE = 4096 };

struct slab {
    /* Constant from carve to retire. */
    uint32_t chunk;
    uint16_t capacity;

    /* Under the depot's lock. */
    bin_index bin;       /* changes when the slab moves to another row */
    uint16_t free_count; /* B1: popcount(free_map) == free_count <= capacity */
    uint8_t list;        /* the depot's list, or SLAB_UNLISTED */
    bool is_pinned;      /* the purger has claimed blocks: the slab stays with its depot */
    uint32_t next;       /* links of the list, as chunk numbers; 0 is none */
    uint32_t previous;
    uint32_t tick;          /* purge tick of the last change */
    uint32_t dropped;       /* by sub-page: not resident: purged or never used */
    _Atomic uint32_t below; /* lock-free: the next unused slab, by number of its metadata */

    /* Of core/deferred.h, lock-free. The map is made with the metadata and stays with it. */
    _Atomic uint64_t *deferred; /* a bit for each block */
    _Atomic uint32_t below_deferred;
    _Atomic uint32_t has_deferred; /* 1: in a stack, or on the way into or out of one */
    uint32_t lines;                /* cache lines of the metadata, constant */

    /* Under the depot's lock, or hand_out()'s before the map names the slab. B3: every free block
     * with a number below `marked` has the mark (core/mark.h), so a double free shows without a
     * look at the bitmap. The chunk map holds `marked` as a limit. */
    uint16_t marked;
    uint16_t unused;
    uint32_t padding[2];
    _Atomic uint64_t free_map[]; /* written under the lock; slab_is_free() reads without */
};
_Static_assert(offsetof(struct slab, free_map) == 64,
               "one line for the facts, the next for the map");

/* Cuts a fresh chunk into blocks of `bin`, all free. The depot that adopts the slab enters it in
 * the chunk map. NULL: no memory. */
struct slab *slab_carve(unsigned bin);

/* Releases the chunk to the spans. Pre: all blocks free, no depot owns the slab. Not under a
 * depot's lock. */
void slab_retire(struct slab *slab);

/* Takes and marks at most `want` blocks, lowest addresses first. Returns how many. */
size_t slab_alloc(struct slab *slab, void **out, size_t want);

/* Takes and marks all blocks of a fresh slab; the caller hands them out. */
void slab_clear(struct slab *slab);

/* Lowers `marked` to `block` before a purge clears the marks from there on. */
void slab_unmark_from(struct slab *slab, unsigned block);

/* Sets the bit of block number `block`. False: already set, so the block was freed twice. */
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

/* Sets the bits of `count` > 0 blocks of one bitmap word, from `lowest` on. False: at least one was
 * already set, and no bit has changed. */
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

/* slab_note_dropped() records purged sub-pages of slabs. slab_refault_bytes() estimates the bytes
 * of them that refaulted. slab_forget_dropped() ends the window and halves the estimate. Any
 * thread.
 */
void slab_note_dropped(size_t pages);
size_t slab_refault_bytes(void);
void slab_forget_dropped(void);

/* Call after slab_alloc(), without a lock: counts refaults, which needs the clock. */
void slab_settle_refaults(void);

/* The number of free blocks with the mark. Pre: the bitmap is one word. */
ALWAYS_INLINE unsigned slab_count_marked(const struct slab *slab)
{
    uint64_t marked = slab->marked == 0 ? 0 : bits_below(slab->marked);
    return bit_count(load(&slab->free_map[0], RELAXED) & marked);
}

/* Exact without the lock for a block that no other thread frees. */
ALWAYS_INLINE bool slab_is_free(const struct slab *slab, unsigned block)
{
    return (load(&slab->free_map[block / 64], RELAXED) >> block % 64 & 1) != 0;
}

/* Words of the deferred map: the bitmap's, rounded up to lines. */
ALWAYS_INLINE size_t slab_deferred_words(const struct slab *slab)
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
