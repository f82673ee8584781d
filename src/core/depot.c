/*
 * depot.c: a bin's slabs, and refills from them.
 *
 * Lists hold the slabs with free blocks, by how many are free, in steps of an eighth of the power
 * of two above the capacity. A refill takes from the fullest slabs first, in address order, so that
 * the others can empty. One wholly free slab stays with its depot, so that a program at the edge of
 * a slab does not carve and retire in turn; the purger takes that slab.
 *
 * A thread that can set blocks aside (defer_if_held()), or take them elsewhere (take_unlocked()),
 * does not wait for a held depot.
 *
 * Owner: any thread, under depot.lock (RANK_DEPOT); held for at most REFILL_MAX blocks, never over
 * a system call. D1: free_blocks == sum of free_count. D2: a slab is in the list of its free_count.
 * D5: `listed` counts the slabs in lists. Checked by depot_verify(). Design: docs/design/depots.md
 */
#include "core/depot.h"

#include "core/depot_parts.h"
#include "core/purge_turn.h"
#include "core/rows.h"
#include "mem/huge.h"
#include "os/os.h"
#include "os/probe.h"

enum {
    USER_NONE = 0,
    USER_SEVERAL = -1,
    PINNED_MAX = 1,
    HOME_SLABS_MIN = 64,
    DENSE_SHARE = 8,         /* huge pages pay while less than 1/8 of slab bytes is free */
    FRESH_SHARE = 256,       /* of the region: bytes one refill may touch first... */
    FRESH_CAPACITY_MAX = 63, /* ...in slabs of at most so many blocks */
};

static struct {
    _Alignas(CACHE_LINE_BYTES) _Atomic size_t count;
} slabs_in_use;
_Atomic uint32_t depot_tick;
size_t depot_lend_share = 16;
size_t depot_lend_part;
void (*depot_on_growth)(size_t slab_count);
void (*depot_on_scattered)(unsigned bin, unsigned lender_bin);

bool depot_note_user(struct depot *depot, uint32_t user)
{
    uint32_t known = load(&depot->user, RELAXED);
    if (known == user)
        return false;
    if (known == USER_NONE)
        store(&depot->user, user, RELAXED);
    else if (known != (uint32_t)USER_SEVERAL)
        store(&depot->user, (uint32_t)USER_SEVERAL, RELAXED);
    return known != USER_NONE;
}

bool depot_is_shared(unsigned bin)
{
    const struct depot *depot = depot_of(bin);
    return depot != NULL && load(&depot->user, RELAXED) == (uint32_t)USER_SEVERAL;
}

size_t depot_slab_bytes(void)
{
    return load(&slabs_in_use.count, RELAXED) << CHUNK_SHIFT;
}

static void list_remove(struct depot *depot, struct slab *slab)
{
    depot->listed[slab->list == LIST_EMPTY]--;
    if (slab->next != 0)
        slab_of_chunk(slab->next)->previous = slab->previous;
    if (slab->previous != 0)
        slab_of_chunk(slab->previous)->next = slab->next;
    else
        depot->lists[slab->list] = slab->next;
    slab->list = SLAB_UNLISTED;
}

void depot_relist(struct depot *depot, struct slab *slab)
{
    unsigned list = depot_list_for(bin_class(slab->bin), slab->free_count);
    if (list == slab->list)
        return;
    if (slab->list != SLAB_UNLISTED)
        list_remove(depot, slab);
    if (list == SLAB_UNLISTED)
        return;
    slab->list = (uint8_t)list;
    depot->listed[list == LIST_EMPTY]++;
    slab->previous = 0;
    slab->next = depot->lists[list];
    if (slab->next != 0)
        slab_of_chunk(slab->next)->previous = slab->chunk;
    depot->lists[list] = slab->chunk;
}

/* Totals of each class over all rows. Read without a lock to decide whether to borrow. */
static struct class_total {
    _Alignas(CACHE_LINE_BYTES) _Atomic size_t blocks; /* in slabs */
    _Atomic size_t free_blocks;                       /* of these, free in bitmaps */
} totals[CLASS_LIMIT];

size_t depot_free_bytes(void)
{
    size_t bytes = 0;
    for (unsigned class = 1; class < CLASS_LIMIT; class++)
        bytes += load(&totals[class].free_blocks, RELAXED) * class_facts[class].bytes;
    return bytes;
}

void depot_count_free(struct depot *depot, size_t more, size_t fewer)
{
    store(&depot->free_blocks, load(&depot->free_blocks, RELAXED) + more - fewer,
          RELAXED); /* writers hold the lock */
    fetch_add(&totals[bin_class(depot->bin)].free_blocks, more - fewer, RELAXED);
}

