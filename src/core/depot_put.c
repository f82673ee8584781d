/*
 * depot_put.c: takes blocks back into bitmaps, or aside.
 *
 * Blocks come at random, each of a slab of its own (put_scattered), or in the order in which they
 * lie (put_neighbours; depot_give_run, where the caller knows that all do): then a word of a bitmap
 * takes many at once. A slab that has moved to another cohort meanwhile is found by the chunk map.
 *
 * Owner: any thread, under depot.lock (RANK_DEPOT); held for at most REFILL_MAX blocks, never over
 * a system call. Design: docs/design/depots.md
 */
#include "core/depot.h"

#include "core/depot_parts.h"
#include "core/misuse.h"
#include "core/purge_turn.h"
#include "core/rows.h"

enum {
    STRAY_TRIES_MAX = 4,
    GIVES_MAX = 16, /* without a take: nobody will come for batches */
};

static bool has_other_empty(const struct depot *depot, const struct slab *slab)
{
    return depot->lists[LIST_EMPTY] != slab->chunk || slab->next != 0;
}

/* Brings what a put will touch close: bitmaps of blocks that were freed at random are far apart. */
static void prefetch_maps(void *const *blocks, size_t count)
{
    size_t last = 0;
    if (region_chunk(blocks[0]) == region_chunk(blocks[count - 1]))
        count = 1; /* they came in order, as a rule: all of one slab */
    for (size_t i = 0; i < count; i++) {
        size_t chunk = region_chunk(blocks[i]);
        if (chunk == last)
            continue;
        last = chunk;
        const struct slab *slab = slab_of_chunk(chunk);
        __builtin_prefetch(slab, 1);
        const _Atomic uint64_t *word =
            &slab->free_map[((uintptr_t)blocks[i] & (CHUNK_BYTES - 1)) / 4096];
        __builtin_prefetch((const void *)(uintptr_t)word, 1);
    }
}

/* Finds the list for a slab of which blocks became free. True: all are, another slab is kept for
 * the depot, and this one is the depot's no longer. */
ALWAYS_INLINE bool settle(struct depot *depot, struct slab *slab)
{
    if (likely(depot_list_for(bin_class(depot->bin), slab->free_count) == slab->list))
        return false;
    depot_relist(depot, slab);
    if (slab->free_count != slab->capacity || !has_other_empty(depot, slab))
        return false;
    depot_orphan(depot, slab);
    return true;
}

struct blocks {
    size_t count;
    void *at[REFILL_MAX];
};

/* Sets one block's bit. */
ALWAYS_INLINE void put_one(struct slab *slab, unsigned class, void *block, struct blocks *twice)
{
    unsigned number = class_block(class, (uint16_t)(uintptr_t)block);
    if (unlikely(!slab_put(slab, number)))
        twice->at[twice->count++] = block;
}

/* Sets the bits of the first blocks, as far as they lie in the slab; returns how many it looked at.
 */
static size_t put_run(struct slab *slab, unsigned class, void *const *blocks, size_t count,
                      struct blocks *twice)
{
    size_t i = 0;
    do
        put_one(slab, class, blocks[i++], twice);
    while (i < count && region_chunk(blocks[i]) == slab->chunk);
    return i;
}

/* Sets the bits of the first blocks, each in a slab of its own, as far as no slab changes its list
 * for it, or any other thing is to be done; returns how many. Most of those that come at random. */
static NOINLINE size_t put_scattered(const struct depot *depot, void *const *blocks, size_t count)
{
    unsigned bin = depot->bin, class = bin_class(bin);
    unsigned capacity = class_facts[class].capacity, shift = class_facts[class].list_shift;
    uint32_t tick = load(&depot_tick, RELAXED);
    size_t i = 0;
    for (; i < count; i++) {
        size_t chunk = region_chunk(blocks[i]);
        if (unlikely(load(&region.map[chunk].bin, ACQUIRE) != bin))
            break;
        struct slab *slab = slab_of_chunk(chunk);
        unsigned before = slab->free_count;
        unsigned number = class_block(class, (uint16_t)(uintptr_t)blocks[i]);
        if (unlikely(before >> shift != slab->list || before + 1 == capacity) ||
            unlikely(!slab_put(slab, number)))
            break;
        slab->tick = tick;
    }
    return i;
}

