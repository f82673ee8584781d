/*
 * pool.c: the operations of a pool: straight code without loops and locks. A rare case is a
 * separate function, so it does not lengthen the common path, and a configuration that never enters
 * it does not pay for it in the bound.
 *
 * The owner decides by `free`, which only the owner writes. Before the first remote free is
 * announced, the owner's calls have no locked instruction. Afterwards each of its frees has one,
 * and so has handing out a block that was freed since: of two frees of one block, one gets an
 * error.
 *
 * Owner: as pool.h says; calm_pool_free_remote writes `freed`, `pending`, `detours` and a counter.
 * Design: docs/design/pool.md; docs/protocols/pool-remote.md names the steps.
 */
#include "pool/pool.h"

#include "pool/owner.h"

/* A block's place in its class. */
struct pool_place {
    struct pool_class *class;
    pool_word *word; /* of `free`           */
    size_t w;        /* index of the word   */
    uint32_t i;      /* index of the bit    */
};

/* A count in 4 bits: 0, or n for at least 2^(n - 1). */
ALWAYS_INLINE unsigned code_of(uint32_t blocks)
{
    unsigned code = blocks == 0 ? 0 : bit_highest(blocks) + 1;
    return code > 15 ? 15 : code;
}

/* Only with more than POOL_EXACT_MAX classes; otherwise the watch line has the count itself. */
static NOINLINE void publish_coded(calm_pool *pool, const struct pool_class *class)
{
    uint8_t *pair = &pool->watch.known.code[class->index >> 1];
    unsigned shift = (class->index & 1) * 4;
    unsigned codes = (*pair & ~(15u << shift)) | code_of(load(&class->counted, RELAXED)) << shift;
    __atomic_store_n(pair, (uint8_t)codes, __ATOMIC_RELAXED);
}

ALWAYS_INLINE bool is_coded(const calm_pool *pool)
{
    return pool->watch.is_coded != 0;
}

ALWAYS_INLINE bool was_remote(const calm_pool *pool)
{
    return (load(&pool->detours, RELAXED) & POOL_WAS_REMOTE) != 0;
}

/* Only the owner writes a count. */
ALWAYS_INLINE void count_more(struct pool_class *class, uint32_t blocks)
{
    store(class->count, load(class->count, RELAXED) + blocks, RELAXED);
}

ALWAYS_INLINE void count_taken(struct pool_class *class)
{
    uint32_t left = load(class->count, RELAXED) - 1;
    store(class->count, left, RELAXED);
    if (unlikely(left < class->least_free))
        class->least_free = left;
    class->allocs++;
}

/* After this the next call takes no shortcut through `latest`. */
ALWAYS_INLINE void forget_latest(calm_pool *pool)
{
    pool->latest.block = NULL;
    pool->latest.of = NULL;
}

ALWAYS_INLINE void make_hot(calm_pool *pool, struct pool_class *class, uint32_t w)
{
    forget_latest(pool);
    class->hot = w;
    class->hot_word = w == POOL_NONE ? &pool->nothing : &class->free[w];
    class->hot_start = pool->blocks + class->blocks_at + ((size_t)w << LEVEL_BITS) * class->stride;
}

/* S0: adds the next word to the class's map, its blocks free. The memory's contents are unknown,
 * and no thread has read them. Pre: no begun word has a free block. */
ALWAYS_INLINE uint32_t begin_word(struct pool_class *class)
{
    uint32_t begun = load(&class->begun, RELAXED), left = class->blocks - begun;
    uint32_t w = begun >> LEVEL_BITS, blocks = left < 64 ? left : 64;
    pool_word *word = &class->free[w];
    if (w % 64 == 0) {
        class->near[w / 64] = 0;
        store(&pending_near(class)[w / 64], 0, RELAXED);
    }
    if (w % 4096 == 0) {
        class->far[w / 4096] = 0;
        store(&pending_far(class)[w / 4096], 0, RELAXED);
    }
    store(word, UINT64_MAX >> (64 - blocks), RELAXED);
    if (load(word_freed(class, word), RELAXED) != 0) /* a store would touch an untouched page */
        store(word_freed(class, word), 0, RELAXED);
    levels_set(&class->root, class->far, class->near, w);
    store(&class->begun, begun + blocks, RELEASE); /* pairs with locate() */
    return w;
}