static void attach(struct depot *depot, struct slab *slab)
{
    slab->bin = depot->bin;
    /* Under the lock: a chunk that names this bin is a slab of this depot. */
    store(&region.map[slab->chunk].bin, slab->bin, RELEASE);
    fetch_add(&depot->slab_count, 1, RELAXED);
    depot_count_free(depot, slab->free_count, 0);
    depot_relist(depot, slab);
}

/* The caller subtracts the slab's free blocks from the counts. */
static void detach(struct depot *depot, struct slab *slab)
{
    list_remove(depot, slab);
    fetch_sub(&depot->slab_count, 1, RELAXED);
}

static void adopt(struct depot *depot, struct slab *slab)
{
    attach(depot, slab);
    fetch_add(&totals[bin_class(depot->bin)].blocks, slab->capacity, RELAXED);
}

void depot_orphan(struct depot *depot, struct slab *slab)
{
    detach(depot, slab);
    store(&region.map[slab->chunk].limit, 0, RELAXED);
    store(&region.map[slab->chunk].bin, NO_SLAB, RELEASE);
    fetch_sub(&totals[bin_class(depot->bin)].blocks, slab->capacity, RELAXED);
}

size_t depot_retire(struct slab *chain)
{
    if (chain == NULL)
        return 0;
    size_t bytes = class_facts[bin_class(chain->bin)].bytes, count = 0;
    while (chain != NULL) {
        struct slab *next = chain->next == 0 ? NULL : slab_of_chunk(chain->next);
        slab_retire(chain);
        chain = next;
        count++;
    }
    fetch_sub(&slabs_in_use.count, count, RELAXED);
    /* In addition to their blocks, noted one by one: after random frees all slabs empty at the end.
     */
    purge_note(count << CHUNK_SHIFT, bytes);
    return count;
}

/* How many of `want` blocks to take from a slab. A refill marks the blocks it takes, so it makes
 * pages resident that the program may never use. Of large unmarked blocks it takes a page's worth,
 * or one block; the limit grows with the region. */
static size_t count_worth(const struct slab *slab, size_t want)
{
    size_t bytes = bin_bytes(slab->bin);
    if (slab->capacity > FRESH_CAPACITY_MAX || slab->marked == slab->capacity)
        return want;
    size_t touched = slab_count_marked(slab);
    size_t region_bytes = load(&region.chunks, RELAXED) << CHUNK_SHIFT;
    size_t fresh_bytes = size_max(region_bytes / FRESH_SHARE, SUB_PAGE);
    return size_min(want, touched + size_max(fresh_bytes / bytes, touched == 0));
}

size_t depot_take_listed(struct depot *depot, void **out, size_t want)
{
    size_t taken = 0;
    for (unsigned list = 0; list < DEPOT_LISTS && taken < want; list++) {
        while (depot->lists[list] != 0 && taken < want) {
            struct slab *slab = slab_of_chunk(depot->lists[list]);
            size_t worth = count_worth(slab, want - taken);
            if (worth < want - taken)
                want = taken + worth; /* the next refill takes more */
            taken += slab_alloc(slab, out + taken, worth);
            slab->tick = load(&depot_tick, RELAXED);
            depot_relist(depot, slab);
        }
    }
    depot_count_free(depot, 0, taken);
    return taken;
}

/* The depot with the most free blocks of the class, or NULL. Reads each row from `first` on,
 * without locks. */
static struct depot *richest(unsigned class, unsigned first, unsigned rows)
{
    struct depot *best = NULL;
    size_t most = 0;
    for (unsigned row = first; row < first + rows; row++) {
        struct depot *depot = depot_of(row << CLASS_BITS | class);
        size_t blocks = depot == NULL ? 0 : load(&depot->free_blocks, RELAXED);
        if (blocks > most && !bin_is_sampled(depot->bin)) {
            most = blocks;
            best = depot;
        }
    }
    return best;
}

/* A slab of the emptiest list that the purger has not pinned, or NULL. Looks at a few slabs of each
 * list. */
static struct slab *roomiest(const struct depot *depot)
{
    for (unsigned list = DEPOT_LISTS; list-- > 0;) {
        size_t chunk = depot->lists[list];
        for (unsigned seen = 0; chunk != 0 && seen < PINNED_MAX + 1; seen++) {
            struct slab *slab = slab_of_chunk(chunk);
            if (!slab->is_pinned)
                return slab;
            chunk = slab->next;
        }
    }
    return NULL;
}

