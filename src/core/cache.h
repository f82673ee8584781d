/*
 * cache.h: arrays of free blocks, one for each bin, that a thread, or the threads of one core, work
 * on without synchronising.
 *
 * A cache is one piece of memory: the entries, row by row, its head, and the arrays, of which the
 * first share the head's page. Arrays are found by 32-bit offsets from the start. An entry
 * holds the newest block itself, `first`, so that a block that goes round between free and malloc
 * passes through one word; a push moves the old `first` to the array, a pop moves the newest
 * pointer of the array to `first`. The first push onto an empty bin moves a NULL, which comes back
 * as `first` with the last pop: the array never runs out before `first` does. A core's cache, where
 * one store must do, has no `first`; the array's slot 0, which is NULL, ends it.
 *
 * A cache that is all zeros is a valid empty one: `first` is NULL and limit 0 refuses every push.
 * So neither "empty", nor "no array yet", nor "no cache yet" needs a test of its own on the fast
 * paths.
 *
 * Readers of other threads (the exact check of a suspected double free, statistics) load the same
 * words; see docs/protocols/cache.md.
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
    SLOTS_LOG2_MIN = 3, /* an array is at least a line */
    SLOTS_LOG2_MAX = 10,
    SLOT_BYTES = 8,
};

/* `first` is the newest block, or NULL; in a core's cache always NULL, and the newest is in the
 * last slot. The others are offsets: of the last slot in use, which is the array's start when it is
 * empty; of the last slot to use, plus the array's size in low bits. */
struct cache_entry {
    void *_Atomic first;
    _Atomic uint32_t top;
    uint32_t limit;
};
_Static_assert(BLOCKS_FIXED >= 0 && BLOCKS_FIXED < 1 << SLOTS_LOG2_MAX, "an array has a slot more");
_Static_assert(sizeof(struct cache_entry) == ENTRY_BYTES, "class tables hold offsets in these");
_Static_assert(offsetof(struct cache_entry, top) == 8 && offsetof(struct cache_entry, limit) == 12,
               "the sequences of os/rseq.h know where these are");

/* What a cache knows of a row beside its entries, in the place of entries that no class has. */
struct cache_row {
    struct cache_entry below[CLASS_COUNT];
    uint64_t used_bins;           /* classes that have an array                  */
    uint64_t recent_bins;         /* classes that missed since the hand last passed */
    uint8_t flushes[CLASS_LIMIT]; /* by class: in a row, without a miss          */
    char unused[(CLASS_LIMIT - CLASS_COUNT) * ENTRY_BYTES - 2 * 8 - CLASS_LIMIT];
};
_Static_assert(sizeof(struct cache_row) == CLASS_LIMIT * ENTRY_BYTES,
               "entries and rows are the same memory");

/* What core/armed.h knows of a class. `starts` is the sum of where the arrays of its armed entry
 * and of its bin's begin, which stays when they change places. */
struct armed_class {
    uint64_t unarmed; /* requests to pass by, beside those of armed blocks */
    int32_t worth;    /* more bytes of slots are worth arming; ARMED_NEVER: `starts` is old */
    uint32_t starts;
};
enum { ARMED_NEVER = INT32_MAX };

/* Who may touch a cache. Only its owner changes what is not CACHE_SPARE or CACHE_IN_SLOT. What is
 * taken from cores also says by which thread: all that is at least CACHE_OWNED is owned. */
enum cache_state { CACHE_SPARE, CACHE_IN_SLOT, CACHE_OWNED };

struct cache {
    /* The first is no class's: its `first`, always NULL, is the slot of offset 0. */
    union {
        _Alignas(4096) struct cache_entry entries[BIN_LIMIT];
        struct cache_row rows[ROW_LIMIT];
    };

    /* Constant. */
    struct cache *below; /* made before this one                                  */
    uint32_t number;     /* from 1                                                */
    bool is_for_cores;   /* never one thread's own                                */
    uint8_t home;        /* of the threads that own it, where it is one thread's  */

    _Atomic uintptr_t state;

    _Atomic uint32_t below_unused; /* of core/thread.c, as a number of metadata */