/* If hot has no free block, moves hot to the next word with one. */
static NOINLINE void leave_word(calm_pool *pool, struct pool_class *class)
{
    if (load(class->hot_word, RELAXED) != 0)
        return;
    if (class->hot != POOL_NONE)
        levels_clear(&class->root, class->far, class->near, class->hot);
    uint32_t w = POOL_NONE;
    if (class->root != 0)
        w = levels_first(&class->root, class->far, class->near);
    else if (load(&class->begun, RELAXED) != class->blocks)
        w = begin_word(class);
    make_hot(pool, class, w);
}

/* The word has free blocks now, and had none before. */
static NOINLINE void raise_word(calm_pool *pool, struct pool_class *class, uint32_t w)
{
    if (w == class->hot)
        return;
    levels_set(&class->root, class->far, class->near, w);
    if (w > class->hot)
        return;
    if (class->hot != POOL_NONE && load(class->hot_word, RELAXED) == 0)
        levels_clear(&class->root, class->far, class->near, class->hot);
    make_hot(pool, class, w);
}

/* D4: clears the bit above an empty word, and restores it if another thread set a bit below
 * meanwhile. */
ALWAYS_INLINE void clear_above(pool_word *above, uint32_t i, const pool_word *below)
{
    if (load(below, SEQ_CST) != 0)
        return;
    fetch_and(above, ~level_bit(i), SEQ_CST);
    if (load(below, SEQ_CST) != 0)
        fetch_or(above, level_bit(i), SEQ_CST);
}

/* D1 to D4: takes the lowest pending word. Another call may have emptied it already. */
ALWAYS_INLINE uint32_t take_pending(struct pool_class *class, pool_word *root)
{
    pool_word *far = pending_far(class), *near = pending_near(class);
    uint32_t f = lowest_or_0(load(root, RELAXED));
    uint32_t n = f << LEVEL_BITS | lowest_or_0(load(&far[f], RELAXED));
    uint32_t i = lowest_or_0(load(&near[n], RELAXED));
    fetch_and(&near[n], ~level_bit(i), SEQ_CST);
    clear_above(&far[f], n & 63, &near[n]);
    clear_above(root, f, &far[f]);
    return n << LEVEL_BITS | i;
}

/* Updates remote_backlog: the sum over all classes of what the last take_back() found. */
ALWAYS_INLINE void note_found(calm_pool *pool, struct pool_class *class, uint32_t count)
{
    uint32_t backlog = pool->watch.remote_backlog + count - class->found_last;
    __atomic_store_n(&pool->watch.remote_backlog, backlog, __ATOMIC_RELAXED);
    class->found_last = count;
    class->remote_frees += count;
}

/* Takes back remote frees of one word of the class. */
static NOINLINE uint32_t take_back(calm_pool *pool, struct pool_class *class)
{
    pool_word *root = &pool->pending[class->index];
    if (load(root, RELAXED) == 0) {
        note_found(pool, class, 0);
        return 0;
    }
    uint32_t w = take_pending(class, root);
    pool_word *word = &class->free[w];
    uint64_t free = load(word, RELAXED);
    /* S2: pairs with S3: the block's last use is over. */
    uint64_t found = word_found(free, load(word_freed(class, word), SEQ_CST));
    uint32_t count = level_count(found);
    note_found(pool, class, count);
    if (found == 0)
        return 0;
    store(word, word_with(free, found), RELAXED);
    count_more(class, count);
    if (free == 0)
        raise_word(pool, class, w);
    if (is_coded(pool))
        publish_coded(pool, class);
    return count;
}

/* If hot has no free block, takes back remote frees of one word and moves hot to the next word with
 * free blocks. */
static NOINLINE void refill(calm_pool *pool, struct pool_class *class)
{
    if (load(class->hot_word, RELAXED) != 0)
        return;
    if (was_remote(pool))
        take_back(pool, class);
    leave_word(pool, class);
}

/* S1: takes the lowest free block of the class. Pre: `free` is hot_word's value, and not 0. */
ALWAYS_INLINE void *hand_out(calm_pool *pool, struct pool_class *class, uint64_t free,
                             bool is_shared)
{
    pool_word *word = class->hot_word;
    uint64_t after;
    uint32_t i = word_take(free, &after);
    count_taken(class);
    store(word, after, RELAXED);
    /* S4: clears the mark of the last free before the block is handed out. */
    if (is_shared && (load(word_freed(class, word), RELAXED) & level_bit(i)) != 0)
        fetch_and(word_freed(class, word), ~level_bit(i), RELAXED);
    struct pool_latest *latest = &pool->latest;
    latest->word = free;
    latest->block = class->hot_start + i * class->stride;
    latest->of = class;
    return latest->block;
}

