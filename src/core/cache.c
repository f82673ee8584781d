/*
 * cache.c: refill, flush, and the arrays of a cache.
 *
 * A bin's array starts small and doubles when the bin misses, while the cache stays within its
 * budget of bytes. When the budget or the arena is used up, a hand goes round the bins and halves
 * those that have not missed since it passed last, a few at a time. A bin without an array works
 * straight on its depot: a free never needs memory.
 *
 * Owner: the thread the cache belongs to.
 * C1: slots are written before the top that covers them.   C2: an array's slot 1, the first one
 * used, is NULL, and it is aligned to its size. Design: docs/design/caches.md
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
    /* A bin's first array holds, where its class allows as many. */
    BLOCKS_FIRST = BLOCKS_FIXED == 0 ? 7 : BLOCKS_FIXED,
    BLOCKS_PLAIN = 127, /* what any bin may grow to; more only while the budget is mostly unused */
    HAND_BINS = 8,      /* used bins the hand looks at in one step                   */
    REFUSALS_A_STEP = 128,
    FLUSH_MAX = BATCH_BLOCKS, /* blocks handed over at once, as a batch              */
    FLUSH_PLAIN = 32,         /* into bitmaps, which takes some 20 ns a block        */
    FLUSH_KEEPS = 8,
    RUN_PUT_MIN = 16,              /* neighbours that are worth a look at each */
    REFILL_PLAIN = 64,             /* blocks to fetch at once, where they do not come as a batch */
    REFILL_GROWING = BATCH_BLOCKS, /* where the program has only asked since the last miss */
    FLUSHES_MAX = 16,              /* in a row, before a bin holds less */
    FLUSHES_STEADY = 24,           /* in a row, before one that hands batches over holds two */
    FLUSHES_SPARED = 8,            /* in a row: what the largest array has room for */
    FALLING_BYTES = 8192,          /* and no less than this, within these bounds */
    FALLING_MIN = BLOCKS_FIXED == 0 ? 15 : BLOCKS_FIXED,
    FALLING_MAX = BLOCKS_FIXED == 0 ? BATCH_BLOCKS : BLOCKS_FIXED,
    FALLING_STEP = 8,
};

_Static_assert(SLOTS_LOG2_MAX - SLOTS_LOG2_MIN <= LOG2_MASK,
               "an array's size fits an entry's low bits");

struct cache cache_none;
struct cache_budget caches_budget;
void (*_Atomic cache_on_refill)(size_t bytes);

static struct cache_row *row_of(struct cache *cache, unsigned bin)
{
    return &cache->rows[bin_row(bin)];
}

static uint64_t class_bit(unsigned bin)
{
    return (uint64_t)1 << bin_class(bin);
}

static uint64_t row_bit(unsigned bin)
{
    return (uint64_t)1 << bin_row(bin) % 64;
}

/* Unused arrays are linked through their first slot, as a whole word, which no reader can take for
 * a block. */
static void arena_link(struct cache *cache, uint32_t at, unsigned log2)
{
    store(cache_slot(cache, at), (void *)(uintptr_t)cache->free_arrays[log2], RELAXED);
    cache->free_arrays[log2] = at;
}

/* Keeps the lower end of a piece of 2^have slots at `at`, and links the halves above it. */
static uint32_t arena_split(struct cache *cache, uint32_t at, unsigned have, unsigned log2)
{
    while (have > log2) {
        have--;
        arena_link(cache, at + ((uint32_t)SLOT_BYTES << have), have);
    }
    return at;
}

/* Finds room for an array, splitting a larger unused one when need be. Offset, or 0. */
static uint32_t arena_take(struct cache *cache, unsigned log2)
{
    for (unsigned have = log2; have <= SLOTS_LOG2_MAX; have++) {
        uint32_t at = cache->free_arrays[have];
        if (at == 0)
            continue;
        cache->free_arrays[have] = (uint32_t)(uintptr_t)load(cache_slot(cache, at), RELAXED);
        return arena_split(cache, at, have, log2);
    }
    while (cache->arena_used < CACHE_BYTES) { /* pieces as large as their places allow */
        uint32_t at = cache->arena_used;
        unsigned have = (unsigned)size_min(bit_lowest(at / SLOT_BYTES), SLOTS_LOG2_MAX);
        cache->arena_used = at + ((uint32_t)SLOT_BYTES << have);
        if (have >= log2)
            return arena_split(cache, at, have, log2);
        arena_link(cache, at, have);
    }
    return 0;
}

