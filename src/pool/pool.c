/*
 * pool.c: the operations of a pool. Each is straight code: no loop, no call, no lock.
 *
 * calm_pool_alloc and the owner's free work on the owner's words alone, but for `given`, which a
 * remote free may change at any time. Whatever they read of it, they act on what they read; what
 * comes later is met by the cursor.
 *
 * Owner: as pool.h says; calm_pool_free_remote writes `given`, `was_remote` and a counter, no more.
 * Design: docs/design/pool.md; steps are named in docs/protocols/pool-remote.md
 */
#include "pool/pool.h"

enum { DRAIN_WORD = 64 };

/* Where an address leads. */
struct pool_place {
    struct pool_class *class;
    struct pool_word *word;
    uint32_t index; /* of the class                  */
    uint32_t w;     /* of the word in the map        */
    uint32_t i;     /* of the bit in the word        */
};

ALWAYS_INLINE uint64_t word_open(const struct pool_word *word, uint64_t taken)
{
    /* S2: pairs with S3, the block's last use is over. */
    return planes_open(taken, load(&word->given, ACQUIRE));
}

/* 4 bits for a count: 0, or n for at least 2^(n - 1). */
ALWAYS_INLINE unsigned code_of(uint32_t blocks)
{
    unsigned code = blocks == 0 ? 0 : bit_highest(blocks) + 1;
    return code > 15 ? 15 : code;
}

ALWAYS_INLINE void publish(calm_pool *pool, uint32_t index, uint64_t free_bytes)
{
    struct calm_pool_occupancy *watch = &pool->watch;
    uint32_t blocks = pool->classes[index].free_known;
    __atomic_store_n(&watch->free_bytes, free_bytes, __ATOMIC_RELAXED);
    if (!watch->is_coded) {
        __atomic_store_n(&watch->known.blocks[index], blocks, __ATOMIC_RELAXED);
        return;
    }
    uint8_t *pair = &watch->known.code[index >> 1];
    unsigned shift = (index & 1) * 4;
    unsigned codes = (*pair & ~(15u << shift)) | code_of(blocks) << shift;
    __atomic_store_n(pair, (uint8_t)codes, __ATOMIC_RELAXED);
}

/* The word has something to hand out. When the levels have it, hot is not above it. */
ALWAYS_INLINE void raise_word(struct pool_class *class, uint32_t w)
{
    if ((class->near[w >> LEVEL_BITS] & level_bit(w & 63)) != 0)
        return;
    levels_set(&class->root, class->far, class->near, w);
    class->hot = w < class->hot ? w : class->hot;
}

/* D1: looks at the cursor's word, takes note of at most *left blocks, and moves the cursor on. */
ALWAYS_INLINE void drain_word(calm_pool *pool, struct pool_class *class, uint32_t *left)
{
    uint32_t w = class->cursor;
    const struct pool_word *word = &class->map[w];
    uint64_t open = word_open(word, load(&word->taken, RELAXED));
    uint32_t extra = level_count(open) - class->counted[w];
    uint32_t found = extra < *left ? extra : *left;
    *left -= found;
    class->counted[w] = (uint8_t)(class->counted[w] + found);
    class->free_known += found;
    class->found_now += found;
    class->remote_frees += found;
    if (open != 0)
        raise_word(class, w);
    class->cursor = w + 1;
    if (class->cursor == class->words) {
        uint32_t backlog = pool->watch.remote_backlog + class->found_now - class->found_last;
        __atomic_store_n(&pool->watch.remote_backlog, backlog, __ATOMIC_RELAXED);
        class->found_last = class->found_now;
        class->found_now = 0;
        class->cursor = 0;
    }
}

/* Pre: a remote free was ever begun; else there is nothing to find. */
ALWAYS_INLINE uint32_t drain_class(calm_pool *pool, uint32_t index)
{
    struct pool_class *class = &pool->classes[index];
    uint32_t left = pool->drain_max;
    drain_word(pool, class, &left);
    if (pool->drain_max > DRAIN_WORD)
        drain_word(pool, class, &left);
    uint32_t found = pool->drain_max - left;
    if (found != 0)
        publish(pool, index, pool->watch.free_bytes + found * class->stride);
    return found;
}

/* The word has nothing left: hot moves on to the next that has. Returns the block, so that this can
 * be the last step of the taking. */
