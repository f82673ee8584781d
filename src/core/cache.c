/*
 * cache.c: refill, flush, and the arrays of a cache.
 *
 * A bin's array starts small and doubles when the bin misses, while the cache stays within its budget of bytes. When the
 * budget or the arena is used up, a hand goes round the bins and takes the arrays of those that have not missed since
 * it passed last, a few at a time. A bin without an array works straight on its depot: a free never needs memory.
 *
 * Owner: the thread the cache belongs to.
 * C1: slots are written before the top that covers them.   C2: an array's slot 0 is NULL and it is aligned to its size.
 * Design: docs/design/caches.md
 */
#include "core/cache.h"

#include "core/depot.h"
#include "core/heap.h"
#include "core/thread.h"

enum {
    LOG2_MASK = 7,
    BLOCKS_FIRST = 8,    /* slots of a bin's first array, where its class allows as many */
    HAND_BINS = 8,       /* used bins the hand looks at in one step                      */
};

_Static_assert(SLOTS_LOG2_MAX <= LOG2_MASK + 1, "log2 of slots, less one, fits an entry's low bits");

struct cache cache_none;
_Thread_local struct cache *cache_of_thread = &cache_none;
uint64_t cache_mark = 0x6d6c61636d6c6163;
_Atomic size_t cache_budget = 1024 * 1024;

static bool has_bit(const uint64_t *set, unsigned bin)
{
    return (set[bin / 64] >> bin % 64 & 1) != 0;
}

static void set_bit(uint64_t *set, unsigned bin)
{
    set[bin / 64] |= (uint64_t)1 << bin % 64;
}

static void clear_bit(uint64_t *set, unsigned bin)
{
    set[bin / 64] &= ~((uint64_t)1 << bin % 64);
}

/* An entry's array, from its limit. */
struct array {
    uint32_t start;
    unsigned log2; /* of slots; 0 when there is no array */
};

static struct array array_of(uint32_t limit)
{
    if (limit == 0)
        return (struct array){0, 0};
    unsigned log2 = (limit & LOG2_MASK) + 1;
    uint32_t bytes = (uint32_t)SLOT_BYTES << log2;
    return (struct array){(limit & ~(uint32_t)LOG2_MASK) & ~(bytes - 1), log2};
}

static size_t array_blocks(unsigned log2)
{
    return log2 == 0 ? 0 : ((size_t)1 << log2) - 1;
}

/* Unused arrays are linked through their first slot, as a whole word, which no reader can take for a block. */
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
    uint32_t largest = (uint32_t)SLOT_BYTES << SLOTS_LOG2_MAX;
    uint32_t at = (uint32_t)align_up(cache->arena_used, largest);
    if (at + largest > CACHE_BYTES)
        return 0;
    cache->arena_used = at + largest;
    return arena_split(cache, at, SLOTS_LOG2_MAX, log2);
}

/* Replaces a bin's array by one of 2^log2 slots, with the same blocks in it. False: no room. */
static bool array_replace(struct cache *cache, unsigned bin, unsigned log2)
{
    struct cache_entry *entry = &cache->entries[bin];
    struct array old = array_of(entry->limit);
    size_t bytes = class_facts[bin_class(bin)].bytes;
    size_t more = (array_blocks(log2) - array_blocks(old.log2)) * bytes;
    if (cache->capacity_bytes + more > load(&cache_budget, RELAXED))
        return false;
    uint32_t at = arena_take(cache, log2);
    if (at == 0)
        return false;
    uint32_t used = old.log2 == 0 ? 0 : load(&entry->top, RELAXED) - old.start;
    store(cache_slot(cache, at), NULL, RELAXED);
    for (uint32_t offset = SLOT_BYTES; offset <= used; offset += SLOT_BYTES)
        store(cache_slot(cache, at + offset), load(cache_slot(cache, old.start + offset), RELAXED), RELAXED);
    store(&entry->top, at + used, RELEASE);
    entry->limit = (at + ((uint32_t)SLOT_BYTES << log2) - SLOT_BYTES) | (log2 - 1);
    if (old.log2 != 0)
        arena_link(cache, old.start, old.log2);
    cache->capacity_bytes += more;
    set_bit(cache->used_bins, bin);
    return true;
}