/* Whether the lender has enough free blocks for depot_lend_part. */
static bool is_worth_a_loan(const struct depot *lender)
{
    size_t free_blocks = load(&lender->free_blocks, RELAXED);
    return free_blocks * depot_lend_part >= class_facts[bin_class(lender->bin)].capacity;
}

/* The depot to borrow a slab from, or NULL. A cohort of the same home lends once depot_lend_share
 * or depot_lend_part allows it. Another home lends only when the class has many slabs and most of
 * their blocks are free, since both homes then write to the slab's cache lines. */
static struct depot *find_lender(const struct depot *depot)
{
    unsigned class = bin_class(depot->bin);
    size_t blocks = load(&totals[class].blocks, RELAXED);
    size_t free_blocks = load(&totals[class].free_blocks, RELAXED);
    if (depot_lend_part == 0 && free_blocks * depot_lend_share <= blocks)
        return NULL;
    struct depot *lender = richest(class, bin_row(depot->bin) & ~(COHORT_LIMIT - 1u), COHORT_LIMIT);
    if (lender != NULL && depot_lend_part != 0 && !is_worth_a_loan(lender))
        return NULL;
    bool is_most = free_blocks * 2 > blocks &&
                   blocks > (size_t)class_facts[class].capacity * HOME_SLABS_MIN;
    return lender == NULL && is_most ? richest(class, 0, class_rows(class)) : lender;
}

/*
 * Borrows another row's slab instead of carving one: sites that stopped allocating feed sites that
 * go on, which bounds the memory cost of separation. Live blocks of the slab change bin too. Under
 * the depot's lock; only tries the lender's, so no threads wait in a circle. Returns the lender's
 * bin if the lender has more slabs and its free blocks are scattered, so that further loans would
 * bring little; else the depot's own.
 */
static unsigned borrow(struct depot *depot)
{
    unsigned bin = depot->bin;
    if (rows_are_separate || bin_is_sampled(depot->bin))
        return bin;
    struct depot *lender = find_lender(depot);
    if (lender == NULL || lender == depot || !depot_try_lock_once(lender))
        return bin;
    struct slab *slab = roomiest(lender);
    if (slab != NULL) {
        if (slab->list == 0 &&
            load(&lender->slab_count, RELAXED) > load(&depot->slab_count, RELAXED))
            bin = lender->bin;
        detach(lender, slab);
        depot_count_free(lender, 0, slab->free_count);
        attach(depot, slab);
    }
    lock_release(&lender->lock, RANK_DEPOT);
    return bin;
}

/* Whether huge pages would back few untouched bytes: programs touch most pages of blocks up to a
 * page, and may use little of larger blocks. */
static bool is_dense(unsigned bin)
{
    return class_facts[bin_class(bin)].bytes <= depot_page_bytes &&
           depot_free_bytes() * DENSE_SHARE < depot_slab_bytes();
}

/* A fresh slab, added to slabs_in_use. Not under a lock. NULL: no memory. */
static struct slab *carve(unsigned bin)
{
    if (unlikely(huge_is_wanted()) && is_dense(bin))
        huge_provide();
    struct slab *slab = slab_carve(bin);
    if (slab == NULL)
        return NULL;
    size_t slabs = fetch_add(&slabs_in_use.count, 1, RELAXED) + 1;
    if (depot_on_growth != NULL)
        depot_on_growth(slabs);
    return slab;
}

/* Hands out all blocks of a fresh slab: the first batch to `out`, the rest as batches. The slab
 * enters no list, so the depot's lock is not needed: the map's entry publishes the slab (U1 of
 * docs/protocols/chunk-map.md). */
static size_t hand_out(struct depot *depot, struct slab *slab, void **out)
{
    const struct class_facts *facts = &class_facts[bin_class(depot->bin)];
    char *start = slab_start(slab);
    slab_clear(slab);
    store(&region.map[slab->chunk].bin, depot->bin, RELEASE);
    fetch_add(&depot->slab_count, 1, RELEASE); /* pairs with mend() */
    fetch_add(&totals[bin_class(depot->bin)].blocks, facts->capacity, RELAXED);
    size_t each = batch_blocks_of(facts->bytes), first = size_min(facts->capacity, each);
    for (size_t i = first; i < facts->capacity; i += each) {
        size_t count = size_min(facts->capacity - i, each);
        depot_list_run(out, count, start + i * facts->bytes, facts->bytes);
        if (!depot_batch_push(depot, out, count, batches_for(facts->bytes)))
            depot_put_or_defer(depot, out, count);
    }
    depot_list_run(out, first, start, facts->bytes);
    return first;
}

