/*
 * cache.c: refill, flush, and the arrays of a cache.
 *
 * A bin's array starts small and doubles when the bin misses, or a free finds it full, while that
 * helps (growth_helps(), is_enough()) and the cache stays within its budget of bytes. When the
 * budget or the arena is used up, a clock hand goes round the bins and halves those that have not
 * missed since its last pass, a few at a time. A bin without an array uses its depot directly: a
 * free never needs memory.
 *
 * Owner: the thread the cache belongs to. Design: docs/design/caches.md
 * C1: slots are written before the top that covers them.
 * C2: an array is aligned to its size, and a NULL lies below the oldest block: in slot 1, or in
 * slot 0 of a per-CPU cache's array.
 */
#include "core/cache.h"

#include "core/above.h"
#include "core/armed.h"
#include "core/cache_arrays.h"
#include "core/cache_sizes.h"
#include "core/depot.h"
#include "core/misuse.h"
#include "core/purge_turn.h"
#include "core/run.h"
#include "core/sampled_small.h"
#include "core/thread.h"

enum {
    /* A bin's first array holds this many, if its class allows. */
    BLOCKS_FIRST = BLOCKS_FIXED == 0 ? 7 : BLOCKS_FIXED,
    HAND_BINS = 8, /* used bins that the clock hand visits in one step */
    REFUSALS_A_STEP = 128,
    FLUSH_MAX = BATCH_BLOCKS, /* blocks flushed at once, as a batch */
    FLUSH_PLAIN = 32,         /* into bitmaps, at about 20 ns a block */
    FLUSH_KEEPS = 8,
    RUN_PUT_MIN = 16,              /* shortest run that is flushed as one */
    REFILL_PLAIN = 64,             /* blocks to fetch at once from bitmaps */
    REFILL_GROWING = BATCH_BLOCKS, /* where the program has only allocated since the last miss */
    FLUSHES_MAX = 16,              /* since the last miss, before a bin holds less */
    FLUSHES_STEADY = 24,  /* since the last miss, before a bin that passes batches grows on */
    FLUSHES_SPARED = 8,   /* since the last miss: the largest array could have served them */
    FALLING_BYTES = 8192, /* least bytes that a falling bin keeps, within these bounds */
    FALLING_MIN = BLOCKS_FIXED == 0 ? 15 : BLOCKS_FIXED,
    FALLING_MAX = BLOCKS_FIXED == 0 ? BATCH_BLOCKS : BLOCKS_FIXED,
    FALLING_STEP = 8,
};

struct cache cache_none;
struct cache_budget caches_budget;
void (*_Atomic cache_on_refill)(size_t bytes);

/* Flushes blocks to a depot. Delays purging until the cache is consistent: cache_done(). */
static void flush_to_depot(unsigned bin, void **blocks, size_t count, uint32_t user)
{
    purge_hold();
    depot_flush(bin_held(bin), blocks, count, user);
    purge_end_hold();
}

/* The slot above the `count` blocks that leave: the newest, except up to FLUSH_KEEPS that stay on
 * top. */
static void *_Atomic *flush_end(struct cache *cache, unsigned bin, size_t count)
{
    struct cache_entry *entry = &cache->entries[bin];
    size_t others = entry_count(entry) - 1 - count;
    ASSERT(count < entry_count(entry) && count <= FLUSH_MAX);
    return cache_slot(cache, load(&entry->top, RELAXED) + SLOT_BYTES) -
           size_min(FLUSH_KEEPS, others);
}

/* Closes the gap of the `count` slots below `end`. Moves at most FLUSH_KEEPS slots and those that a
 * run shifted, so the cost does not depend on the array's size. */