/* Gives the oldest `count` blocks of a bin to its depot and moves the others down. */
static void flush_oldest(struct cache *cache, unsigned bin, size_t count)
{
    struct cache_entry *entry = &cache->entries[bin];
    struct array array = array_of(entry->limit);
    void *blocks[REFILL_MAX];
    uint32_t top = load(&entry->top, RELAXED);
    size_t held = (top - array.start) / SLOT_BYTES;
    count = size_min(size_min(count, held), REFILL_MAX - 1);
    if (count == 0)
        return;
    for (size_t i = 0; i < count; i++)
        blocks[i] = load(cache_slot(cache, array.start + (uint32_t)(i + 1) * SLOT_BYTES), RELAXED);
    for (size_t i = count; i < held; i++) {
        void *block = load(cache_slot(cache, array.start + (uint32_t)(i + 1) * SLOT_BYTES), RELAXED);
        store(cache_slot(cache, array.start + (uint32_t)(i + 1 - count) * SLOT_BYTES), block, RELAXED);
    }
    store(&entry->top, top - (uint32_t)count * SLOT_BYTES, RELEASE);
    depot_give(bin, blocks, count, cache->number);
}

static void bin_close(struct cache *cache, unsigned bin)
{
    struct cache_entry *entry = &cache->entries[bin];
    struct array array = array_of(entry->limit);
    while (load(&entry->top, RELAXED) > array.start)
        flush_oldest(cache, bin, REFILL_MAX - 1);
    entry->limit = 0;
    store(&entry->top, 0, RELEASE);
    arena_link(cache, array.start, array.log2);
    cache->capacity_bytes -= array_blocks(array.log2) * class_facts[bin_class(bin)].bytes;
    clear_bit(cache->used_bins, bin);
}

/* Moves the hand over a few used bins and closes those that have not missed since it passed. Not `except`. */
static void close_idle_bins(struct cache *cache, unsigned except)
{
    unsigned seen = 0;
    for (unsigned word = 0; word < BIN_LIMIT / 64 && seen < HAND_BINS; word++) {
        unsigned index = (cache->hand + word) % (BIN_LIMIT / 64);
        for (uint64_t bins = cache->used_bins[index]; bins != 0; bins &= bins - 1) {
            unsigned bin = index * 64 + bit_lowest(bins);
            if (bin != except && !has_bit(cache->recent_bins, bin))
                bin_close(cache, bin);
            seen++;
        }
        cache->recent_bins[index] = 0;
        if (seen >= HAND_BINS || word + 1 == BIN_LIMIT / 64)
            cache->hand = (index + 1) % (BIN_LIMIT / 64);
    }
}

/* A miss is the sign that a bin wants more: doubles its array, up to its class's limit. */
static void grow_after_miss(struct cache *cache, unsigned bin)
{
    set_bit(cache->recent_bins, bin);
    unsigned log2_max = class_facts[bin_class(bin)].slots_log2;
    unsigned log2 = array_of(cache->entries[bin].limit).log2;
    if (log2 == log2_max)
        return;
    unsigned wanted = log2 == 0 ? (unsigned)size_min(bit_highest(BLOCKS_FIRST), log2_max) : log2 + 1;
    if (array_replace(cache, bin, wanted))
        return;
    close_idle_bins(cache, bin);
    if (!array_replace(cache, bin, wanted) && log2 == 0)
        array_replace(cache, bin, SLOTS_LOG2_MIN);
}

static struct cache *cache_here(void)
{
    struct cache *cache = cache_of_thread;
    return likely(cache != &cache_none) ? cache : thread_attach();
}

