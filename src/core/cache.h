/*
 * cache.h: arrays of free blocks, one for each bin, that a thread, or the threads of one core, use
 * without synchronising.
 *
 * A cache is one piece of memory: the entries, row by row, the head, and the arrays. The first
 * arrays share the head's page. Arrays are found by 32-bit offsets from the start of the cache. In
 * a thread's cache an entry holds the newest block itself, `first`, so that a block that alternates
 * between free and malloc passes through one word. A push moves the old `first` to the array; a pop
 * moves the newest pointer of the array to `first`. The first push onto an empty bin moves a NULL,
 * which the last pop moves back to `first`: the array never runs out before `first` does. A per-CPU
 * cache allows one store only, so its `first` is unused; the array's slot 0, which is NULL, ends
 * the array.
 *
 * A cache that is all zeros is valid and empty: `first` is NULL and limit 0 refuses every push. So
 * the fast paths need no test for "empty", "no array yet" or "no cache yet".
 *
 * Readers of other threads (the exact check of a suspected double free, statistics) load the words
 * that the owner writes; see docs/protocols/cache.md.
 */
#ifndef CALM_CORE_CACHE_H
#define CALM_CORE_CACHE_H

#include "base/atomic.h"
#include "base/bits.h"
#include "core/class.h"
#include "core/cores.h"
#include "core/mark.h"
#include "core/search.h"

enum {
    CACHE_BYTES = (BLOCKS_FIXED == 0 ? 3 : 12) * 512 * 1024,
    SLOTS_LOG2_MIN = 3, /* an array is at least a cache line */
    SLOTS_LOG2_MAX = 10,
    SLOT_BYTES = 8,
};

/* `first`: the newest block, or NULL; always NULL in a per-CPU cache, whose newest block is in slot
 * `top`. `top`: offset of the last slot in use; of the array's start when the entry is empty.
 * `limit`: offset of the last usable slot, plus the log2 of the array's size in the low bits. */
struct cache_entry {
    void *_Atomic first;
    _Atomic uint32_t top;
    uint32_t limit;
};
_Static_assert(BLOCKS_FIXED >= 0 && BLOCKS_FIXED < 1 << SLOTS_LOG2_MAX, "an array has a slot more");
_Static_assert(sizeof(struct cache_entry) == ENTRY_BYTES, "class tables hold offsets in these");
_Static_assert(offsetof(struct cache_entry, top) == 8 && offsetof(struct cache_entry, limit) == 12,
               "the sequences of os/rseq.h know where these are");

/* A cache's data for a row, stored where the row's entries without a class would be. */
struct cache_row {
    struct cache_entry below[CLASS_COUNT];
    uint64_t used_bins;           /* bit by class: the bin has an array */
    uint64_t recent_bins;         /* bit by class: missed since the clock hand passed */
    uint8_t flushes[CLASS_LIMIT]; /* by class: flushes since the last miss */
};
_Static_assert(sizeof(struct cache_row) == CLASS_LIMIT * ENTRY_BYTES,
               "entries and rows are the same memory");

/* State of core/armed.h for a class. `starts`: the sum of the start offsets of two arrays, the
 * bin's and its armed entry's; the sum stays when the two entries swap arrays. */
struct armed_class {
    uint64_t unarmed; /* requests before the next sample, besides those that armed blocks serve */
    int32_t worth;    /* arm above this many bytes of slots; ARMED_NEVER: `starts` is stale */
    uint32_t starts;
};
enum { ARMED_NEVER = INT32_MAX };

/* Who may change a cache. CACHE_SPARE: nobody. CACHE_IN_SLOT: the sequences of its core.
 * CACHE_OWNED or more: its owner; in a per-CPU cache the other bits name the owning thread. */
enum cache_state { CACHE_SPARE, CACHE_IN_SLOT, CACHE_OWNED };

struct cache {
    /* Entry 0 belongs to no class: its `first`, always NULL, is the slot at offset 0. */
    union {
        _Alignas(4096) struct cache_entry entries[BIN_LIMIT];
        struct cache_row rows[ROW_LIMIT];
    };

    /* Constant. */
    struct cache *below; /* the cache made before this one */
    uint32_t number;     /* from 1 */
    bool is_for_cores;   /* a per-CPU cache */
    uint8_t home;        /* home of the owning thread; unused in a per-CPU cache */

    _Atomic uintptr_t state;

    _Atomic uint32_t below_unused; /* next in a stack of core/thread.c, by meta_number() */

    /* Written by the owner. */
    uint32_t core;          /* core whose slot holds the cache */
    uint32_t arena_used;    /* offset of the first byte no array ever used */
    uint32_t hand;          /* clock hand: row where the search for idle bins resumes */
    uint32_t refusals;      /* refused growths so far */
    uint32_t tick;          /* depot_tick seen last */
    _Atomic uint32_t edits; /* not 0 while arrays change; read after a fork */
    size_t capacity_bytes;  /* bytes of blocks that the arrays have room for */
    uint32_t free_arrays[SLOTS_LOG2_MAX + 1]; /* by log2 of slots; linked by first word */
    uint64_t used_rows[ROW_LIMIT / 64];       /* bit by row: used_bins is not 0 */