static void remove_slots(struct cache *cache, unsigned bin, void *_Atomic *end, size_t count)
{
    struct cache_entry *entry = &cache->entries[bin];
    uint32_t top = load(&entry->top, RELAXED);
    void *_Atomic *oldest = end - count;
    edit_begin(cache);
    for (void *_Atomic *slot = end; slot <= cache_slot(cache, top); slot++)
        store(oldest++, load(slot, RELAXED), RELAXED);
    store(&entry->top, top - (uint32_t)count * SLOT_BYTES, RELEASE);
    edit_end(cache);
}

/*
 * Flushes `count` blocks of a bin, fewer than all, to its depot; a large `count` may be reduced by
 * up to half to keep neighbours together. The blocks leave the array first: another thread may take
 * them from the depot at once.
 */
static void flush_some(struct cache *cache, unsigned bin, size_t count)
{
    void *blocks[FLUSH_MAX];
    void *_Atomic *end = flush_end(cache, bin, count);
    if (count >= RUN_BLOCKS_MIN) {
        size_t others = entry_count(&cache->entries[bin]) - 1 - count;
        size_t below = size_max(others, FLUSH_KEEPS) - FLUSH_KEEPS;
        end -= run_move(end, -1, below, bin_bytes(bin));
        count -= run_move(end - count, 1, count / 2, bin_bytes(bin));
    }
    void *_Atomic *oldest = end - count;
    UNROLLED
    for (size_t i = 0; i < count; i++)
        blocks[i] = load(&oldest[i], RELAXED);
    remove_slots(cache, bin, end, count);
    flush_to_depot(bin, blocks, count, cache->number);
}

/* Flushes the runs (neighbours in one chunk) among the newest `count` blocks, without a copy.
 * Returns how many blocks left; 0 where the bin passes batches. */
static size_t flush_runs(struct cache *cache, unsigned bin, size_t count)
{
    size_t bytes = bin_bytes(bin), left = count, run = count;
    if (count < RUN_PUT_MIN || depot_is_shared(bin))
        return 0;
    for (void *_Atomic *end = flush_end(cache, bin, count); left >= RUN_PUT_MIN; end -= run) {
        run = run_length(end, left, bytes);
        if (run < RUN_PUT_MIN)
            break;
        char *newest = (char *)load(&end[-1], RELAXED);
        char *oldest = (char *)load(end - run, RELAXED);
        remove_slots(cache, bin, end, run);
        purge_hold();
        depot_flush_run(bin_held(bin), newest < oldest ? newest : oldest, run, cache->number);
        purge_end_hold();
        left -= run;
    }
    return count - left;
}

/* Flushes all blocks of a bin to its depot. */
static void flush_all(struct cache *cache, unsigned bin)
{
    struct cache_entry *entry = &cache->entries[bin];
    size_t most = batch_blocks_of(bin_bytes(bin));
    for (size_t count = most; count == most;) {
        void *blocks[BATCH_BLOCKS], *block;
        edit_begin(cache);
        for (count = 0; count < most && (block = cache_pop_from(cache, entry)) != NULL;)
            blocks[count++] = block;
        edit_end(cache);
        if (count > 0)
            flush_to_depot(bin, blocks, count, cache->number);
    }
}

void cache_close_bin(struct cache *cache, unsigned bin)
{
    if (bin_is_armed(bin)) /* their requests are still to come */
        cache->armed[bin_class(bin)].unarmed += entry_count(&cache->entries[bin]);
    flush_all(cache, bin);
    cache_array_drop(cache, bin);
}

/* Halves what a bin may hold; closes a bin that holds one block, and an armed bin. */
static void bin_shrink(struct cache *cache, unsigned bin)
{
    struct cache_entry *entry = &cache->entries[bin];
    size_t target = array_of(entry->limit).blocks / 2;
    if (target == 0 || bin_is_armed(bin)) {
        cache_close_bin(cache, bin);
        return;
    }
    for (size_t count = entry_count(entry); count > target; count = entry_count(entry))
        flush_some(cache, bin, size_min(count - target, batch_blocks_of(bin_bytes(bin))));
    cache_array_resize(cache, bin, target);
}