    /* The owner's. */
    uint32_t core;          /* in whose slot it is                                       */
    uint32_t arena_used;    /* offset of the first byte no array ever used */
    uint32_t hand;          /* the row where the search for idle bins goes on */
    uint32_t refusals;      /* of growth so far                         */
    uint32_t tick;          /* of the purger's look that it saw last    */
    _Atomic uint32_t edits; /* not 0 while arrays are being changed, for fork */
    size_t capacity_bytes;  /* that the arrays may hold */
    uint32_t free_arrays[SLOTS_LOG2_MAX + 1]; /* by log2 of slots; linked by their first word */
    uint64_t used_rows[ROW_LIMIT / 64];       /* rows whose used bins are not 0 */

    uint32_t forks;        /* of the process that knows who has it, by core/thread.c */
    bool is_counted_large; /* by core/thread.c */
    bool has_sampled;      /* of core/sampled_small.h: blocks were put on entries without arrays */

    /* Of core/armed.h, for who counts requests (site/sample.c). */
    uint32_t armed_start; /* the count that the others are of                     */
    uint64_t armed_drawn; /* by class: whether `unarmed` says something           */
    uint64_t armed_more;  /* by class: it may have more blocks at its next draw */
    struct armed_class armed[CLASS_LIMIT];
    uint32_t armed_once[CLASS_LIMIT]; /* `unarmed` when the class was flushed last             */
    uint8_t armed_shift[CLASS_LIMIT]; /* of the rate that `unarmed` was drawn with            */

    _Alignas(CACHE_LINE_BYTES) char arena[];
};
_Static_assert(offsetof(struct cache, entries) == 0, "the slot of offset 0 is NULL");
_Static_assert(offsetof(struct cache, arena) - sizeof(struct cache_entry[BIN_LIMIT]) < 2048,
               "small arrays share the head's page");
_Static_assert(offsetof(struct cache, arena) < CACHE_BYTES * 11 / 16, "arrays need the rest");

/* What a thread has that has none of its own: empty, and full, for ever. */
extern struct cache cache_none;

/* Slow halves. Each leaves errno alone. cache_alloc_slow returns NULL when there is no memory. */
void *cache_alloc_slow(uint32_t entry_offset);
void cache_free_slow(void *block);

/* A block that was taken from the entry at `entry_offset` had no mark, or its `first`, which was
 * not taken yet: says so, and leaves it to whoever may have it. Another block; that one after all
 * when there is no memory, so that a fast path need not ask. */
NEVER_NULL void *cache_replace(void *spoiled, size_t entry_offset);
NEVER_NULL void *cache_replace_first(size_t entry_offset);

/* Clears the mark of a block that a slow path hands out. False, and says so: it had none. */
bool cache_unmark(void *block, unsigned bin);

/* Gives every block of the cache to the depots and forgets all arrays. Owner, or when nobody owns
 * it. */
void cache_empty(struct cache *cache);

/* Whether the block lies in the cache's array of `bin`. Exact for a block that no other thread is
 * freeing, unless the steps run out. Any thread. */
bool cache_search(const struct cache *cache, unsigned bin, struct search *search);

ALWAYS_INLINE bool cache_holds(const struct cache *cache, unsigned bin, const void *block)
{
    struct search search = search_unbounded(block);
    return cache_search(cache, bin, &search);
}

/* Blocks in the cache's array of `bin`, as far as it can be read while the owner works. Any thread.
 */
size_t cache_count(const struct cache *cache, unsigned bin);

/* Mends what a fork between two stores of a fast path left: a block that is both `first` and on top
 * of its array. */
void cache_mend(struct cache *cache);

/* Whether any bin has an array. Owner. */
bool cache_has_arrays(const struct cache *cache);

/* Forgets everything in the cache, without giving blocks back: for what a fork's child cannot
 * trust. */
void cache_abandon(struct cache *cache);

/*
 * Bytes that caches may hold: one cache at most `each`, all together `all`, and whatever the others
 * hold, each `fair`. So all hold at most `all` and `fair` for each thread; with a few busy threads
 * among many idle ones the busy ones have the room.
 */
struct cache_budget {
    _Atomic size_t each;
    _Atomic size_t all;
    _Atomic size_t fair;
    _Atomic size_t in_use; /* what all arrays may hold now */
};
extern struct cache_budget caches_budget;

/* Called with the bytes that a refill brought, with nothing held. Set once, at any time. */
extern void (*_Atomic cache_on_refill)(size_t bytes);