/* Counts `more` bytes, which wrap when they are less. */
static void count_capacity(struct cache *cache, size_t more)
{
    cache->capacity_bytes += more;
    fetch_add(&caches_budget.in_use, more, RELAXED);
    if (cache == of_thread.cache)
        thread_weigh(cache);
}

/* Lets a bin hold `blocks`, in a larger array if need be, with the same blocks in it. False: no
 * room. */
static bool array_resize(struct cache *cache, unsigned bin, size_t blocks)
{
    struct cache_entry *entry = &cache->entries[bin];
    struct array old = array_of(entry->limit);
    size_t more = (blocks - old.blocks) * bin_bytes(bin); /* wraps when it is less */
    bool is_luxury = blocks > BLOCKS_PLAIN && (blocks > BLOCKS_SHARED || !depot_is_shared(bin));
    size_t budget = is_luxury ? luxury_now() : budget_for(bin);
    if (blocks > old.blocks && cache->capacity_bytes + more > budget)
        return false;
    unsigned log2 = (unsigned)size_max(bit_highest(blocks) + 1u, SLOTS_LOG2_MIN);
    edit_begin(cache); /* before a piece of the arena is in no place, or in two */
    uint32_t at = log2 == old.log2 ? old.start : arena_take(cache, log2);
    if (at == 0) {
        edit_end(cache);
        return false;
    }
    uint32_t used = old.log2 == 0 ? 0 : load(&entry->top, RELAXED) - old.start;
    if (at != old.start) {
        store(cache_slot(cache, at), NULL, RELAXED);
        store(cache_slot(cache, at + SLOT_BYTES), NULL, RELAXED);
        for (uint32_t offset = SLOT_BYTES; offset <= used; offset += SLOT_BYTES)
            store(cache_slot(cache, at + offset),
                  load(cache_slot(cache, old.start + offset), RELAXED), RELAXED);
        store(&entry->top, at + used, RELEASE);
    }
    entry->limit = (at + (uint32_t)blocks * SLOT_BYTES) | (log2 - SLOTS_LOG2_MIN);
    if (old.log2 != 0 && at != old.start)
        arena_link(cache, old.start, old.log2);
    count_capacity(cache, more);
    cache->armed[bin_class(bin)].worth = ARMED_NEVER;
    row_of(cache, bin)->used_bins |= class_bit(bin);
    cache->used_rows[bin_row(bin) / 64] |= row_bit(bin);
    edit_end(cache);
    return true;
}

/* No pages are purged before the cache is whole again: cache_done(). */
static void give(unsigned bin, void *const *blocks, size_t count, uint32_t user)
{
    purge_hold();
    depot_give(bin_held(bin), blocks, count, user);
    purge_end_hold();
}

/* The slot above those that leave, when `count` do: the newest, but for a few that stay on top. */
static void *_Atomic *flush_end(struct cache *cache, unsigned bin, size_t count)
{
    struct cache_entry *entry = &cache->entries[bin];
    size_t others = entry_count(entry) - 1 - count;
    ASSERT(count < entry_count(entry) && count <= FLUSH_MAX);
    return cache_slot(cache, load(&entry->top, RELAXED) + SLOT_BYTES) -
           size_min(FLUSH_KEEPS, others);
}

/* Closes the gap of the `count` slots below `end`: no more than those few move, so a flush is short
 * however large the array is. */
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
 * Gives `count` blocks of a bin, fewer than all, to its depot; of many up to a half fewer, so that
 * neighbours stay together. The blocks leave the array before they are given: another thread may
 * have them a moment later.
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
    give(bin, blocks, count, cache->number);
}

/* As flush_some, of those among the newest `count` that lie side by side, chunk by chunk: nothing
 * is copied. Returns how many went; 0 where batches are wanted. */
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
        depot_give_run(bin_held(bin), newest < oldest ? newest : oldest, run, cache->number);
        purge_end_hold();
        left -= run;
    }
    return count - left;
}

/* Gives all blocks of a bin to its depot. */
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
            give(bin, blocks, count, cache->number);
    }
}

