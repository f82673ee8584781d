/*
 * depot_put.c: puts freed blocks into bitmaps, or sets them aside.
 *
 * Blocks come in random order, each of another slab (put_scattered), or in address order
 * (put_neighbours; depot_flush_run, where the caller knows that all do): then one write to a bitmap
 * word puts many. The chunk map finds a slab that has moved to another cohort.
 *
 * Owner: any thread, under depot.lock (RANK_DEPOT); held for at most REFILL_MAX blocks, never over
 * a system call. Design: docs/design/depots.md
 */
#include "core/depot.h"

#include "core/depot_parts.h"
#include "core/mark.h"
#include "core/misuse.h"
#include "core/purge_turn.h"
#include "core/rows.h"

enum {
    DEFERRED_TRIES_MAX = 4,
    FLUSHES_MAX = 16, /* without a refill: batches are not in demand */
};

static bool has_other_empty(const struct depot *depot, const struct slab *slab)
{
    return depot->lists[LIST_EMPTY] != slab->chunk || slab->next != 0;
}

/* Prefetches what a put will touch: the bitmaps of blocks freed at random are far apart. */
static void prefetch_maps(void *const *blocks, size_t count)
{
    size_t last = 0;
    if (region_chunk(blocks[0]) == region_chunk(blocks[count - 1]))
        count = 1; /* usually in address order: all of one slab */
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

/* Relists a slab after a put. True: all its blocks are free, the depot keeps another empty slab,
 * and this one is detached. */
ALWAYS_INLINE bool relist_freed(struct depot *depot, struct slab *slab)
{
    if (likely(depot_list_for(bin_class(depot->bin), slab->free_count) == slab->list))
        return false;
    depot_relist(depot, slab);
    if (slab->free_count != slab->capacity || !has_other_empty(depot, slab))
        return false;
    depot_orphan(depot, slab);
    return true;
}

/* Sets the bits of the first blocks, up to one in another slab or one that is free already. Returns
 * how many. */
static size_t put_run(struct slab *slab, unsigned class, void *const *blocks, size_t count)
{
    size_t i = 0;
    do {
        if (unlikely(!slab_put(slab, class_block(class, (uint16_t)(uintptr_t)blocks[i]))))
            break;
        i++;
    } while (i < count && region_chunk(blocks[i]) == slab->chunk);
    return i;
}

/* Fast path for blocks in random order: sets the bits of the first blocks, up to one of a foreign
 * or newly empty slab, of a slab that changes its list, or freed already. Returns how many. */
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

/* The length of the leading run of blocks that are `step` bytes apart, at most `most`. */
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

/* put_run() for blocks that often follow or precede their neighbours: one write to a bitmap word
 * puts a run. */
static NOINLINE size_t put_neighbours(struct slab *slab, unsigned class, void *const *blocks,
                                      size_t count)
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
            if (!slab_put(slab, number))
                break;
            steps = 1;
        }
        i += steps;
    } while (i < count && region_chunk(blocks[i]) == slab->chunk);
    return i;
}

/* Whether the first two blocks are neighbours: blocks freed together were often allocated together,
 * in order. */
static bool is_in_order(void *const *blocks, size_t count, size_t bytes)
{
    size_t step = count > 1 ? (size_t)((char *)blocks[1] - (char *)blocks[0]) : 0;
    return step == bytes || step == -bytes;
}

static void report_doubles(unsigned class, void *const *blocks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        misuse_report_double(blocks[i], "free of", class_facts[class].bytes);
}

/* Sets the bits of the depot's own blocks, releases the lock, and reports blocks that were free
 * already. Moves the other blocks to the start of the array and returns how many. */
static size_t put_own(struct depot *depot, void **blocks, size_t count)
{
    struct slab *empty = NULL;
    size_t foreign = 0, put = 0, end = count; /* doubles are from `end` to `count` */
    unsigned class = bin_class(depot->bin);
    bool is_ordered = is_in_order(blocks, count, class_facts[class].bytes);
    for (size_t i = 0; i < end;) {
        size_t done = unlikely(is_ordered) ? 0 : put_scattered(depot, blocks + i, end - i);
        put += done;
        if ((i += done) == end)
            break;
        struct slab *slab = depot_own_slab(depot, region_chunk(blocks[i]));
        if (unlikely(slab == NULL)) {
            blocks[foreign++] = blocks[i++];
            continue;
        }
        slab->tick = load(&depot_tick, RELAXED);
        done = unlikely(is_ordered) ? put_neighbours(slab, class, blocks + i, end - i)
                                    : put_run(slab, class, blocks + i, end - i);
        if (unlikely(done == 0)) {
            void *twice = blocks[i];
            blocks[i] = blocks[--end];
            blocks[end] = twice;
        }
        i += done;
        put += done;
        /* A block that is free already must not find its slab retired. */
        bool is_last = i == end || region_chunk(blocks[i]) != slab->chunk;
        if (is_last && unlikely(relist_freed(depot, slab))) {
            put -= slab->capacity; /* may wrap below zero; the sum holds */
            empty = depot_chain(slab, empty);
        }
    }
    depot_count_free(depot, put, 0);
    lock_release(&depot->lock, RANK_DEPOT);
    depot_retire(empty);
    report_doubles(class, blocks + end, count - end);
    return foreign;
}

