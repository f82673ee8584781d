/*
 * depot.h: a bin's shared middle tier: per-shard stacks of batches in front of slabs listed by
 * fullness.
 */
#ifndef CALM_CORE_DEPOT_H
#define CALM_CORE_DEPOT_H

#include "base/bits.h"
#include "base/facts.h"
#include "core/batch.h"
#include "core/search.h"
#include "core/shard.h"
#include "core/deferred.h"
#include "os/lock.h"

enum { DEPOT_LISTS = 9, LIST_EMPTY = DEPOT_LISTS - 1, REFILL_MAX = 128 };
_Static_assert((int)BATCH_BLOCKS <= (int)REFILL_MAX, "a refill may be a whole batch");

struct shard_stack;

struct depot {
    /* Constant. */
    bin_index bin;
    struct depot *below; /* the depot made before this one */

    /* Lock-free, rarely written, read by every core. */
    _Atomic uint32_t user; /* the only cache that used this depot; USER_SEVERAL after a second */
    struct shard_stack *_Atomic others; /* stacks of shards 1 and up; NULL until first needed */

    /* Lock-free. */
    _Alignas(CACHE_LINE_BYTES) struct batch_stack batches; /* shard 0's */
    _Atomic uint32_t flushes_since; /* flushes since the last refill; approximate */
    _Atomic uint32_t slab_count;
    struct deferred deferred;

    /* Under lock. */
    _Alignas(CACHE_LINE_BYTES) struct lock lock;
    _Atomic size_t free_blocks;  /* D1: sum of free_count over the slabs */
    uint32_t lists[DEPOT_LISTS]; /* slabs with free blocks: 0 the fullest, the last wholly free */
    uint32_t listed[2];          /* D5: slabs in all lists but the last; in the last */
    bool is_taken;               /* depot_fork_lock() took the lock */
};

/*
 * Refills `out`, which has room for REFILL_MAX. Asks for `want` <= REFILL_MAX blocks; a batch, or a
 * slab handed out whole, may bring up to BATCH_BLOCKS. A slab's blocks are in address order. When
 * many of the class's blocks are free, the depot may take over a slab of another cohort first.
 * `user` names the caller's cache. Returns the number of blocks; 0: no memory. Any thread.
 */
size_t depot_refill(unsigned bin, void **out, size_t want, uint32_t user);

/* The `user` of a thread without a cache. */
enum { USER_WITHOUT_CACHE = INT32_MAX };

/* Flushes `count` <= REFILL_MAX blocks, as a batch or into bitmaps, and uses their array. The
 * bitmaps are those of each block's current depot, and report a block that is free already. Needs
 * no memory. */
void depot_flush(unsigned bin, void **blocks, size_t count, uint32_t user);

/* Flushes `count` <= REFILL_MAX neighbours of one chunk, at about the cost of one block. */
void depot_flush_run(unsigned bin, char *lowest, size_t count, uint32_t user);

/* Take the depot's lock, and mend the depot if its last holder ended or is missing in a fork's
 * child. depot_lock() waits without limit, depot_lock_or_fail() a second at most, depot_try_lock()
 * for a bounded number of looks, depot_try_lock_once() not at all. */
void depot_lock(struct depot *depot);
bool depot_lock_or_fail(struct depot *depot);
bool depot_try_lock(struct depot *depot);
bool depot_try_lock_once(struct depot *depot);

/* Whether several caches use the bin, so that flushes pass whole batches to other threads. */
bool depot_is_shared(unsigned bin);

/* Bytes of all slabs; bytes of the free blocks in their bitmaps, summed over all classes. */
size_t depot_slab_bytes(void);
size_t depot_free_bytes(void);

/* Every bin's depot; the newest depot. Written by depot_make(). */
extern HIDDEN struct depot *_Atomic depot_table[BIN_LIMIT];
extern HIDDEN struct depot *_Atomic depot_list;

/* The bin's depot, or NULL before the bin's first use. */
ALWAYS_INLINE struct depot *depot_of(unsigned bin)
{
    return load(&depot_table[bin], ACQUIRE);
}

/* For each class, a bit for each row that has a depot or is about to get one. */
extern HIDDEN _Atomic uint64_t depot_rows[CLASS_LIMIT][ROW_LIMIT / 64];

/* The first row >= `row` with a depot of the class, or ROW_LIMIT. */
ALWAYS_INLINE unsigned depot_row_from(unsigned class, unsigned row)
{
    for (; row < ROW_LIMIT; row = (row / 64 + 1) * 64) {
        uint64_t bits = load(&depot_rows[class][row / 64], RELAXED) >> row % 64;
        if (bits != 0)
            return row + bit_lowest(bits);
    }
    return ROW_LIMIT;
}

/* The bin's depot, made if there is none. NULL: no memory. */
struct depot *depot_make(unsigned bin);

/* The newest depot; `below` leads to the older ones. */
struct depot *depot_newest(void);

/* Whether the block, one of the bin by its address, is free: in a bitmap, a deferred map or a batch
 * of its class. Batches cost steps; the block may be in one that the steps do not reach. */
bool depot_search(unsigned bin, struct search *search);