/* S1 again, for the block freed last: restores the state after its last hand_out(). The word and
 * the block do not depend on earlier calls' stores. */
ALWAYS_INLINE void *hand_out_again(calm_pool *pool, struct pool_class *class)
{
    struct pool_latest *latest = &pool->latest;
    store(class->hot_word, latest->word & (latest->word - 1), RELAXED);
    store(class->count, load(class->count, RELAXED) - 1, RELAXED);
    class->allocs++;
    latest->block = latest->back;
    return latest->block;
}

static NOINLINE void *hand_out_any(calm_pool *pool, struct pool_class *class)
{
    void *block = hand_out(pool, class, load(class->hot_word, RELAXED), was_remote(pool));
    if (is_coded(pool))
        publish_coded(pool, class);
    return block;
}

static NOINLINE void *refuse(calm_pool *pool)
{
    pool->failed++;
    return NULL;
}

/* The class is exhausted: tries one other class, and no more. */
static NOINLINE void *lend(calm_pool *pool, struct pool_class *other)
{
    refill(pool, other);
    if (other->hot == POOL_NONE)
        return refuse(pool);
    pool->spilled++;
    return hand_out_any(pool, other);
}

/* Slow path of calm_pool_alloc. `other` is the lending class, or `class` itself where there is
 * none. */
static NOINLINE void *alloc_slow(calm_pool *pool, struct pool_class *class,
                                 struct pool_class *other)
{
    if (class->blocks == 0)
        return refuse(pool);
    refill(pool, class);
    if (class->hot != POOL_NONE)
        return hand_out_any(pool, class);
    return other == class ? refuse(pool) : lend(pool, other);
}

ALWAYS_INLINE struct pool_class *class_by(const calm_pool *pool, uint16_t offset)
{
    return (struct pool_class *)((uintptr_t)pool + offset);
}

ALWAYS_INLINE struct pool_class *lender_of(calm_pool *pool, struct pool_class *class)
{
    return pool->spills && class->index + 1u < pool->class_count ? class + 1 : class;
}

ALWAYS_INLINE void *alloc_from(calm_pool *pool, struct pool_class *class)
{
    uint64_t free = load(class->hot_word, RELAXED);
    if (unlikely(free == 0) || unlikely(load(&pool->detours, RELAXED) != 0))
        return alloc_slow(pool, class, lender_of(pool, class));
    return hand_out(pool, class, free, false);
}

/* Sizes above the size table, up to the largest class. */
static NOINLINE void *alloc_large(calm_pool *pool, size_t bytes)
{
    uint16_t at = pool->class_of_kib[(bytes - 1) / 1024];
    return alloc_from(pool, likely(at != POOL_MIXED)
                                ? class_by(pool, at)
                                : &pool->classes[keys_below(pool->declared, bytes)]);
}

ALWAYS_INLINE void *alloc(calm_pool *pool, size_t bytes)
{
    if (unlikely(bytes > POOL_TABLE_BYTES))
        return bytes > pool->largest ? refuse(pool) : alloc_large(pool, bytes);
    struct pool_class *class = class_by(pool, pool->class_of_size[bytes]);
    if (likely(pool->latest.block == NULL && class == pool->latest.of &&
               load(&pool->detours, RELAXED) == 0))
        return hand_out_again(pool, class);
    return alloc_from(pool, class);
}

EXPORT void *calm_pool_alloc(calm_pool *pool, size_t bytes) CALM_NONBLOCKING
{
    owner_enter(pool);
    void *block = alloc(pool, bytes);
    owner_leave(pool);
    return block;
}

ALWAYS_INLINE void *alloc_aligned(calm_pool *pool, size_t bytes, size_t align)
{
    if (unlikely(bytes > pool->largest || !is_power_of_two(align) || align > CALM_POOL_ALIGN_MAX))
        return refuse(pool);
    uint64_t fitting = pool->with_align[bit_lowest(align)] &
                       (UINT64_MAX << keys_below(pool->declared, bytes));
    if (unlikely(fitting == 0))
        return refuse(pool);
    struct pool_class *class = &pool->classes[bit_lowest(fitting)];
    fitting &= fitting - 1;
    bool may_borrow = pool->spills && fitting != 0;
    return alloc_slow(pool, class, may_borrow ? &pool->classes[bit_lowest(fitting)] : class);
}