/* How many blocks from the first on follow each other in steps of so many bytes, at most `most`. */
static size_t count_steps(void *const *blocks, size_t most, ptrdiff_t step)
{
    size_t count = 1;
    char *next = (char *)blocks[0] + step;
    while (count + 4 <= most && blocks[count] == next && blocks[count + 1] == next + step &&
           blocks[count + 2] == next + 2 * step && blocks[count + 3] == next + 3 * step) {
        count += 4;
        next += 4 * step;
    }
    for (; count < most && blocks[count] == next; count++)
        next += step;
    return count;
}

/* As put_run, where a block often follows or precedes its neighbour: those of one word of the
 * bitmap are put together. */
static NOINLINE size_t put_neighbours(struct slab *slab, unsigned class, void *const *blocks,
                                      size_t count, struct blocks *twice)
{
    ptrdiff_t bytes = class_facts[class].bytes;
    size_t i = 0;
    do {
        unsigned number = class_block(class, (uint16_t)(uintptr_t)blocks[i]);
        bool is_down = i + 1 < count && (char *)blocks[i + 1] < (char *)blocks[i];
        size_t room = is_down ? number % 64 + 1
                              : size_min(64 - number % 64, slab->capacity - number);
        size_t steps = count_steps(blocks + i, size_min(count - i, room), is_down ? -bytes : bytes);
        unsigned lowest = is_down ? number + 1 - (unsigned)steps : number;
        if (unlikely(!slab_put_run(slab, lowest, steps))) {
            put_one(slab, class, blocks[i], twice);
            steps = 1;
        }
        i += steps;
    } while (i < count && region_chunk(blocks[i]) == slab->chunk);
    return i;
}

/* Whether the first two blocks are neighbours: what a program frees at once it often allocated at
 * once, and in order. */
static bool is_in_order(void *const *blocks, size_t count, size_t bytes)
{
    size_t step = count > 1 ? (size_t)((char *)blocks[1] - (char *)blocks[0]) : 0;
    return step == bytes || step == -bytes;
}

/*
 * Sets the bits of those blocks that are the depot's own, and releases its lock; the others are
 * left at the start of `strangers`, which may be `blocks` itself. Returns how many. Those that were
 * free already are added to `twice`.
 */
static size_t put_own(struct depot *depot, void *const *blocks, size_t count, void **strangers,
                      struct blocks *twice)
{
    struct slab *empty[REFILL_MAX];
    size_t empty_count = 0, stranger_count = 0, put = 0;
    unsigned class = bin_class(depot->bin);
    bool is_ordered = is_in_order(blocks, count, class_facts[class].bytes);
    for (size_t i = 0; i < count;) {
        size_t done = unlikely(is_ordered) ? 0 : put_scattered(depot, blocks + i, count - i);
        put += done;
        if ((i += done) == count)
            break;
        struct slab *slab = depot_own_slab(depot, region_chunk(blocks[i]));
        if (unlikely(slab == NULL)) {
            strangers[stranger_count++] = blocks[i++];
            continue;
        }
        slab->tick = load(&depot_tick, RELAXED);
        size_t free_before = slab->free_count;
        i += unlikely(is_ordered) ? put_neighbours(slab, class, blocks + i, count - i, twice)
                                  : put_run(slab, class, blocks + i, count - i, twice);
        put += slab->free_count - free_before;
        if (unlikely(settle(depot, slab))) {
            put -= slab->capacity; /* below zero where it was put before: a sum all the same */
            empty[empty_count++] = slab;
        }
    }
    depot_count_free(depot, put, 0);
    lock_release(&depot->lock, RANK_DEPOT);
    depot_retire(empty, empty_count);
    return stranger_count;
}

/* Makes strays of blocks, each where its slab's map is: this depot, which has the stack, need not
 * be theirs. */