/* Whether the arrays, with `more_bytes` more of a bin, exceed the budget. The budget falls when
 * other threads need some of it. */
static bool is_over(const struct cache *cache, unsigned bin, size_t more_bytes)
{
    return cache->capacity_bytes + more_bytes > budget_for(bin);
}

/* Shrinks the row's bins that have not missed since the clock hand passed; if the cache is over its
 * budget, every bin. Skips `except`. Returns how many bins it visited. */
static unsigned shrink_row(struct cache *cache, unsigned row, unsigned except)
{
    unsigned seen = 0;
    for (uint64_t bins = cache->rows[row].used_bins; bins != 0; bins &= bins - 1) {
        unsigned bin = row * CLASS_LIMIT + bit_lowest(bins);
        if (bin != except &&
            ((cache->rows[row].recent_bins & class_bit(bin)) == 0 || is_over(cache, bin, 0)))
            bin_shrink(cache, bin);
        seen++;
    }
    cache->rows[row].recent_bins = 0;
    return seen;
}

/* Moves the clock hand over HAND_BINS used bins, at most once round. */
static void shrink_bins(struct cache *cache, unsigned except)
{
    unsigned seen = 0, start = cache->hand, end = ROW_LIMIT;
    for (unsigned lap = 0; lap < 2; lap++) {
        unsigned row = used_row(cache, lap == 0 ? start : 0);
        for (; row < end && seen < HAND_BINS; row = used_row(cache, row + 1)) {
            seen += shrink_row(cache, row, except);
            cache->hand = row + 1;
        }
        end = start;
    }
}

/* Once for each purge tick: shrinks a cache whose share of the heap has fallen, where other caches
 * hold blocks too. */
static void follow_heap(struct cache *cache)
{
    uint32_t tick = load(&depot_tick, RELAXED);
    if (likely(cache->tick == tick))
        return;
    cache->tick = tick;
    size_t bytes = cache->capacity_bytes;
    if (load(&caches_budget.in_use, RELAXED) > bytes && bytes > share_of_heap())
        shrink_bins(cache, 0);
}

/* Doubles what a bin may hold, up to its limit. False: no room. */
static bool grow(struct cache *cache, unsigned bin)
{
    size_t blocks = array_of(cache->entries[bin].limit).blocks;
    size_t most = blocks_max(bin, blocks);
    if (blocks >= most)
        return true;
    size_t wanted = size_min(blocks == 0 ? BLOCKS_FIRST : 2 * blocks + 1, most);
    return cache_array_resize(cache, bin, wanted) ||
           (blocks == 0 && cache_array_resize(cache, bin, size_min(2, most)));
}

void cache_try_grow(struct cache *cache, unsigned bin)
{
    row_of(cache, bin)->recent_bins |= class_bit(bin);
    if (!is_over(cache, bin, bin_bytes(bin)) && grow(cache, bin))
        return;
    if (++cache->refusals % REFUSALS_A_STEP == 0)
        shrink_bins(cache, bin);
}

/* The cache that the calling thread may change: its own, or the per-CPU cache, owned until
 * cache_done(). NULL: the thread works without a cache. */
static struct cache *cache_here(void)
{
    struct cache *cache = cache_own();
    return likely(cache != NULL) ? cache : thread_cache();
}

static void cache_done(struct cache *cache)
{
    if (cache != NULL && cache != of_thread.cache)
        cores_return(cache);
    purge_settle();
}

/* Pushes blocks[1 .. count) so that they are popped in the order given, blocks[1] first: from a
 * slab, address order. Flushes to the depot the blocks that do not fit. Returns how many fit. */