/* Refills while another thread holds the lock: from a batch, or from a fresh slab with all its
 * blocks handed out. 0: memory is short, and the caller must wait. */
static size_t take_unlocked(struct depot *depot, void **out)
{
    size_t count = depot_batch_pop(depot, out);
    if (count > 0)
        return count;
    struct slab *slab = carve(depot->bin);
    return slab == NULL ? 0 : hand_out(depot, slab, out);
}

static size_t take_locked(struct depot *depot, void **out, size_t want)
{
    unsigned lender_bin = depot->bin;
    /* Blocks in batches or deferred frees come before another depot's slab. */
    if (load(&depot->free_blocks, RELAXED) == 0 && depot_batch_count(depot) == 0)
        lender_bin = borrow(depot);
    bool has_any = load(&depot->free_blocks, RELAXED) != 0;
    size_t taken = has_any ? depot_take_listed(depot, out, want) : 0;
    lock_release(&depot->lock, RANK_DEPOT);
    slab_settle_refaults();
    if (lender_bin != depot->bin && depot_on_scattered != NULL)
        depot_on_scattered(depot->bin, lender_bin);
    return taken > 0 ? taken : depot_batch_pop(depot, out);
}

size_t depot_refill(unsigned bin, void **out, size_t want, uint32_t user)
{
    PROBE_2("refill", bin, want);
    struct depot *depot = depot_of(bin);
    if (unlikely(depot == NULL) && (depot = depot_make(bin)) == NULL)
        return 0;
    if (load(&depot->flushes_since, RELAXED) != 0)
        store(&depot->flushes_since, 0, RELAXED);
    if (depot_note_user(depot, user)) {
        size_t count = depot_batch_pop(depot, out);
        if (count > 0)
            return count;
    }
    if (!depot_try_lock(depot)) {
        size_t count = take_unlocked(depot, out);
        if (count > 0)
            return count;
        if (!depot_lock_or_fail(depot))
            return depot_batch_pop(depot, out);
    }
    size_t taken = take_locked(depot, out, want);
    if (taken > 0)
        return taken;
    struct slab *slab = carve(bin);
    if (slab == NULL) /* the failed carve may have freed blocks of this bin */
        return depot_lock_or_fail(depot) ? take_locked(depot, out, want)
                                         : depot_batch_pop(depot, out);
    want = count_worth(slab, want);
    if (slab->capacity <= want || !depot_try_lock(depot))
        return hand_out(depot, slab, out);
    taken = slab_alloc(slab, out, want);
    slab->tick = load(&depot_tick, RELAXED);
    adopt(depot, slab);
    lock_release(&depot->lock, RANK_DEPOT);
    return taken;
}

struct slab *depot_own_slab(const struct depot *depot, size_t chunk)
{
    /* Acquire: hand_out() adds a slab without the lock; pairs with hand_out(). */
    return load(&region.map[chunk].bin, ACQUIRE) == depot->bin ? slab_of_chunk(chunk) : NULL;
}

/* Whether the block's bit is set in its slab, whichever row owns the slab now. */
static bool is_in_slab(unsigned class, const void *block)
{
    size_t chunk = region_chunk(block);
    for (unsigned home = region_bin(chunk); bin_class(home) == class; home = region_bin(chunk)) {
        struct depot *depot = depot_of(home);
        if (depot == NULL) /* not a slab: class 0 */
            return false;
        if (!depot_lock_or_fail(depot)) /* unknown, so not found */
            return false;
        const struct slab *slab = depot_own_slab(depot, chunk);
        bool is_free = slab != NULL &&
                       slab_is_free(slab, class_block(class, (uint16_t)(uintptr_t)block));
        lock_release(&depot->lock, RANK_DEPOT);
        if (slab != NULL)
            return is_free;
    }
    return false;
}

struct depot_sums depot_sums(void)
{
    struct depot_sums sums = {0, 0, 0};
    for (struct depot *depot = depot_newest(); depot != NULL; depot = depot->below) {
        size_t bytes = bin_bytes(depot->bin);
        size_t blocks = load(&depot->slab_count, RELAXED) *
                        class_facts[bin_class(depot->bin)].capacity;
        ptrdiff_t counted = (ptrdiff_t)depot_batch_blocks(depot);
        size_t waiting = counted > 0 ? (size_t)counted : 0;
        size_t out = blocks - size_min(blocks, load(&depot->free_blocks, RELAXED));
        sums.out_bytes += (out - size_min(out, waiting)) * bytes;
        sums.waiting_bytes += waiting * bytes;
        sums.waiting_blocks += waiting;
    }
    return sums;
}