static NOINLINE void put_strays(struct depot *depot, void *const *blocks, size_t count)
{
    unsigned class = bin_class(depot->bin);
    for (size_t i = 0; i < count; i++) {
        size_t chunk = region_chunk(blocks[i]);
        unsigned number = class_block(class, (uint16_t)(uintptr_t)blocks[i]);
        if (bin_class(region_bin(chunk)) != class ||
            !stray_put(&depot->strays, slab_of_chunk(chunk), number))
            misuse_report_double(blocks[i], "free of", class_facts[class].bytes);
    }
}

/* Whether a depot may hand out and put what a bin's slabs have. */
static bool is_of_depot(const struct depot *depot, unsigned bin)
{
    bool is_apart = rows_are_apart || bin_is_sampled(bin) || bin_is_sampled(depot->bin);
    return is_apart ? bin == depot->bin : bin_class(bin) == bin_class(depot->bin);
}

size_t depot_take_strays(struct depot *depot, void **out)
{
    for (unsigned tries = 0; tries < STRAY_TRIES_MAX; tries++) {
        size_t count = stray_take(&depot->strays, out, BATCH_BLOCKS);
        /* All are of one slab, which stays what it is while we have them. */
        unsigned bin = count == 0 ? depot->bin : region_bin(region_chunk(out[0]));
        if (likely(is_of_depot(depot, bin)))
            return count;
        fetch_add(&depot->strays.blocks, (uint32_t)count, RELAXED);
        fetch_sub(&depot_of(bin)->strays.blocks, (uint32_t)count, RELAXED);
        put_strays(depot_of(bin), out, count);
    }
    return 0;
}

/*
 * Takes the depot's lock; or, if it is held, perhaps by a thread that does not run, puts the blocks
 * aside as a batch, whichever cohorts of the class they are of: true. Where the stack has no room
 * they become strays. Waits for nobody.
 */
static bool put_aside(struct depot *depot, void *const *blocks, size_t count)
{
    size_t bytes = class_facts[bin_class(depot->bin)].bytes;
    if (depot_try_lock(depot))
        return false;
    if (count > BATCH_BLOCKS || !depot_batch_give(depot, blocks, count, batches_for(bytes, true)))
        put_strays(depot, blocks, count);
    purge_note(count * bytes, bytes);
    return true;
}

/*
 * Puts blocks whose slabs have moved to other cohorts. A slab may move once more on the way, then
 * the block is a stranger there too and its new home is asked; each such turn takes a refill of
 * another thread. A chunk that is no slab of the class any more was given back with the block in
 * it.
 */
static void put_strangers(unsigned class, struct blocks *strangers, struct blocks *twice)
{
    while (strangers->count > 0) {
        unsigned home = region_bin(region_chunk(strangers->at[0]));
        if (bin_class(home) != class) {
            twice->at[twice->count++] = strangers->at[0];
            strangers->at[0] = strangers->at[--strangers->count];
        } else if (put_aside(depot_of(home), strangers->at, strangers->count)) {
            return;
        } else {
            strangers->count = put_own(depot_of(home), strangers->at, strangers->count,
                                       strangers->at, twice);
        }
    }
}

/* Puts blocks of a depot whose lock the caller holds, and releases it. */
static void put_locked(struct depot *depot, void *const *blocks, size_t count)
{
    unsigned class = bin_class(depot->bin);
    struct blocks strangers, twice;
    ASSERT(count <= REFILL_MAX);
    twice.count = 0;
    strangers.count = put_own(depot, blocks, count, strangers.at, &twice);
    put_strangers(class, &strangers, &twice);
    purge_note(count * class_facts[class].bytes, class_facts[class].bytes);
    for (size_t i = 0; i < twice.count; i++)
        misuse_report_double(twice.at[i], "free of", class_facts[class].bytes);
}

void depot_put(unsigned bin, void *const *blocks, size_t count)
{
    struct depot *depot = depot_of(bin);
    prefetch_maps(blocks, count);
    depot_lock(depot);
    put_locked(depot, blocks, count);
}

void depot_put_or_aside(struct depot *depot, void *const *blocks, size_t count)
{
    prefetch_maps(blocks, count);
    if (!put_aside(depot, blocks, count))
        put_locked(depot, blocks, count);
}