/* Makes deferred frees of blocks, each in the map of its slab. The slab need not be this depot's;
 * the stack is. */
static NOINLINE void put_deferred(struct depot *depot, void *const *blocks, size_t count)
{
    unsigned class = bin_class(depot->bin);
    for (size_t i = 0; i < count; i++) {
        size_t chunk = region_chunk(blocks[i]);
        unsigned number = class_block(class, (uint16_t)(uintptr_t)blocks[i]);
        if (bin_class(region_bin(chunk)) != class ||
            !deferred_put(&depot->deferred, slab_of_chunk(chunk), number))
            report_doubles(class, &blocks[i], 1);
    }
}

/* Whether a depot may hand out and put blocks of the bin. */
static bool is_of_depot(const struct depot *depot, unsigned bin)
{
    bool is_apart = rows_are_separate || bin_is_sampled(bin) || bin_is_sampled(depot->bin);
    return is_apart ? bin == depot->bin : bin_class(bin) == bin_class(depot->bin);
}

size_t depot_take_deferred(struct depot *depot, void **out)
{
    for (unsigned tries = 0; tries < DEFERRED_TRIES_MAX; tries++) {
        size_t count = deferred_take(&depot->deferred, out, BATCH_BLOCKS);
        /* all of one slab, which our blocks keep from changing class */
        unsigned bin = count == 0 ? depot->bin : region_bin(region_chunk(out[0]));
        if (likely(is_of_depot(depot, bin)))
            return count;
        fetch_add(&depot->deferred.blocks, (uint32_t)count, RELAXED);
        fetch_sub(&depot_of(bin)->deferred.blocks, (uint32_t)count, RELAXED);
        put_deferred(depot_of(bin), out, count);
    }
    return 0;
}

/* Takes the depot's lock (false), or, while another thread holds it, sets the blocks aside (true):
 * as a batch, of any cohorts of the class, or as deferred frees. Never sleeps. */
static bool defer_if_held(struct depot *depot, void *const *blocks, size_t count)
{
    size_t bytes = class_facts[bin_class(depot->bin)].bytes;
    if (depot_try_lock(depot))
        return false;
    if (count > BATCH_BLOCKS || !depot_batch_push(depot, blocks, count, batches_for(bytes)))
        put_deferred(depot, blocks, count);
    purge_note(count * bytes, bytes);
    return true;
}

/* Puts blocks whose slabs have moved to other cohorts. A slab may move again meanwhile, and its
 * block follows; each such turn takes a refill by another thread. A block whose chunk is no longer
 * a slab of the class is a double free: the slab was retired with the block in it. */
static void put_foreign(unsigned class, void **blocks, size_t count)
{
    while (count > 0) {
        unsigned home = region_bin(region_chunk(blocks[0]));
        if (bin_class(home) != class) {
            report_doubles(class, blocks, 1);
            blocks[0] = blocks[--count];
        } else if (defer_if_held(depot_of(home), blocks, count)) {
            return;
        } else {
            count = put_own(depot_of(home), blocks, count);
        }
    }
}

/* Puts blocks into a depot whose lock the caller holds, and releases the lock. */
static void put_locked(struct depot *depot, void **blocks, size_t count)
{
    unsigned class = bin_class(depot->bin);
    put_foreign(class, blocks, put_own(depot, blocks, count));
    purge_note(count * class_facts[class].bytes, class_facts[class].bytes);
}

void depot_put_or_defer(struct depot *depot, void **blocks, size_t count)
{
    prefetch_maps(blocks, count);
    if (!defer_if_held(depot, blocks, count))
        put_locked(depot, blocks, count);
}

static bool are_marked(void *const *blocks, size_t count)
{
    uint64_t wrong = 0;
    UNROLLED
    for (size_t i = 0; i < count; i++)
        wrong |= *(const block_word *)blocks[i] ^ cache_mark;
    return wrong == 0;
}