/* Puts blocks[1 .. count) on the entry so that the lowest address is taken first; what has no room goes back. */
static void stow(struct cache *cache, unsigned bin, void **blocks, size_t count)
{
    struct cache_entry *entry = &cache->entries[bin];
    struct array array = array_of(entry->limit);
    size_t room = array_blocks(array.log2) - (load(&entry->top, RELAXED) - array.start) / SLOT_BYTES;
    if (array.log2 == 0)
        room = 0;
    size_t stowed = size_min(room, count - 1);
    uint32_t top = load(&entry->top, RELAXED);
    for (size_t i = stowed; i > 0; i--) {
        top += SLOT_BYTES;
        store(cache_slot(cache, top), blocks[i], RELAXED);
    }
    if (stowed > 0)
        store(&entry->top, top, RELEASE);
    if (stowed < count - 1)
        depot_put(bin, blocks + 1 + stowed, count - 1 - stowed);
}

NOINLINE void *cache_alloc_slow(uint32_t entry_offset)
{
    void *blocks[REFILL_MAX];
    unsigned bin = entry_offset / ENTRY_BYTES;
    struct cache *cache = cache_here();
    size_t want = 1;
    if (cache != NULL) {
        struct cache_entry *entry = cache_entry_at(cache, entry_offset);
        void *ready = load(cache_slot(cache, load(&entry->top, RELAXED)), RELAXED);
        if (ready != NULL) /* attaching found a cache that holds blocks */
            return cache_alloc(entry_offset);
        grow_after_miss(cache, bin);
        want = array_blocks(array_of(entry->limit).log2) / 2 + 1;
    } else if (!heap_start()) {
        return NULL;
    }
    size_t count = depot_take(bin, blocks, size_min(want, REFILL_MAX), cache == NULL ? UINT32_MAX - 1 : cache->number);
    if (unlikely(count == 0))
        return NULL;
    if (cache != NULL && count > 1)
        stow(cache, bin, blocks, count);
    else if (count > 1)
        depot_put(bin, blocks + 1, count - 1);
    if (CHECKS >= 1)
        *(block_word *)blocks[0] = 0;
    return blocks[0];
}

NOINLINE void cache_free_slow(void *block, unsigned bin)
{
    struct cache *cache = cache_here();
    if (cache == NULL) {
        depot_put(bin, &block, 1);
        return;
    }
    struct cache_entry *entry = &cache->entries[bin];
    if (load(&entry->top, RELAXED) + SLOT_BYTES > entry->limit) {
        grow_after_miss(cache, bin);
        struct array array = array_of(entry->limit);
        if (array.log2 == 0) {
            depot_put(bin, &block, 1);
            return;
        }
        if (load(&entry->top, RELAXED) + SLOT_BYTES > entry->limit)
            flush_oldest(cache, bin, (array_blocks(array.log2) + 1) / 2);
    }
    cache_free(block, bin);
}

void cache_empty(struct cache *cache)
{
    for (unsigned word = 0; word < BIN_LIMIT / 64; word++)
        for (uint64_t bins = cache->used_bins[word]; bins != 0; bins &= bins - 1)
            bin_close(cache, word * 64 + bit_lowest(bins));
}

/* Walks down from the top to the NULL below the oldest pointer; arrays move under us, but their memory stays. */
static size_t walk(const struct cache *cache, unsigned bin, const void *block, bool *is_found)
{
    struct cache *readable = (struct cache *)(uintptr_t)cache;
    size_t top = load(&readable->entries[bin].top, ACQUIRE); /* C1 */
    size_t count = 0;
    for (; count < (size_t)1 << SLOTS_LOG2_MAX && top >= offsetof(struct cache, arena); top -= SLOT_BYTES, count++) {
        const void *held = load(cache_slot(readable, top), RELAXED);
        *is_found = held == block;
        if (held == NULL || *is_found)
            break;
    }
    return count;
}

bool cache_holds(const struct cache *cache, unsigned bin, const void *block)
{
    bool is_found = false;
    walk(cache, bin, block, &is_found);
    return is_found;
}

size_t cache_count(const struct cache *cache, unsigned bin)
{
    bool is_found = false;
    return walk(cache, bin, (const void *)UINTPTR_MAX, &is_found);
}