static NOINLINE void *leave_word(struct pool_class *class, void *block)
{
    levels_clear(&class->root, class->far, class->near, class->hot);
    class->hot = class->root != 0 ? levels_first(&class->root, class->far, class->near) : POOL_NONE;
    return block;
}

/* S1: takes the lowest free block of the class. Pre: hot is a word. */
ALWAYS_INLINE void *take(calm_pool *pool, uint32_t index)
{
    struct pool_class *class = &pool->classes[index];
    uint32_t w = class->hot;
    struct pool_word *word = &class->map[w];
    uint64_t taken = load(&word->taken, RELAXED);
    uint64_t given = load(&word->given, ACQUIRE); /* S2 */
    uint64_t after;
    uint32_t i = planes_take(taken, given, &after);
    store(&word->taken, after, RELAXED);
    class->allocs++;
    if (likely(class->counted[w] != 0)) {
        class->counted[w]--;
        class->free_known--;
        class->least_free = class->free_known < class->least_free ? class->free_known
                                                                  : class->least_free;
        publish(pool, index, pool->watch.free_bytes - class->stride);
    } else { /* a remote free that the cursor has not met: it comes and goes */
        class->found_now++;
        class->remote_frees++;
    }
    size_t number = (size_t)w << LEVEL_BITS | i;
    void *block = pool->blocks + class->blocks_at + number * class->stride;
    return likely(planes_open(after, given) != 0) ? block : leave_word(class, block);
}

/* Takes from a class, or from the one that it may borrow from; the same index where it may not. */
ALWAYS_INLINE void *take_or_spill(calm_pool *pool, uint32_t index, uint32_t other)
{
    if (unlikely(pool->classes[index].hot == POOL_NONE)) {
        if (pool->classes[other].hot == POOL_NONE) {
            pool->failed++;
            return NULL;
        }
        pool->spilled++;
        index = other;
    }
    return take(pool, index);
}

/* While the class is exhausted it and the other one have their cursors moved in turns, so that each
 * call looks at one class only, and both get back what is theirs. */
static NOINLINE void *drain_and_take(calm_pool *pool, uint32_t index, uint32_t other)
{
    bool is_exhausted = pool->classes[index].hot == POOL_NONE;
    pool->spill_turn = is_exhausted && !pool->spill_turn;
    drain_class(pool, pool->spill_turn ? other : index);
    return take_or_spill(pool, index, other);
}

/* Kept apart from what looks for remote frees, so that it is short where there never were any. */
ALWAYS_INLINE void *alloc_from(calm_pool *pool, uint32_t index, uint32_t other)
{
    if (unlikely(load(&pool->was_remote, RELAXED)))
        return drain_and_take(pool, index, other);
    return take_or_spill(pool, index, other);
}

/* The smallest class that holds `bytes`. Pre: bytes <= pool->largest. */
ALWAYS_INLINE uint32_t class_for(const calm_pool *pool, size_t bytes)
{
    return bytes <= POOL_TABLE_BYTES ? pool->class_of_size[bytes]
                                     : keys_below(pool->declared, bytes);
}

EXPORT void *calm_pool_alloc(calm_pool *pool, size_t bytes) CALM_NONBLOCKING
{
    if (unlikely(bytes > pool->largest)) {
        pool->failed++;
        return NULL;
    }
    uint32_t index = class_for(pool, bytes);
    uint32_t other = pool->spills && index + 1 < pool->class_count ? index + 1 : index;
    return alloc_from(pool, index, other);
}

EXPORT void *calm_pool_alloc_aligned(calm_pool *pool, size_t bytes, size_t align) CALM_NONBLOCKING
{
    if (unlikely(bytes > pool->largest || !is_power_of_two(align) || align > CALM_POOL_ALIGN_MAX)) {
        pool->failed++;
        return NULL;
    }
    uint64_t fitting = pool->with_align[bit_lowest(align)] & (UINT64_MAX << class_for(pool, bytes));
    if (unlikely(fitting == 0)) {
        pool->failed++;
        return NULL;
    }
    uint32_t index = bit_lowest(fitting);
    fitting &= fitting - 1;
    return alloc_from(pool, index, pool->spills && fitting != 0 ? bit_lowest(fitting) : index);
}