EXPORT void *calm_pool_alloc_aligned(calm_pool *pool, size_t bytes, size_t align) CALM_NONBLOCKING
{
    owner_enter(pool);
    void *block = alloc_aligned(pool, bytes, align);
    owner_leave(pool);
    return block;
}

/* The granule has several classes, and the address is before the last of them. */
static NOINLINE struct pool_class *class_among(const calm_pool *pool, size_t offset)
{
    return (struct pool_class *)(uintptr_t)&pool->classes[keys_below(pool->last_byte, offset)];
}

/* Exact division: a multiple of the stride gives its quotient; any other offset gives a number
 * above all quotients. */
ALWAYS_INLINE uint64_t number_of(const struct pool_class *class, size_t inside)
{
    uint64_t turned = inside >> class->shift | inside << (-(unsigned)class->shift & 63);
    return turned * class->inverse;
}

/* The error of an address that is no begun block of the class. */
ALWAYS_INLINE int misplaced(const struct pool_class *class, size_t inside, uint64_t number)
{
    if (number < class->blocks)
        return CALM_EDOUBLE; /* never handed out, so free */
    if (inside >= (size_t)class->blocks * class->stride)
        return CALM_EFOREIGN;
    return (inside & (class->align - 1u)) != 0 ? CALM_EMISALIGNED : CALM_EINTERIOR;
}

/* The last class with a part in the address's granule. */
ALWAYS_INLINE struct pool_class *class_near(const calm_pool *pool, size_t offset)
{
    return class_by(pool, pool->class_at[offset >> pool->granule_shift]);
}

ALWAYS_INLINE struct pool_place place_of(struct pool_class *class, uint64_t number)
{
    size_t w = number >> LEVEL_BITS;
    return (struct pool_place){
        .class = class, .word = &class->free[w], .w = w, .i = (uint32_t)number & 63};
}

/* Finds the block that begins at an address. Returns 0 and its place, or the error. */
ALWAYS_INLINE int locate(const calm_pool *pool, const void *block, struct pool_place *out)
{
    size_t offset = (uintptr_t)block - (uintptr_t)pool->blocks;
    if (unlikely(offset >= pool->blocks_bytes))
        return CALM_EFOREIGN;
    struct pool_class *class = class_near(pool, offset);
    size_t inside = offset - class->blocks_at;
    uint64_t number = number_of(class, inside);
    if (unlikely(number >= load(&class->begun, ACQUIRE))) { /* pairs with S0 */
        if (offset < class->blocks_at) {
            class = class_among(pool, offset);
            inside = offset - class->blocks_at;
            number = number_of(class, inside);
        }
        if (number >= load(&class->begun, ACQUIRE))
            return misplaced(class, inside, number);
    }
    *out = place_of(class, number);
    return 0;
}

/* S3: one locked instruction marks a block as freed. False: already marked or free. */
ALWAYS_INLINE bool mark_freed(const struct pool_place *at)
{
    uint64_t bit = level_bit(at->i);
    return (load(at->word, RELAXED) & bit) == 0 &&
           (fetch_or(word_freed(at->class, at->word), bit, SEQ_CST) & bit) == 0;
}

ALWAYS_INLINE void mark_level(pool_word *word, uint32_t i)
{
    if ((load(word, SEQ_CST) & level_bit(i)) == 0)
        fetch_or(word, level_bit(i), SEQ_CST);
}

/* S6: lets the owner find the word. Checks every level whatever the level below had: the thread
 * that set that one may not have reached this one yet. */
ALWAYS_INLINE void mark_pending(calm_pool *pool, const struct pool_place *at)
{
    uint32_t w = (uint32_t)at->w;
    mark_level(&pending_near(at->class)[w >> LEVEL_BITS], w & 63);
    mark_level(&pending_far(at->class)[w >> 2 * LEVEL_BITS], w >> LEVEL_BITS & 63);
    mark_level(&pool->pending[at->class->index], w >> 2 * LEVEL_BITS);
}

/* After the first remote free, the owner's free also sets the mark: of two frees at once, one gets
 * an error. */
ALWAYS_INLINE bool may_free(const calm_pool *pool, const struct pool_place *at)
{
    if (unlikely(was_remote(pool)))
        return mark_freed(at);
    return (load(at->word, RELAXED) & level_bit(at->i)) == 0;
}