void cache_close_bin(struct cache *cache, unsigned bin)
{
    struct cache_entry *entry = &cache->entries[bin];
    struct array array = array_of(entry->limit);
    if (bin_is_armed(bin)) /* these requests are still to come */
        cache->armed[bin_class(bin)].unarmed += entry_count(entry);
    flush_all(cache, bin);
    edit_begin(cache);
    entry->limit = 0;
    store(&entry->top, 0, RELEASE);
    arena_link(cache, array.start, array.log2);
    count_capacity(cache, -(array.blocks * bin_bytes(bin)));
    row_of(cache, bin)->used_bins &= ~class_bit(bin);
    if (row_of(cache, bin)->used_bins == 0)
        cache->used_rows[bin_row(bin) / 64] &= ~row_bit(bin);
    edit_end(cache);
}

/* Halves what a bin may hold; a bin that holds one is closed, and an armed one, too. */
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
    array_resize(cache, bin, target);
}

/* Whether the arrays, with so much more of a bin, may hold more than the budget allows; it falls
 * when other threads want some, too. */
static bool is_over(const struct cache *cache, unsigned bin, size_t more_bytes)
{
    return cache->capacity_bytes + more_bytes > budget_for(bin);
}

/* Shrinks the bins of a row that have not missed since the hand passed, or all of a cache that is
 * over its budget. Not `except`. Returns how many it looked at. */
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

/* Moves the hand over a few used bins, once round at most. */
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

/* Once for each look of the purger's: what one of several caches took while the heap was larger
 * goes back. */
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

/* Doubles what a bin may hold, up to its class's limit. False: no room. */
static bool grow(struct cache *cache, unsigned bin)
{
    size_t blocks = array_of(cache->entries[bin].limit).blocks;
    size_t most = blocks_max(bin, blocks);
    if (blocks >= most)
        return true;
    size_t wanted = size_min(blocks == 0 ? BLOCKS_FIRST : 2 * blocks + 1, most);
    return array_resize(cache, bin, wanted) ||
           (blocks == 0 && array_resize(cache, bin, size_min(2, most)));
}

void cache_grow_after_miss(struct cache *cache, unsigned bin)
{
    row_of(cache, bin)->recent_bins |= class_bit(bin);
    if (!is_over(cache, bin, bin_bytes(bin)) && grow(cache, bin))
        return;
    if (++cache->refusals % REFUSALS_A_STEP == 0)
        shrink_bins(cache, bin);
}

/* The cache that the calling thread may change: its own, or its core's, taken until cache_done().
 * NULL: it works without. */
static struct cache *cache_here(void)
{
    struct cache *cache = of_thread.cache;
    if (likely(cache != &cache_none && !load(&cores_are_used, RELAXED)))
        return cache;
    return thread_cache();
}

static void cache_done(struct cache *cache)
{
    if (cache != NULL && cache != of_thread.cache)
        cores_return(cache);
    purge_settle();
}

/* Puts blocks[1 .. count) on the entry so that the lowest address is taken first; what has no room
 * goes back. */
static void stow(struct cache *cache, unsigned bin, void **blocks, size_t count)
{
    struct cache_entry *entry = &cache->entries[bin];
    struct array array = array_of(entry->limit);
    size_t stowed = size_min(array.blocks - (array.log2 == 0 ? 0 : entry_count(entry)), count - 1);
    uint32_t top = load(&entry->top, RELAXED);
    void *_Atomic *slot = cache_slot(cache, top + SLOT_BYTES);
    size_t in_slots = stowed;
    edit_begin(cache);
    if (!cache->is_for_cores && stowed > 0) { /* blocks[1] becomes `first`, not a slot */
        store(slot++, load(&entry->first, RELAXED), RELAXED);
        in_slots--;
    }
    UNROLLED
    for (size_t i = 0; i < in_slots; i++)
        store(&slot[i], blocks[stowed - i], RELAXED);
    store(&entry->top, top + (uint32_t)stowed * SLOT_BYTES, RELEASE);
    if (!cache->is_for_cores && stowed > 0)
        store(&entry->first, blocks[1], RELEASE);
    edit_end(cache);
    if (stowed < count - 1)
        give(bin, blocks + 1 + stowed, count - 1 - stowed, cache->number);
}

static uint8_t *flushes_of(struct cache *cache, unsigned bin)
{
    return &row_of(cache, bin)->flushes[bin_class(bin)];
}