    uint32_t forks;        /* generation of the process that knows the owner (core/thread.c) */
    bool is_counted_heavy; /* counted in heavy_caches: capacity is high (core/thread.c) */
    bool has_sampled;      /* core/sampled_small.h put blocks on entries without arrays */

    /* State of core/armed.h, which counts requests for site/sample.c. */
    uint32_t armed_start; /* sampling start that the other armed fields belong to */
    uint64_t armed_drawn; /* bit by class: `unarmed` is valid */
    uint64_t armed_more;  /* bit by class: may get more blocks at its next draw */
    struct armed_class armed[CLASS_LIMIT];
    uint32_t unarmed_seen[CLASS_LIMIT]; /* `unarmed` at the class's last flush */
    uint8_t armed_shift[CLASS_LIMIT]; /* `unarmed` was drawn at the sampling rate times 2 to this */

    _Alignas(CACHE_LINE_BYTES) char arena[];
};
_Static_assert(offsetof(struct cache, entries) == 0, "the slot of offset 0 is NULL");
_Static_assert(offsetof(struct cache, arena) - sizeof(struct cache_entry[BIN_LIMIT]) < 2048,
               "small arrays share the head's page");
_Static_assert(offsetof(struct cache, arena) < CACHE_BYTES * 11 / 16, "arrays need the rest");

/* The cache of a thread without a cache: always empty, and it refuses every push. */
extern struct cache cache_none;

/* Slow paths. They preserve errno. cache_alloc_slow returns NULL when there is no memory. */
void *cache_alloc_slow(uint32_t entry_offset);
void cache_free_slow(void *block);

/* A block without its mark: cache_replace was passed a block already taken from the entry at
 * `entry_offset`, cache_replace_first takes the entry's `first`. Reports the block, leaves it
 * unused and returns another; without memory the block itself, so that a fast path needs no test.
 */
NEVER_NULL void *cache_replace(void *spoiled, size_t entry_offset);
NEVER_NULL void *cache_replace_first(size_t entry_offset);

/* Clears the mark of a block that a slow path hands out. False: the block had no mark, and was
 * reported. */
bool cache_unmark(void *block, unsigned bin);

/* Flushes every block to the depots and frees all arrays. Owner, or anyone when there is no owner.
 */
void cache_empty(struct cache *cache);

/* Whether the block lies in the cache's array of `bin`. Exact for a block that no other thread is
 * freeing, unless the steps run out. Any thread. */
bool cache_search(const struct cache *cache, unsigned bin, struct search *search);

ALWAYS_INLINE bool cache_holds(const struct cache *cache, unsigned bin, const void *block)
{
    struct search search = search_unbounded(block);
    return cache_search(cache, bin, &search);
}

/* Blocks in the cache's array of `bin`; approximate while the owner works. Any thread. */
size_t cache_count(const struct cache *cache, unsigned bin);

/* Repairs the state that a fork between two stores of a fast path left: a block that is both
 * `first` and on top of its array. */
void cache_mend(struct cache *cache);

/* Whether any bin has an array. Owner. */
bool cache_has_arrays(const struct cache *cache);

/* Empties the cache without flushing its blocks: for contents that a fork's child cannot trust. */
void cache_abandon(struct cache *cache);

/*
 * Limits on the bytes that caches may hold: `each` for one cache, `all` for all together. A cache
 * gets `fair` bytes whatever the others hold. So the total is at most `all` plus `fair` for each
 * thread, and a few busy threads among many idle ones may use most of it.
 */
struct cache_budget {
    _Atomic size_t each;
    _Atomic size_t all;
    _Atomic size_t fair;
    _Atomic size_t in_use; /* capacity of all arrays now */
};
extern struct cache_budget caches_budget;

/* Called with the bytes that a refill fetched, without locks held. Set once, at any time. */
extern void (*_Atomic cache_on_refill)(size_t bytes);

/* The calling thread's own cache. NULL: none, or the thread works on its CPU's. */
ALWAYS_INLINE struct cache *cache_own(void)
{
    struct cache *cache = of_thread.cache;
    return cache != &cache_none && !load(&cores_are_used, RELAXED) ? cache : NULL;
}

ALWAYS_INLINE struct cache_entry *cache_entry_at(struct cache *cache, size_t entry_offset)
{
    return (struct cache_entry *)(void *)((char *)cache->entries + entry_offset);
}

ALWAYS_INLINE void *_Atomic *cache_slot(struct cache *cache, size_t offset)
{
    return (void *_Atomic *)(void *)((char *)cache + offset);
}

/* Pops the newest block of an owned cache's entry. NULL: empty. */
ALWAYS_INLINE void *cache_pop_from(struct cache *cache, struct cache_entry *entry)
{
    void *block = load(&entry->first, RELAXED);
    uint32_t top = load(&entry->top, RELAXED);
    void *below = load(cache_slot(cache, top), RELAXED);
    if (cache->is_for_cores)
        block = below;
    else if (block != NULL)
        store(&entry->first, below, RELAXED);
    if (block != NULL)
        store(&entry->top, top - SLOT_BYTES, RELAXED);
    return block;
}

