/*
 * depot.h: a bin's shared middle tier: slabs by fullness, and whole batches in front of them, in a
 * stack for each shard.
 */
#ifndef CALM_CORE_DEPOT_H
#define CALM_CORE_DEPOT_H

#include "base/bits.h"
#include "base/facts.h"
#include "core/batch.h"
#include "core/search.h"
#include "core/shard.h"
#include "core/stray.h"
#include "os/lock.h"

enum { DEPOT_LISTS = 9, LIST_EMPTY = DEPOT_LISTS - 1, REFILL_MAX = 128 };
_Static_assert((int)BATCH_BLOCKS <= (int)REFILL_MAX, "a refill may be a whole batch");

struct shard_stack;

struct depot {
    /* Constant. */
    bin_index bin;
    struct depot *below; /* made before this one */

    /* Lock-free, and all but constant: every core reads them. */
    _Atomic uint32_t user; /* the one cache that has come here; SEVERAL once a second came */
    struct shard_stack *_Atomic others; /* stacks of shards from 1 on; NULL until one is needed */

    /* Lock-free. */
    _Alignas(CACHE_LINE_BYTES) struct batch_stack batches; /* of shard 0 */
    _Atomic uint32_t gives; /* since somebody took; about */
    _Atomic uint32_t slab_count;
    struct strays strays;

    /* Under lock. */
    _Alignas(CACHE_LINE_BYTES) struct lock lock;
    _Atomic size_t free_blocks;  /* D1: sum of free_count over the slabs                         */
    uint32_t lists[DEPOT_LISTS]; /* slabs with free blocks: 0 the fullest, the last wholly free */
    uint32_t listed[2];          /* D5: how many are in the lists, but for the last; in the last */
    bool is_taken;               /* by whoever forks: not in a handler that interrupted it      */
};

/*
 * Takes at least one and at most `want` <= REFILL_MAX blocks, in address order where they come from
 * slabs; room for REFILL_MAX. A slab of another cohort may come to this one for it, when the class
 * has plenty. `user` names the caller's cache. Returns 0 when there is no memory. Any thread.
 */
size_t depot_take(unsigned bin, void **out, size_t want, uint32_t user);

/* What a thread without a cache is called. */
enum { USER_WITHOUT_CACHE = INT32_MAX };

/*
 * Gives `count` <= REFILL_MAX blocks back; those that are another cohort's find their depot. Needs
 * no memory. Reports a block that lies in a depot already.
 */
void depot_give(unsigned bin, void *const *blocks, size_t count, uint32_t user);

/* The same for `count` neighbours of one chunk. Costs little more than one block. */
void depot_give_run(unsigned bin, char *lowest, size_t count, uint32_t user);

/* As depot_give, but into the bitmaps in any case. */
void depot_put(unsigned bin, void *const *blocks, size_t count);

/* Takes the depot's lock: waits for it, or a second at most, or only looks a bounded number of
 * times, or once. Mends the depot where its last holder ended meanwhile, or is not in this fork's
 * child. */
void depot_lock(struct depot *depot);
bool depot_lock_or_fail(struct depot *depot);
bool depot_try_lock(struct depot *depot);
bool depot_try_lock_once(struct depot *depot);

/* Whether more than one cache works on the bin, so that whole batches are handed over. */
bool depot_is_shared(unsigned bin);

/* Bytes of all slabs, and of the blocks that lie free in their bitmaps. The second looks at every
 * class. */
size_t depot_slab_bytes(void);
size_t depot_free_bytes(void);

/* Every bin's depot, and the newest. Written by depot_make(). */
extern HIDDEN struct depot *_Atomic depot_table[BIN_LIMIT];
extern HIDDEN struct depot *_Atomic depot_list;

/* The bin's depot, or NULL when the bin was never used. */
ALWAYS_INLINE struct depot *depot_of(unsigned bin)
{
    return load(&depot_table[bin], ACQUIRE);
}

/* Bits by row: where a class has depots, or is about to. */
extern HIDDEN _Atomic uint64_t depot_rows[CLASS_LIMIT][ROW_LIMIT / 64];

/* The first row from `row` on where a class has one, or ROW_LIMIT. */
ALWAYS_INLINE unsigned depot_row_from(unsigned class, unsigned row)
{
    for (; row < ROW_LIMIT; row = (row / 64 + 1) * 64) {
        uint64_t bits = load(&depot_rows[class][row / 64], RELAXED) >> row % 64;
        if (bits != 0)
            return row + bit_lowest(bits);
    }
    return ROW_LIMIT;
}

/* Makes the bin's depot if there is none yet. NULL: no memory. */
struct depot *depot_make(unsigned bin);

/* The newest depot; the others by `below`. */
struct depot *depot_newest(void);

/* Whether the block, one of the bin by its address, lies in the bitmaps or in a batch of its class,
 * as far as the steps go. */