/* Flushes since the last miss, which is now. A look keeps its page untouched. */
static unsigned forget_flushes(uint8_t *counter)
{
    unsigned flushes = *counter;
    if (flushes != 0)
        *counter = 0;
    return flushes;
}

/* Whether a bin hands batches over and may hold so many blocks already. */
static bool is_shared_with(struct cache *cache, unsigned bin, size_t blocks)
{
    return depot_is_shared(bin) && array_of(cache->entries[bin].limit).blocks >= blocks;
}

/* Whether a larger array would only keep blocks from others. */
static bool is_ample(struct cache *cache, unsigned bin)
{
    return is_shared_with(cache, bin, blocks_ample(bin));
}

/* Whether it has enough until its program is seen to go on: a thread that allocates some hundreds
 * of blocks, frees them and sleeps keeps no more. */
static bool is_enough(struct cache *cache, unsigned bin)
{
    return is_shared_with(cache, bin, BLOCKS_PLAIN);
}

/* Whether a miss after so many flushes says that a larger array would have had what is missing now.
 */
static bool is_miss_spared(struct cache *cache, unsigned bin, unsigned flushes)
{
    if (!is_ample(cache, bin))
        return flushes > 0 || !is_enough(cache, bin);
    return flushes > 0 && flushes <= FLUSHES_SPARED;
}

/* How many blocks to fetch at once: half of what the bin may hold. Where the program has only asked
 * for blocks since the last miss it is more, and of those that a slab has few of all of it; but not
 * where caches hand batches to each other, as the others want some, too. */
static size_t refill_count(struct cache *cache, unsigned bin, unsigned flushes)
{
    size_t room = array_of(cache->entries[bin].limit).blocks;
    if (flushes > 0 || depot_is_shared(bin))
        return size_min(room / 2 + 1, REFILL_PLAIN);
    bool is_few = class_facts[bin_class(bin)].capacity <= REFILL_PLAIN;
    return size_min(is_few ? room + 1 : room / 2 + 1, REFILL_GROWING);
}

/* Lets a bin grow where a larger array would have had what is missing now. Returns the flushes
 * since the miss before. */
static unsigned note_miss(struct cache *cache, unsigned bin)
{
    unsigned flushes = forget_flushes(flushes_of(cache, bin));
    if (is_miss_spared(cache, bin, flushes))
        cache_grow_after_miss(cache, bin);
    else
        row_of(cache, bin)->recent_bins |= class_bit(bin);
    return flushes;
}

/* From the middle tier; what is more than one goes to the cache, if there is one: to the entry of
 * the bin `to`. At most `most` are wanted; `*fetched` is how many there were. */
static void *refill(struct cache *cache, unsigned bin, unsigned to, size_t most, size_t *fetched)
{
    void *blocks[REFILL_MAX];
    size_t want = 1;
    if (cache != NULL)
        want = size_min(refill_count(cache, bin, note_miss(cache, bin)), most);
    size_t count = depot_take(bin, blocks, want,
                              cache == NULL ? USER_WITHOUT_CACHE : cache->number);
    *fetched = count;
    if (unlikely(count == 0))
        return NULL;
    if (count > 1 && cache != NULL)
        stow(cache, to, blocks, count);
    else if (count > 1)
        depot_give(bin, blocks + 1, count - 1, USER_WITHOUT_CACHE);
    return blocks[0];
}

NOINLINE void *cache_alloc_slow(uint32_t entry_offset)
{
    void (*on_refill)(size_t) = load(&cache_on_refill, RELAXED);
    struct cache *cache = cache_here();
    if (cache == NULL && !above.start())
        return NULL;
    void *block = NULL;
    unsigned bin = entry_offset / ENTRY_BYTES;
    size_t fetched = 0;
    /* It may have one, where a sequence was aborted or the thread is on another core by now. */
    if (cache != NULL && cache->is_for_cores)
        block = cache_pop_from(cache, cache_entry_at(cache, entry_offset));
    if (block == NULL)
        block = refill(cache, bin, bin, REFILL_MAX, &fetched);
    cache_done(cache);
    if (limit_ends(block))
        block = refill(NULL, bin, bin, 1, &fetched);
    if (unlikely(on_refill != NULL))
        on_refill(fetched * bin_bytes(bin));
    if (CHECKS >= 1 && likely(block != NULL) && unlikely(!cache_unmark(block, bin)))
        return cache_alloc_slow(entry_offset);
    return block;
}