static size_t push_fetched(struct cache *cache, unsigned bin, void **blocks, size_t count)
{
    struct cache_entry *entry = &cache->entries[bin];
    struct array array = array_of(entry->limit);
    size_t pushed = size_min(array.blocks - (array.log2 == 0 ? 0 : entry_count(entry)), count - 1);
    uint32_t top = load(&entry->top, RELAXED);
    void *_Atomic *slot = cache_slot(cache, top + SLOT_BYTES);
    size_t in_slots = pushed;
    edit_begin(cache);
    if (!cache->is_for_cores && pushed > 0) { /* blocks[1] becomes `first`, not a slot */
        store(slot++, load(&entry->first, RELAXED), RELAXED);
        in_slots--;
    }
    UNROLLED
    for (size_t i = 0; i < in_slots; i++)
        store(&slot[i], blocks[pushed - i], RELAXED);
    store(&entry->top, top + (uint32_t)pushed * SLOT_BYTES, RELEASE);
    if (!cache->is_for_cores && pushed > 0)
        store(&entry->first, blocks[1], RELEASE);
    edit_end(cache);
    if (pushed < count - 1)
        flush_to_depot(bin, blocks + 1 + pushed, count - 1 - pushed, cache->number);
    return pushed;
}

static uint8_t *flushes_of(struct cache *cache, unsigned bin)
{
    return &row_of(cache, bin)->flushes[bin_class(bin)];
}

/* Resets a bin's flush counter at a miss. Returns its value. Writes only if needed: the page may be
 * untouched. */
static unsigned forget_flushes(uint8_t *counter)
{
    unsigned flushes = *counter;
    if (flushes != 0)
        *counter = 0;
    return flushes;
}

/* Whether a bin passes batches and may already hold `blocks`. */
static bool is_shared_with(struct cache *cache, unsigned bin, size_t blocks)
{
    return depot_is_shared(bin) && array_of(cache->entries[bin].limit).blocks >= blocks;
}

/* Whether a larger array would only keep blocks from other caches. */
static bool is_ample(struct cache *cache, unsigned bin)
{
    return is_shared_with(cache, bin, blocks_ample(bin));
}

/* Whether a bin holds enough until its program turns out to be steady: a thread that allocates a
 * few hundred blocks, frees them and sleeps keeps no more. */
static bool is_enough(struct cache *cache, unsigned bin)
{
    return is_shared_with(cache, bin, BLOCKS_PLAIN);
}

/* Whether a larger array would have avoided a miss, `flushes` flushes after the miss before. */
static bool growth_helps(struct cache *cache, unsigned bin, unsigned flushes)
{
    if (!is_ample(cache, bin))
        return flushes > 0 || !is_enough(cache, bin);
    return flushes > 0 && flushes <= FLUSHES_SPARED;
}

/* How many blocks to fetch at once: half of what the bin may hold. A program that has only
 * allocated since the last miss gets more blocks at once; all that fit if a slab has few. Where
 * caches pass batches to each other the count stays at half, as the others need blocks too. */
static size_t refill_count(struct cache *cache, unsigned bin, unsigned flushes)
{
    size_t room = array_of(cache->entries[bin].limit).blocks;
    if (flushes > 0 || depot_is_shared(bin))
        return size_min(room / 2 + 1, REFILL_PLAIN);
    bool is_few = class_facts[bin_class(bin)].capacity <= REFILL_PLAIN;
    return size_min(is_few ? room + 1 : room / 2 + 1, REFILL_GROWING);
}

/* Lets a bin grow if a larger array would have avoided this miss. Returns the flushes since the
 * miss before. */
static unsigned note_miss(struct cache *cache, unsigned bin)
{
    unsigned flushes = forget_flushes(flushes_of(cache, bin));
    if (growth_helps(cache, bin, flushes))
        cache_try_grow(cache, bin);
    else
        row_of(cache, bin)->recent_bins |= class_bit(bin);
    return flushes;
}

/* What a refill brought: blocks in all, and those that the entry got. */
struct fetched {
    size_t blocks, pushed;
};

/* Asks the depot for `want` blocks of `bin`, gets up to REFILL_MAX (depot_refill()), and returns
 * one. The others go to the entry of bin `to`, if there is a cache. NULL: no memory. */