/* Whether batches that are given now may soon be taken; else one more goes to the bitmaps: what a
 * program that shrinks frees is to become whole slabs. */
static bool is_batch_wanted(struct depot *depot)
{
    void *blocks[BATCH_BLOCKS];
    uint32_t gives = load(&depot->gives, RELAXED);
    if (likely(gives < GIVES_MAX)) {
        store(&depot->gives, gives + 1, RELAXED);
        return true;
    }
    size_t count = depot_batch_take(depot, blocks);
    if (count > 0)
        depot_put_or_aside(depot, blocks, count);
    return false;
}

void depot_give(unsigned bin, void *const *blocks, size_t count, uint32_t user)
{
    struct depot *depot = depot_of(bin);
    uint32_t batches_max = batches_for(class_facts[bin_class(bin)].bytes, false);
    if (depot_note_user(depot, user) && count <= BATCH_BLOCKS && is_batch_wanted(depot) &&
        depot_batch_give(depot, blocks, count, batches_max))
        return;
    depot_put_or_aside(depot, blocks, count);
}

/* Puts as many of a slab's neighbours, from the lowest on, as were live, and releases the lock.
 * Returns how many. */
static size_t put_run_locked(struct depot *depot, char *lowest, size_t count)
{
    struct slab *slab = depot_own_slab(depot, region_chunk(lowest));
    unsigned number = class_block(bin_class(depot->bin), (uint16_t)(uintptr_t)lowest);
    size_t put = 0;
    while (slab != NULL && put < count) {
        size_t steps = size_min(64 - (number + put) % 64, count - put);
        if (unlikely(!slab_put_run(slab, number + (unsigned)put, steps)))
            break;
        put += steps;
    }
    bool is_one_more = false;
    if (likely(put > 0)) {
        slab->tick = load(&depot_tick, RELAXED);
        is_one_more = settle(depot, slab);
        depot_count_free(depot, put, is_one_more ? slab->capacity : 0);
    }
    lock_release(&depot->lock, RANK_DEPOT);
    if (is_one_more)
        depot_retire(&slab, 1);
    size_t bytes = class_facts[bin_class(depot->bin)].bytes;
    purge_note(put * bytes, bytes);
    return put;
}

void depot_give_run(unsigned bin, char *lowest, size_t count, uint32_t user)
{
    struct depot *depot = depot_of(bin);
    void *blocks[REFILL_MAX];
    size_t put = 0;
    ASSERT(count <= REFILL_MAX);
    if (likely(!depot_note_user(depot, user)) && likely(depot_try_lock(depot)))
        put = put_run_locked(depot, lowest, count);
    if (likely(put == count))
        return;
    for (size_t i = put; i < count; i++)
        blocks[i - put] = lowest + i * class_facts[bin_class(bin)].bytes;
    depot_give(bin, blocks, count - put, user);
}

/* Puts what was taken out of a stack; false: it is aside again. */
static bool put_drained(struct depot *depot, void *const *blocks, size_t count, bool is_patient)
{
    bool is_locked = is_patient && depot_lock_or_fail(depot);
    if (!is_locked && put_aside(depot, blocks, count))
        return false;
    put_locked(depot, blocks, count);
    return true;
}

size_t depot_drain_stack(struct depot *depot, struct batch_stack *stack, bool is_patient)
{
    void *blocks[REFILL_MAX];
    size_t moved = 0;
    for (unsigned i = 0; i < BATCHES_URGENT; i++) {
        size_t count = batch_take(stack, blocks);
        if (count == 0 || !put_drained(depot, blocks, count, is_patient))
            break;
        moved += count;
    }
    return moved;
}

size_t depot_drain_strays(struct depot *depot, bool is_patient)
{
    void *blocks[REFILL_MAX];
    size_t moved = 0;
    for (unsigned i = 0; i < BATCHES_URGENT && stray_are_any(&depot->strays); i++) {
        size_t count = depot_take_strays(depot, blocks);
        if (count == 0 || !put_drained(depot, blocks, count, is_patient))
            break;
        moved += count;
    }
    return moved;
}