ALWAYS_INLINE struct cache_entry *cache_entry_at(struct cache *cache, size_t entry_offset)
{
    return (struct cache_entry *)(void *)((char *)cache->entries + entry_offset);
}

ALWAYS_INLINE void *_Atomic *cache_slot(struct cache *cache, size_t offset)
{
    return (void *_Atomic *)(void *)((char *)cache + offset);
}

/* Takes the newest block of an owned cache's entry, or NULL. */
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

/* Adds a block to an owned cache's entry, which has room. */
ALWAYS_INLINE void cache_push_to(struct cache *cache, struct cache_entry *entry, void *block)
{
    uint32_t top = load(&entry->top, RELAXED) + SLOT_BYTES;
    void *below = cache->is_for_cores ? block : load(&entry->first, RELAXED);
    store(cache_slot(cache, top), below, RELAXED);
    store(&entry->top, top,
          RELEASE); /* C1: the slot before the top; pairs with walk() in cache_read.c */
    if (!cache->is_for_cores)
        store(&entry->first, block, RELEASE);
}

/* From the core's cache, if this thread works on it. */
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

/* Takes `block`, the `first` of an entry of the thread's own cache. */
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
        *(block_word *)block = 0; /* last: whoever ends before leaves a marked block, or none */
    }
    return block;
}

/* The same of the bin at `entry_offset`, or NULL when the thread's own cache has none. */
ALWAYS_INLINE void *cache_pop_own(size_t entry_offset)
{
    struct cache *cache = of_thread.cache;
    struct cache_entry *entry = cache_entry_at(cache, entry_offset);
    void *block = load(&entry->first, RELAXED);
    return likely(block != NULL) ? cache_pop_known(cache, entry, block) : NULL;
}

/* Where a look found nothing: the thread's own cache, and the entry's place in it. */
struct cache_miss {
    struct cache *cache;
    size_t entry_offset;
};

/* The same of an entry of that cache, or from the core's; where nothing is found says where. A
 * thread that works on its core's cache has an empty one of its own. */
ALWAYS_INLINE void *cache_pop_at(struct cache *cache, struct cache_entry *entry,
                                 struct cache_miss *miss)
{
    void *block = load(&entry->first, RELAXED);
    if (likely(block != NULL))
        return cache_pop_known(cache, entry, block);
    *miss = (struct cache_miss){cache, (uintptr_t)entry - (uintptr_t)cache};
    return cache_pop_core(miss->entry_offset);
}

/* Takes the newest block of the bin at `entry_offset` (bin * ENTRY_BYTES), or NULL when the cache
 * has none. */
ALWAYS_INLINE void *cache_pop(size_t entry_offset)
{
    struct cache *cache = of_thread.cache;
    struct cache_entry *entry = cache_entry_at(cache, entry_offset);
    struct cache_miss miss;
    computed_here(entry); /* so that the offset need not be kept */
    return cache_pop_at(cache, entry, &miss);
}

/* As cache_pop, then from the depot; NULL when there is no memory. */
ALWAYS_INLINE void *cache_alloc(uint32_t entry_offset)
{
    void *block = cache_pop(entry_offset);
    return likely(block != NULL) ? block : cache_alloc_slow(entry_offset);
}

/* Pushes a free block of `bin`, which has been checked and marked. */
ALWAYS_INLINE void cache_free(void *block, size_t bin)
{
    struct cache *cache = of_thread.cache;
    struct cache_entry *entry = cache_entry_at(cache, bin * ENTRY_BYTES);
    size_t top = (size_t)load(&entry->top, RELAXED) + SLOT_BYTES;
    computed_here(top); /* whole, so that it need not be widened to find the slot */
    if (unlikely((uint32_t)top > entry->limit)) {
        struct rseq_area *area = of_thread.area;
        size_t offset = (uintptr_t)entry - (uintptr_t)cache;
        if (area == NULL || unlikely(!rseq_push(area, core_slots, offset, block)))
            cache_free_slow(block);
        return;
    }
    store(cache_slot(cache, top), load(&entry->first, RELAXED), RELAXED);
    store(&entry->top, (uint32_t)top,
          RELEASE); /* C1: the slot before the top; pairs with walk() in cache_read.c */
    store(&entry->first, block, RELEASE);
}

#endif