/* Finds the block that begins at an address: 0 and the place, or what is wrong with it. */
ALWAYS_INLINE int locate(const calm_pool *pool, const void *block, struct pool_place *out)
{
    size_t offset = (uintptr_t)block - (uintptr_t)pool->blocks;
    if (unlikely(offset >= pool->blocks_bytes))
        return CALM_EFOREIGN;
    uint32_t index = pool->class_at[offset >> pool->granule_shift];
    if (unlikely(index == POOL_MIXED))
        index = keys_below(pool->last_byte, offset);
    const struct pool_class *class = &pool->classes[index];
    size_t inside = offset - class->blocks_at;
    /* Exact division: a multiple of the stride gives its quotient, all else gives more than any. */
    uint64_t turned = inside >> class->shift | inside << (-class->shift & 63);
    uint64_t number = turned * class->inverse;
    if (unlikely(number >= class->blocks)) {
        if (inside >= class->blocks * class->stride)
            return CALM_EFOREIGN;
        return (inside & (class->align - 1)) != 0 ? CALM_EMISALIGNED : CALM_EINTERIOR;
    }
    out->class = (struct pool_class *)(uintptr_t)class;
    out->index = index;
    out->w = (uint32_t)number >> LEVEL_BITS;
    out->i = (uint32_t)number & 63;
    out->word = &class->map[out->w];
    return 0;
}

/* S3: one locked instruction makes a live block's bits unequal. False: they were so already. */
ALWAYS_INLINE bool give(struct pool_word *word, uint32_t i)
{
    uint64_t bit = level_bit(i);
    if ((load(&word->taken, RELAXED) & bit) != 0)
        return (fetch_and(&word->given, ~bit, RELEASE) & bit) != 0;
    return (fetch_or(&word->given, bit, RELEASE) & bit) == 0;
}

EXPORT int calm_pool_free(calm_pool *pool, void *block) CALM_NONBLOCKING
{
    if (block == NULL)
        return CALM_OK;
    struct pool_place at = {0};
    int error = locate(pool, block, &at);
    if (likely(error == 0) && unlikely(!give(at.word, at.i)))
        error = CALM_EDOUBLE;
    if (unlikely(error != 0)) {
        pool->misuses++;
        return error;
    }
    at.class->counted[at.w]++;
    at.class->free_known++;
    raise_word(at.class, at.w);
    publish(pool, at.index, pool->watch.free_bytes + at.class->stride);
    return CALM_OK;
}

EXPORT int calm_pool_free_remote(calm_pool *pool, void *block) CALM_NONBLOCKING
{
    if (block == NULL)
        return CALM_OK;
    struct pool_place at = {0};
    int error = locate(pool, block, &at);
    if (unlikely(!load(&pool->was_remote, RELAXED)))
        store(&pool->was_remote, true, RELAXED); /* before S3, so that no free can be left unseen */
    if (likely(error == 0) && unlikely(!give(at.word, at.i)))
        error = CALM_EDOUBLE;
    if (unlikely(error != 0))
        fetch_add(&pool->remote_misuses, 1, RELAXED);
    return error;
}

EXPORT uint32_t calm_pool_drain(calm_pool *pool) CALM_NONBLOCKING
{
    uint32_t index = pool->drain_next;
    pool->drain_next = index + 1 < pool->class_count ? index + 1 : 0;
    return load(&pool->was_remote, RELAXED) ? drain_class(pool, index) : 0;
}

EXPORT bool calm_pool_owns(const calm_pool *pool, const void *address) CALM_NONBLOCKING
{
    return (uintptr_t)address - (uintptr_t)pool->blocks < pool->blocks_bytes;
}

int pool_look(const calm_pool *pool, const void *block, size_t *usable)
{
    struct pool_place at = {0};
    int error = locate(pool, block, &at);
    if (error != 0)
        return error;
    uint64_t open = word_open(at.word, load(&at.word->taken, RELAXED));
    if ((open & level_bit(at.i)) != 0)
        return CALM_EDOUBLE;
    *usable = at.class->stride;
    return CALM_OK;
}

EXPORT size_t calm_pool_usable_size(const calm_pool *pool, const void *block) CALM_NONBLOCKING
{
    size_t usable;
    return pool_look(pool, block, &usable) == 0 ? usable : 0;
}

EXPORT const struct calm_pool_occupancy *calm_pool_watch(const calm_pool *pool)
{
    return &pool->watch;
}