/* Reports blocks of a cache or batch that lack the mark, and drops them: they were written to after
 * their free, and may be live again. Returns how many are left. */
static size_t drop_spoiled(unsigned bin, void **blocks, size_t count)
{
    size_t left = 0;
    if (CHECKS == 0 || likely(are_marked(blocks, count)) || load(&marks_are_unsure, RELAXED))
        return count;
    for (size_t i = 0; i < count; i++) {
        if (block_is_marked(blocks[i]))
            blocks[left++] = blocks[i];
        else
            misuse_report_spoiled(blocks[i], class_facts[bin_class(bin)].bytes);
    }
    return left;
}

/* Whether refills may soon want batches. If not, moves one batch to the bitmaps: the blocks that a
 * shrinking program frees should form whole slabs. */
static bool is_batch_wanted(struct depot *depot)
{
    void *blocks[BATCH_BLOCKS];
    uint32_t flushes_since = load(&depot->flushes_since, RELAXED);
    if (likely(flushes_since < FLUSHES_MAX)) {
        store(&depot->flushes_since, flushes_since + 1, RELAXED);
        return true;
    }
    size_t count = drop_spoiled(depot->bin, blocks, depot_batch_pop(depot, blocks));
    if (count > 0)
        depot_put_or_defer(depot, blocks, count);
    return false;
}

void depot_flush(unsigned bin, void **blocks, size_t count, uint32_t user)
{
    struct depot *depot = depot_of(bin);
    uint32_t batches_max = batches_for(class_facts[bin_class(bin)].bytes);
    if ((count = drop_spoiled(bin, blocks, count)) == 0)
        return;
    if (depot_note_user(depot, user) && count <= BATCH_BLOCKS && is_batch_wanted(depot) &&
        depot_batch_push(depot, blocks, count, batches_max))
        return;
    depot_put_or_defer(depot, blocks, count);
}

/* Whether all neighbours have the mark. */
static bool is_run_marked(const char *lowest, size_t count, size_t bytes)
{
    uint64_t wrong = 0;
    UNROLLED
    for (size_t i = 0; i < count; i++)
        wrong |= *(const block_word *)(const void *)(lowest + i * bytes) ^ cache_mark;
    return CHECKS == 0 || wrong == 0;
}

/* Puts neighbours of one slab, from the lowest up to a word with a block that is free already, and
 * releases the lock. Returns how many. */
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
        is_one_more = relist_freed(depot, slab);
        depot_count_free(depot, put, is_one_more ? slab->capacity : 0);
    }
    lock_release(&depot->lock, RANK_DEPOT);
    depot_retire(is_one_more ? depot_chain(slab, NULL) : NULL);
    size_t bytes = class_facts[bin_class(depot->bin)].bytes;
    purge_note(put * bytes, bytes);
    return put;
}

void depot_flush_run(unsigned bin, char *lowest, size_t count, uint32_t user)
{
    struct depot *depot = depot_of(bin);
    size_t bytes = class_facts[bin_class(bin)].bytes, put = 0;
    void *blocks[REFILL_MAX];
    ASSERT(count <= REFILL_MAX);
    if (likely(!depot_note_user(depot, user)) && likely(is_run_marked(lowest, count, bytes)) &&
        likely(depot_try_lock(depot)))
        put = put_run_locked(depot, lowest, count);
    if (likely(put == count))
        return;
    depot_list_run(blocks, count - put, lowest + put * bytes, bytes);
    depot_flush(bin, blocks, count - put, user);
}

/* Puts blocks taken from a stack. False: the depot is held, and the blocks are set aside again. */
static bool put_drained(struct depot *depot, void **blocks, size_t count, bool is_patient)
{
    bool is_locked = is_patient && depot_lock_or_fail(depot);
    if (!is_locked && defer_if_held(depot, blocks, count))
        return false;
    put_locked(depot, blocks, count);
    return true;
}

size_t depot_drain(struct depot *depot, struct batch_stack *stack, bool is_patient)
{
    void *blocks[REFILL_MAX];
    size_t moved = 0;
    for (unsigned i = 0; i < BATCHES_PER_STACK; i++) {
        size_t count = 0;
        if (stack != NULL)
            count = batch_pop(stack, blocks);
        else if (deferred_any(&depot->deferred))
            count = depot_take_deferred(depot, blocks);
        size_t left = drop_spoiled(depot->bin, blocks, count);
        if (count == 0 || (left > 0 && !put_drained(depot, blocks, left, is_patient)))
            break;
        moved += count;
    }
    return moved;
}