static NOINLINE int refuse_free(calm_pool *pool, const void *block, int error)
{
    if (block == NULL)
        return CALM_OK;
    pool->misuses++;
    return error;
}

ALWAYS_INLINE void add_free(calm_pool *pool, const struct pool_place *at, uint64_t free)
{
    store(at->word, level_with(free, at->i), RELAXED);
    count_more(at->class, 1);
    if (unlikely(free == 0))
        raise_word(pool, at->class, (uint32_t)at->w);
}

/* S5 after the first remote free, or with codes in the watch line. */
static NOINLINE int free_detour(calm_pool *pool, void *block)
{
    struct pool_place at = {0};
    int error = locate(pool, block, &at);
    if (likely(error == 0) && unlikely(!may_free(pool, &at)))
        error = CALM_EDOUBLE;
    if (unlikely(error != 0))
        return refuse_free(pool, block, error);
    forget_latest(pool);
    add_free(pool, &at, load(at.word, RELAXED));
    if (unlikely(is_coded(pool)))
        publish_coded(pool, at.class);
    return CALM_OK;
}

/* S5: frees the block handed out last. */
ALWAYS_INLINE void free_latest(struct pool_latest *latest, void *block)
{
    struct pool_class *class = latest->of;
    latest->back = block;
    latest->block = NULL;
    store(class->hot_word, latest->word, RELAXED);
    count_more(class, 1);
}

/* S5: frees any live block. An address that is not found at once, or is free, goes to
 * free_detour(). */
static NOINLINE int free_any(calm_pool *pool, void *block)
{
    if (unlikely(load(&pool->detours, RELAXED) != 0))
        return free_detour(pool, block); /* another thread may have freed it */
    size_t offset = (uintptr_t)block - (uintptr_t)pool->blocks;
    if (unlikely(offset >= pool->blocks_bytes))
        return free_detour(pool, block);
    struct pool_class *class = class_near(pool, offset);
    uint64_t number = number_of(class, offset - class->blocks_at);
    if (unlikely(number >= load(&class->begun, RELAXED)))
        return free_detour(pool, block);
    struct pool_place at = place_of(class, number);
    uint64_t free = load(at.word, RELAXED);
    if (unlikely(level_with(free, at.i) == free))
        return free_detour(pool, block);
    if (pool->latest.of != NULL)
        forget_latest(pool);
    add_free(pool, &at, free);
    return CALM_OK;
}

ALWAYS_INLINE int free_own(calm_pool *pool, void *block)
{
    if (unlikely(block != pool->latest.block))
        return free_any(pool, block);
    if (unlikely(block == NULL))
        return CALM_OK;
    if (unlikely(load(&pool->detours, RELAXED) != 0))
        return free_detour(pool, block);
    free_latest(&pool->latest, block);
    return CALM_OK;
}

EXPORT int calm_pool_free(calm_pool *pool, void *block) CALM_NONBLOCKING
{
    owner_enter(pool);
    int error = free_own(pool, block);
    owner_leave(pool);
    return error;
}

EXPORT int calm_pool_free_remote(calm_pool *pool, void *block) CALM_NONBLOCKING
{
    uint32_t detours = load(&pool->detours, RELAXED);
    if (unlikely((detours & POOL_WAS_REMOTE) == 0)) /* before S3: no free can be left unseen */
        store(&pool->detours, detours | POOL_WAS_REMOTE, RELAXED);
    if (block == NULL)
        return CALM_OK;
    struct pool_place at = {0};
    int error = locate(pool, block, &at);
    if (likely(error == 0) && unlikely(!mark_freed(&at)))
        error = CALM_EDOUBLE;
    if (unlikely(error != 0)) {
        fetch_add(&pool->remote_misuses, 1, RELAXED);
        return error;
    }
    mark_pending(pool, &at);
    return CALM_OK;
}

EXPORT uint32_t calm_pool_drain(calm_pool *pool) CALM_NONBLOCKING
{
    owner_enter(pool);
    struct pool_class *class = &pool->classes[pool->drain_next];
    pool->drain_next = pool->drain_next + 1 < pool->class_count ? pool->drain_next + 1 : 0;
    uint32_t found = was_remote(pool) ? take_back(pool, class) : 0;
    owner_leave(pool);
    return found;
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
    uint64_t gone = load(at.word, RELAXED) | load(word_freed(at.class, at.word), RELAXED);
    if ((gone & level_bit(at.i)) != 0)
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