void *cache_refill_armed(struct cache *cache, unsigned bin, unsigned armed, size_t most)
{
    void (*on_refill)(size_t) = load(&cache_on_refill, RELAXED);
    size_t fetched;
    void *block = refill(cache, bin, armed, most, &fetched);
    if (unlikely(block == NULL))
        return NULL;
    cache->armed[bin_class(bin)].unarmed -= entry_count(&cache->entries[armed]);
    limit_ends(block);
    if (unlikely(on_refill != NULL)) /* which may take the cache from the thread */
        on_refill(fetched * bin_bytes(bin));
    if (CHECKS >= 1 && unlikely(!cache_unmark(block, bin)))
        return cache_alloc_slow(armed * ENTRY_BYTES);
    return block;
}

/* How many blocks leave at once at most, where they do not lie side by side: what a batch has, or
 * what is quickly done. */
static size_t flush_most(unsigned bin)
{
    return depot_is_shared(bin) ? batch_blocks_of(bin_bytes(bin)) : FLUSH_PLAIN;
}

static bool is_full(struct cache_entry *entry)
{
    return load(&entry->top, RELAXED) + SLOT_BYTES > entry->limit;
}

/* How often a bin that is full was flushed since it last missed or was armed, this one not counted,
 * up to FLUSHES_STEADY. */
static unsigned count_flush(struct cache *cache, unsigned bin)
{
    uint8_t *flushes = flushes_of(cache, bin);
    uint32_t unarmed = (uint32_t)cache->armed[bin_class(bin)].unarmed;
    if (unarmed != cache->armed_once[bin_class(bin)]) {
        cache->armed_once[bin_class(bin)] = unarmed;
        *flushes = 0;
    }
    return *flushes < FLUSHES_STEADY ? (*flushes)++ : FLUSHES_STEADY;
}

/* Has a full array hold a little less from now on, once a flush has made the room. */
static void fall(struct cache *cache, unsigned bin)
{
    size_t blocks = array_of(cache->entries[bin].limit).blocks;
    size_t least = size_min(size_max(FALLING_BYTES / bin_bytes(bin), FALLING_MIN), FALLING_MAX);
    if (blocks >= least + FALLING_STEP)
        array_resize(cache, bin, blocks - FALLING_STEP);
}

/* Gives part of a full array away: a half, or where the program only frees all but one. */
static void flush_full(struct cache *cache, unsigned bin, bool is_less)
{
    size_t blocks = array_of(cache->entries[bin].limit).blocks;
    size_t count = size_min(is_less ? blocks - 1 : (blocks + 1) / 2, FLUSH_MAX);
    if (blocks == 1) {
        flush_all(cache, bin);
        return;
    }
    size_t gone = flush_runs(cache, bin, count);
    if (gone < count) /* or what is in no order would stay for ever, and room be short */
        flush_some(cache, bin, size_min(count - gone, flush_most(bin)));
}

/* Makes room for one block more in a bin's array. False: it has none. */
static bool make_room(struct cache *cache, unsigned bin)
{
    struct cache_entry *entry = &cache->entries[bin];
    bool is_less = false;
    if (is_full(entry)) {
        unsigned flushes = count_flush(cache, bin);
        bool is_wanted = flushes >= FLUSHES_STEADY || !is_enough(cache, bin);
        /* A program that frees more than it asks for: what the array holds pins pages. */
        is_less = flushes >= FLUSHES_MAX && !depot_is_shared(bin);
        if (!is_less && !is_ample(cache, bin) && is_wanted)
            cache_grow_after_miss(cache, bin);
    }
    if (entry->limit == 0)
        return false;
    if (is_full(entry)) {
        cache->armed_more &= ~class_bit(bin);
        flush_full(cache, bin, is_less);
    }
    if (is_less)
        fall(cache, bin);
    return true;
}

NOINLINE void cache_free_slow(void *block)
{
    unsigned bin = region_bin(region_chunk(block));
    if (unlikely(bin_class(bin) == 0)) { /* its slab has gone: it was free already */
        misuse_classify(block, "free of");
        return;
    }
    if (unlikely(bin_is_sampled(bin))) {
        sampled_free(block, bin);
        return;
    }
    struct cache *cache = cache_here();
    if (cache == NULL || !make_room(cache, bin)) {
        give(bin, &block, 1, cache == NULL ? USER_WITHOUT_CACHE : cache->number);
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