static NOINLINE void *fetch(struct cache *cache, unsigned bin, unsigned to, size_t want,
                            struct fetched *fetched)
{
    void *blocks[REFILL_MAX];
    purge_hold(); /* a purge goes deep: not below the array */
    size_t count = depot_refill(bin, blocks, want,
                                cache == NULL ? USER_WITHOUT_CACHE : cache->number);
    if (count > 1 && cache == NULL)
        depot_flush(bin, blocks + 1, count - 1, USER_WITHOUT_CACHE);
    purge_end_hold();
    fetched->blocks = count;
    if (count > 1 && cache != NULL)
        fetched->pushed = push_fetched(cache, to, blocks, count);
    return count > 0 ? blocks[0] : NULL;
}

/* fetch() of at most `most` blocks. A bin that grows may shrink others: not below the array of
 * fetch(), as callers' stacks may be small. */
static void *refill(struct cache *cache, unsigned bin, unsigned to, size_t most,
                    struct fetched *fetched)
{
    size_t want = 1;
    if (cache != NULL)
        want = size_min(refill_count(cache, bin, note_miss(cache, bin)), most);
    return fetch(cache, bin, to, want, fetched);
}

NOINLINE void *cache_alloc_slow(uint32_t entry_offset)
{
    void (*on_refill)(size_t) = load(&cache_on_refill, RELAXED);
    struct cache *cache = cache_here();
    if (cache == NULL && !above.start())
        return NULL;
    void *block = NULL;
    unsigned bin = entry_offset / ENTRY_BYTES;
    struct fetched fetched = {0};
    /* The cache may hold blocks: a sequence was aborted, or the thread has moved to another core.
     */
    if (cache != NULL && cache->is_for_cores)
        block = cache_pop_from(cache, cache_entry_at(cache, entry_offset));
    if (block == NULL)
        block = refill(cache, bin, bin, REFILL_MAX, &fetched);
    cache_done(cache);
    if (limit_should_retry(block))
        block = refill(NULL, bin, bin, 1, &fetched);
    if (unlikely(on_refill != NULL))
        on_refill(fetched.blocks * bin_bytes(bin));
    if (CHECKS >= 1 && likely(block != NULL) && unlikely(!cache_unmark(block, bin)))
        return cache_alloc_slow(entry_offset);
    return block;
}

void *cache_refill_armed(struct cache *cache, unsigned bin, unsigned armed, size_t most)
{
    void (*on_refill)(size_t) = load(&cache_on_refill, RELAXED);
    struct fetched fetched = {0};
    void *block = refill(cache, bin, armed, most, &fetched);
    if (unlikely(block == NULL))
        return NULL;
    uint64_t *unarmed = &cache->armed[bin_class(bin)].unarmed; /* nested requests use it up, too */
    *unarmed -= size_min(*unarmed, fetched.pushed);
    limit_should_retry(block);
    if (unlikely(on_refill != NULL)) /* may take the cache from the thread */
        on_refill(fetched.blocks * bin_bytes(bin));
    if (CHECKS >= 1 && unlikely(!cache_unmark(block, bin)))
        return cache_alloc_slow(armed * ENTRY_BYTES);
    return block;
}

/* The most blocks flushed at once that are not in a run: a batch, or what bitmaps take quickly. */
static size_t flush_most(unsigned bin)
{
    return depot_is_shared(bin) ? batch_blocks_of(bin_bytes(bin)) : FLUSH_PLAIN;
}

static bool is_full(struct cache_entry *entry)
{
    return load(&entry->top, RELAXED) + SLOT_BYTES > entry->limit;
}

/* Counts a flush of a full bin. Returns the flushes before it since the bin last missed or was
 * armed, up to FLUSHES_STEADY. */