ALWAYS_INLINE bool depot_holds(unsigned bin, const void *block)
{
    struct search search = search_unbounded(block);
    return depot_search(bin, &search);
}

/* The stack of a shard; NULL: not made yet. */
enum { SHARD_STACK_BYTES = CACHE_LINE_BYTES };
struct batch_stack *depot_stack(struct depot *depot, unsigned shard);

/* The functions of batch.h over all shards' stacks: a batch goes to the caller's own stack, and
 * comes from the caller's own first, then from others. Counts include deferred frees, as one batch.
 * The count of blocks may wrap below zero; over a class its sum is never too low (deferred_count).
 */
bool depot_push_in_shard(struct depot *depot, void *const *blocks, size_t count,
                         uint32_t batches_max);
size_t depot_pop_from_shards(struct depot *depot, void **out);
bool depot_batch_search(struct depot *depot, struct search *search);
size_t depot_batch_count(struct depot *depot);
size_t depot_batch_blocks(struct depot *depot);
verdict depot_verify_stacks(struct depot *depot);

/* Bytes out with programs and caches; bytes and blocks in batches and deferred maps. Each counter
 * is exact at some moment, not all at the same moment. */
struct depot_sums {
    size_t out_bytes;
    size_t waiting_bytes;
    size_t waiting_blocks;
};
struct depot_sums depot_sums(void);

/* Bytes of all deferred frees, which no limit bounds. */
size_t depot_deferred_bytes(void);

ALWAYS_INLINE bool depot_batch_push(struct depot *depot, void *const *blocks, size_t count,
                                    uint32_t batches_max)
{
    if (likely(shard_count == 1))
        return batch_push(&depot->batches, blocks, count, batches_max);
    return depot_push_in_shard(depot, blocks, count, batches_max);
}

/* Takes deferred frees of the depot's bin, or of bins of its class that may share blocks with it;
 * frees of other bins in its stack move to their own depot (docs/protocols/deferred.md). Returns
 * how many, at most BATCH_BLOCKS; 0: none. */
size_t depot_take_deferred(struct depot *depot, void **out);

/* Takes deferred frees only when no stack has a batch. */
ALWAYS_INLINE size_t depot_batch_pop(struct depot *depot, void **out)
{
    size_t count = likely(shard_count == 1) ? batch_pop(&depot->batches, out)
                                            : depot_pop_from_shards(depot, out);
    if (count == 0 && deferred_any(&depot->deferred))
        return depot_take_deferred(depot, out);
    return count;
}

/* Empties one of the depot's stacks, or for NULL its deferred map, into the bitmaps. A patient
 * caller waits a second at most for the lock; others stop while it is held. Returns blocks moved,
 * a bounded number. */
size_t depot_drain(struct depot *depot, struct batch_stack *stack, bool is_patient);

/* Retires at most REFILL_MAX wholly free slabs. A patient caller waits a second at most for the
 * lock; other callers retire none while it is held. Returns how many. */
size_t depot_retire_empty(struct depot *depot, bool is_patient);

/* Moves idle batches, or all if `is_all`, and all deferred frees to the bitmaps; retires the empty
 * slabs of a depot whose stacks are all idle. Patience as for depot_drain(). Returns the blocks
 * moved from batches. */
size_t depot_tidy(struct depot *depot, bool is_all, bool is_patient);

/* Tidies every depot with `is_all`, each in a purge turn of its own. A patient caller waits for the
 * turns, others leave the rest to purge ticks. */
void depot_tidy_all(bool is_patient);

/* Purges the runs of wholly free pages of the slab at `chunk`, if there is a slab whose last change
 * was before purge tick `tick_oldest`. Other threads cannot take the blocks on these pages
 * meanwhile. Returns bytes purged; adds the kernel calls to *calls. */
size_t depot_purge_chunk(size_t chunk, uint32_t tick_oldest, unsigned *calls);

/* The current purge tick; a slab stores it when it changes. */
extern _Atomic uint32_t depot_tick;

/* Bytes of an OS page, at most a chunk. Set at start. */
extern size_t depot_page_bytes;

/* A cohort takes another's slab instead of a new one once more than one in this many of the class's
 * blocks is free. */
extern size_t depot_lend_share;

/* Not 0: a cohort lends within its home once its free blocks are one in this many of a slab's
 * capacity; depot_lend_share does not count then. */
extern size_t depot_lend_part;

/* If not NULL, called outside all locks with the number of slabs in use after each new slab. */
extern void (*depot_on_growth)(size_t slab_count);

/* If not NULL, called outside all locks when a bin may borrow from a lender that has more slabs,
 * all in the fullest list. */
extern void (*depot_on_scattered)(unsigned bin, unsigned lender_bin);

/* Pre: other threads are quiet. Skips a depot whose holder does not run. */
verdict depot_verify(void);

extern const struct watch_fact depot_facts[];

/* For the fork hooks. Skips locks that their holders do not release in time. `is_locked`: the
 * parent called depot_fork_lock(). */
void depot_fork_lock(void);
void depot_fork_unlock(void);
void depot_fork_reset(bool is_locked);

#endif