bool depot_search(unsigned bin, struct search *search);

ALWAYS_INLINE bool depot_holds(unsigned bin, const void *block)
{
    struct search search = search_unbounded(block);
    return depot_search(bin, &search);
}

/* The stack of a shard; NULL: not made yet. */
enum { SHARD_STACK_BYTES = CACHE_LINE_BYTES };
struct batch_stack *depot_stack(struct depot *depot, unsigned shard);

/* As the functions of batch.h, over the stacks of all shards: a batch goes to the caller's own, and
 * comes from the caller's own or else from another. Counts have strays in them, as one batch;
 * that of blocks wraps where it is below zero, and is exact in the sum over a class (stray_count).
 */
bool depot_give_in_shard(struct depot *depot, void *const *blocks, size_t count,
                         uint32_t batches_max);
size_t depot_take_from_shards(struct depot *depot, void **out);
bool depot_batch_search(struct depot *depot, struct search *search);
size_t depot_batch_count(struct depot *depot);
size_t depot_batch_blocks(struct depot *depot);
verdict depot_verify_stacks(struct depot *depot);

/* Bytes of blocks that are out, with programs and caches, and of those that wait in batches, which
 * are so many. Counters alone, each exact at some moment. */
struct depot_sums {
    size_t out_bytes;
    size_t waiting_bytes;
    size_t waiting_blocks;
};
struct depot_sums depot_sums(void);

/* Bytes of all strays: what waits for depots that are held is beyond every limit. */
size_t depot_stray_bytes(void);

ALWAYS_INLINE bool depot_batch_give(struct depot *depot, void *const *blocks, size_t count,
                                    uint32_t batches_max)
{
    if (likely(shard_count == 1))
        return batch_give(&depot->batches, blocks, count, batches_max);
    return depot_give_in_shard(depot, blocks, count, batches_max);
}

/* Strays of the depot's bin, or of others of its class that blocks may pass to; those of other bins
 * that lie in its stack go to their own (docs/protocols/stray.md). At most BATCH_BLOCKS; 0: none.
 */
size_t depot_take_strays(struct depot *depot, void **out);

/* Strays come last. */
ALWAYS_INLINE size_t depot_batch_take(struct depot *depot, void **out)
{
    size_t count = likely(shard_count == 1) ? batch_take(&depot->batches, out)
                                            : depot_take_from_shards(depot, out);
    if (count == 0 && stray_are_any(&depot->strays))
        return depot_take_strays(depot, out);
    return count;
}

/* Empties a stack of the depot's, or its strays, into the bitmaps; while the depot is held, only
 * when the caller is patient, and a second at most. Returns blocks moved; of many strays some at a
 * time. */
size_t depot_drain_stack(struct depot *depot, struct batch_stack *stack, bool is_patient);
size_t depot_drain_strays(struct depot *depot, bool is_patient);

/* Retires at most REFILL_MAX slabs that are wholly free; while the depot is held as above. Returns
 * how many. */
size_t depot_retire_empty(struct depot *depot, bool is_patient);

/* Idle batches go to the bitmaps, and the empty slabs of an idle depot to the spans. Strays are not
 * to stay, however busy the stacks are. Returns how many blocks moved. */
size_t depot_tidy(struct depot *depot, bool is_all);

/* The same of all that every depot has, in turns, a depot each. */
void depot_tidy_all(void);

/*
 * Purges the runs of whole free pages in the slab at `chunk`, if it is a slab that has not changed
 * since before `tick_oldest`. `claimed` blocks are the purger's meanwhile. Returns bytes purged;
 * *calls is counted up.
 */
size_t depot_purge_chunk(size_t chunk, uint32_t tick_oldest, unsigned *calls);

/* The purger's clock: slabs note it when they change. */
extern _Atomic uint32_t depot_tick;

/* The OS page, at most a chunk. Set at start. */
extern size_t depot_page_bytes;

/* A cohort takes another's slab instead of a new one once one block in this many of their class
 * lies free. */
extern size_t depot_lend_share;

/* Where it is not 0 a cohort of a home lends early instead: once it has one of a slab's blocks in
 * this many free. */
extern size_t depot_lend_part;

/* Called with the number of slabs in use whenever one is added, outside all locks. */
extern void (*depot_on_growth)(size_t slab_count);

/* Called, if not NULL, when what a bin borrows is scattered: the lender has more slabs and no more
 * than an eighth free in any. Outside all locks. */
extern void (*depot_on_scattered)(unsigned bin, unsigned lender_bin);

/* Other threads must be quiet; a depot that is held by one that does not run is passed over. */
verdict depot_verify(void);

extern const struct watch_fact depot_facts[];

/* For the fork hooks: takes what its holders give up in time; `is_locked`: the parent did. */
void depot_fork_lock(void);
void depot_fork_unlock(void);
void depot_fork_reset(bool is_locked);

#endif