static unsigned count_flush(struct cache *cache, unsigned bin)
{
    uint8_t *flushes = flushes_of(cache, bin);
    uint32_t unarmed = (uint32_t)cache->armed[bin_class(bin)].unarmed;
    if (unarmed != cache->unarmed_seen[bin_class(bin)]) {
        cache->unarmed_seen[bin_class(bin)] = unarmed;
        *flushes = 0;
    }
    return *flushes < FLUSHES_STEADY ? (*flushes)++ : FLUSHES_STEADY;
}

/* Lowers the limit of an array by FALLING_STEP, after a flush has made room. */
static void lower_limit(struct cache *cache, unsigned bin)
{
    size_t blocks = array_of(cache->entries[bin].limit).blocks;
    size_t least = size_min(size_max(FALLING_BYTES / bin_bytes(bin), FALLING_MIN), FALLING_MAX);
    if (blocks >= least + FALLING_STEP)
        cache_array_resize(cache, bin, blocks - FALLING_STEP);
}

/* Flushes part of a full array, FLUSH_MAX at most: half, or all but one after FLUSHES_MAX flushes
 * of one cache's bin without a miss. What forms no run leaves a few at a time (flush_most()). */
static void flush_full(struct cache *cache, unsigned bin, bool is_less)
{
    size_t blocks = array_of(cache->entries[bin].limit).blocks;
    size_t count = size_min(is_less ? blocks - 1 : (blocks + 1) / 2, FLUSH_MAX);
    if (blocks == 1) {
        flush_all(cache, bin);
        return;
    }
    size_t run_blocks = flush_runs(cache, bin, count);
    if (run_blocks < count) /* else blocks in no order would stay for ever, and room be short */
        flush_some(cache, bin, size_min(count - run_blocks, flush_most(bin)));
}

/* Makes room for one more block in a bin's array. False: the bin has no array. */
static bool make_room(struct cache *cache, unsigned bin)
{
    struct cache_entry *entry = &cache->entries[bin];
    bool is_less = false;
    if (is_full(entry)) {
        unsigned flushes = count_flush(cache, bin);
        bool is_wanted = flushes >= FLUSHES_STEADY || !is_enough(cache, bin);
        /* The program frees more than it allocates, and cached blocks pin pages. */
        is_less = flushes >= FLUSHES_MAX && !depot_is_shared(bin);
        if (!is_less && !is_ample(cache, bin) && is_wanted)
            cache_try_grow(cache, bin);
    }
    if (entry->limit == 0)
        return false;
    if (is_full(entry)) {
        cache->armed_more &= ~class_bit(bin);
        flush_full(cache, bin, is_less);
    }
    if (is_less)
        lower_limit(cache, bin);
    return true;
}

NOINLINE void cache_free_slow(void *block)
{
    unsigned bin = region_bin(region_chunk(block));
    if (unlikely(bin_class(bin) == 0)) { /* its slab was retired: the block was free already */
        misuse_classify(block, "free of");
        return;
    }
    if (unlikely(bin_is_sampled(bin))) {
        sampled_free(block, bin);
        return;
    }
    struct cache *cache = cache_here();
    if (cache == NULL || !make_room(cache, bin)) {
        flush_to_depot(bin, &block, 1, cache == NULL ? USER_WITHOUT_CACHE : cache->number);
    } else {
        cache_push_to(cache, &cache->entries[bin], block);
        follow_heap(cache);
    }
    cache_done(cache);
}

void cache_empty(struct cache *cache)
{
    if (unlikely(cache->has_sampled))
        sampled_drop(cache);
    for (unsigned row = used_row(cache, 0); row < ROW_LIMIT; row = used_row(cache, row + 1))
        for (uint64_t bins = cache->rows[row].used_bins; bins != 0; bins &= bins - 1)
            cache_close_bin(cache, row * CLASS_LIMIT + bit_lowest(bins));
}

bool cache_has_arrays(const struct cache *cache)
{
    return used_row(cache, 0) < ROW_LIMIT;
}