/* Pushes a block onto an owned cache's entry, which has room. */
ALWAYS_INLINE void cache_push_to(struct cache *cache, struct cache_entry *entry, void *block)
{
    uint32_t top = load(&entry->top, RELAXED) + SLOT_BYTES;
    void *below = cache->is_for_cores ? block : load(&entry->first, RELAXED);
    store(cache_slot(cache, top), below, RELAXED);
    store(&entry->top, top, RELEASE); /* C1: after its slot; pairs with walk() in cache_read.c */
    if (!cache->is_for_cores)
        store(&entry->first, block, RELEASE);
}

/* Pops from the per-CPU cache. NULL: empty, or the thread does not use one. */
ALWAYS_INLINE void *cache_pop_core(size_t entry_offset)
{
    struct rseq_area *area = of_thread.area;
    if (area == NULL)
        return NULL;
    void *block = rseq_pop(area, core_slots, offsetof(struct cache, entries) + entry_offset);
    if (likely(block != NULL) && unlikely(!block_unmark(block)))
        return cache_replace(block, entry_offset);
    return block;
}

/* Pops `block`, the `first` of an entry of the thread's own cache. */
ALWAYS_INLINE void *cache_pop_known(struct cache *cache, struct cache_entry *entry, void *block)
{
    if (CHECKS >= 1 && unlikely(!block_is_marked(block)))
        return cache_replace_first((uintptr_t)entry - (uintptr_t)cache);
    size_t top = load(&entry->top, RELAXED), below = top - SLOT_BYTES;
    computed_here(below);
    void *next = load(cache_slot(cache, top), RELAXED);
    store(&entry->first, next, RELAXED);
    store(&entry->top, (uint32_t)below, RELAXED);
    if (CHECKS >= 1) {
        prefetch_to_write(next);  /* its mark is read when it is handed out */
        *(block_word *)block = 0; /* last: an early end leaves it marked, or no block */
    }
    return block;
}

/* Pops from the bin at `entry_offset` of the thread's own cache. NULL: empty. */
ALWAYS_INLINE void *cache_pop_own(size_t entry_offset)
{
    struct cache *cache = of_thread.cache;
    struct cache_entry *entry = cache_entry_at(cache, entry_offset);
    void *block = load(&entry->first, RELAXED);
    return likely(block != NULL) ? cache_pop_known(cache, entry, block) : NULL;
}

/* Where a pop found nothing: the thread's own cache, and the entry's offset in it. */
struct cache_miss {
    struct cache *cache;
    size_t entry_offset;
};

/* Pops from an entry of `cache`, the thread's own; when that is empty, sets `miss` and pops from
 * the per-CPU cache. The own cache of a thread that uses per-CPU caches is empty. NULL: none. */
ALWAYS_INLINE void *cache_pop_at(struct cache *cache, struct cache_entry *entry,
                                 struct cache_miss *miss)
{
    void *block = load(&entry->first, RELAXED);
    if (likely(block != NULL))
        return cache_pop_known(cache, entry, block);
    *miss = (struct cache_miss){cache, (uintptr_t)entry - (uintptr_t)cache};
    return cache_pop_core(miss->entry_offset);
}

/* Pops the newest block of the bin at `entry_offset` (bin * ENTRY_BYTES). NULL: empty. */
ALWAYS_INLINE void *cache_pop(size_t entry_offset)
{
    struct cache *cache = of_thread.cache;
    struct cache_entry *entry = cache_entry_at(cache, entry_offset);
    struct cache_miss miss;
    computed_here(entry); /* frees the register of the offset */
    return cache_pop_at(cache, entry, &miss);
}

/* As cache_pop, then refills from the depot. NULL: no memory. */
ALWAYS_INLINE void *cache_alloc(uint32_t entry_offset)
{
    void *block = cache_pop(entry_offset);
    return likely(block != NULL) ? block : cache_alloc_slow(entry_offset);
}

/* Pushes a free block of `bin`, checked and marked. */
ALWAYS_INLINE void cache_free(void *block, size_t bin)
{
    struct cache *cache = of_thread.cache;
    struct cache_entry *entry = cache_entry_at(cache, bin * ENTRY_BYTES);
    size_t top = (size_t)load(&entry->top, RELAXED) + SLOT_BYTES;
    computed_here(top); /* 64 bits, to index the slot without widening */
    if (unlikely((uint32_t)top > entry->limit)) {
        struct rseq_area *area = of_thread.area;
        size_t offset = (uintptr_t)entry - (uintptr_t)cache;
        if (area == NULL || unlikely(!rseq_push(area, core_slots, offset, block)))
            cache_free_slow(block);
        return;
    }
    store(cache_slot(cache, top), load(&entry->first, RELAXED), RELAXED);
    store(&entry->top, (uint32_t)top,
          RELEASE); /* C1: after its slot; pairs with walk() in cache_read.c */
    store(&entry->first, block, RELEASE);
}

#endif