size_t depot_deferred_bytes(void)
{
    ptrdiff_t bytes = 0;
    for (struct depot *depot = depot_newest(); depot != NULL; depot = depot->below)
        bytes += deferred_count(&depot->deferred) * (ptrdiff_t)bin_bytes(depot->bin);
    return bytes > 0 ? (size_t)bytes : 0;
}

/* Whether the block is a deferred free. */
static bool is_deferred(unsigned class, const void *block)
{
    size_t chunk = region_chunk(block);
    return bin_class(region_bin(chunk)) == class &&
           deferred_holds(slab_of_chunk(chunk), class_block(class, (uint16_t)(uintptr_t)block));
}

bool depot_search(unsigned bin, struct search *search)
{
    unsigned class = bin_class(bin);
    bool is_free = is_in_slab(class, search->block) || is_deferred(class, search->block);
    unsigned first, end = rows_of(bin, &first);
    end += first;
    for (unsigned row = depot_row_from(class, first); row < end && !is_free && search_step(search);
         row = depot_row_from(class, row + 1)) {
        struct depot *other = depot_of(row << CLASS_BITS | class);
        is_free = other != NULL && depot_batch_search(other, search);
    }
    return is_free;
}

size_t depot_retire_empty(struct depot *depot, bool is_patient)
{
    struct slab *empty = NULL;
    if (!(is_patient ? depot_lock_or_fail(depot) : depot_try_lock(depot)))
        return 0;
    for (size_t i = 0; depot->lists[LIST_EMPTY] != 0 && i < REFILL_MAX; i++) {
        struct slab *slab = slab_of_chunk(depot->lists[LIST_EMPTY]);
        depot_count_free(depot, 0, slab->capacity);
        depot_orphan(depot, slab);
        empty = depot_chain(slab, empty);
    }
    lock_release(&depot->lock, RANK_DEPOT);
    return depot_retire(empty);
}

static verdict verify_one(struct depot *depot)
{
    size_t free_blocks = 0, listed[2] = {0, 0};
    for (unsigned list = 0; list < DEPOT_LISTS; list++) {
        for (size_t chunk = depot->lists[list]; chunk != 0; chunk = slab_of_chunk(chunk)->next) {
            const struct slab *slab = slab_of_chunk(chunk);
            verdict found = slab_verify(slab);
            if (found != NULL)
                return found;
            if (slab->list != list ||
                depot_list_for(bin_class(slab->bin), slab->free_count) != list ||
                slab->bin != depot->bin)
                return "D2: a slab is in the wrong list";
            free_blocks += slab->free_count;
            listed[list == LIST_EMPTY]++;
        }
    }
    if (listed[false] != depot->listed[false] || listed[true] != depot->listed[true])
        return "D5: a depot's count of slabs in its lists is wrong";
    return free_blocks == load(&depot->free_blocks, RELAXED)
               ? NULL
               : "D1: a depot's count of free blocks is wrong";
}

verdict depot_verify(void)
{
    for (struct depot *depot = depot_newest(); depot != NULL; depot = depot->below) {
        if (!depot_lock_or_fail(depot))
            continue;
        verdict found = verify_one(depot);
        if (found == NULL)
            found = depot_verify_stacks(depot);
        lock_release(&depot->lock, RANK_DEPOT);
        if (found != NULL)
            return found;
    }
    return NULL;
}

const struct watch_fact depot_facts[] = {
    FACT_AT("depot.newest", depot_list),
    FACT_NUMBER("depot.bin", offsetof(struct depot, bin)),
    FACT_NUMBER("depot.below", offsetof(struct depot, below)),
    FACT_NUMBER("depot.batches", offsetof(struct depot, batches.full.top)),
    FACT_NUMBER("depot.deferred", offsetof(struct depot, deferred.blocks)),
    FACT_NUMBER("depot.others", offsetof(struct depot, others)),
    FACT_NUMBER("depot.stack_bytes", SHARD_STACK_BYTES),
    FACT_AT("depot.shards", shard_count),
    FACT_NUMBER("depot.slabs", offsetof(struct depot, slab_count)),
    FACT_NUMBER("depot.free_blocks", offsetof(struct depot, free_blocks)),
    FACT_NUMBER("depot.bytes", sizeof(struct depot)),
    FACTS_END,
};
