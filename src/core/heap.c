/*
 * heap.c: starts the heap, and the paths that are not fast: medium and large sizes, zeroing,
 * alignment, realloc, and frees that look odd.
 *
 * Owner: start is serialised by start_state; everything else belongs to the layers below.
 * Design: docs/design/heap.md
 */
#include "core/heap.h"

#include "core/cores.h"
#include "core/depot.h"
#include "core/large.h"
#include "core/limit.h"
#include "core/misuse.h"
#include "core/misuse_search.h"
#include "core/pooled.h"
#include "core/purge.h"
#include "core/registry.h"
#include "core/rows.h"
#include "core/sampled.h"
#include "core/shard.h"
#include "core/shelf.h"
#include "core/thread.h"
#include "mem/huge.h"
#include "mem/meta.h"
#include "mem/span.h"
#include "os/lock.h"

/* GIVEN_UP is RUNNING where nobody waits any more. */
enum start_state { START_NOT_YET, START_RUNNING, START_DONE, START_GIVEN_UP };

enum { START_PATIENCE_MS = 5000 };

enum { META_CHUNK_BYTES = 256 * 1024 * 1024 };

static _Atomic uint32_t start_state;

const struct above above = {.start = heap_start, .settle = limit_settle, .purge = purge_some};

/* The last request that failed after all was brought together, and what there was then. */
static struct {
    _Atomic size_t units;
    _Atomic size_t free_units, noted;
} refused = {.units = SIZE_MAX};

/* No more than this can lie together, however it is collected: all below the front that no large
 * block and no small one of the program's has. Of the small ones that are out, caches may hold as
 * much as their arrays have room for. */
static size_t free_units_most(void)
{
    size_t front = region_units() << UNIT_SHIFT;
    size_t cached = load(&caches_budget.in_use, RELAXED) + shelf_bytes() +
                    SAMPLED_KEPT_BYTES * registry_count();
    size_t out = depot_sums().out_bytes + large_bytes();
    return (front - size_min(front, out - size_min(out, cached))) >> UNIT_SHIFT;
}

/* Whether collecting could help a request: it may be an untrusted length that comes again and
 * again, and must not cost more than a refusal does. */
static bool is_collecting_worth(size_t units)
{
    size_t most = free_units_most();
    bool is_as_before = units >= load(&refused.units, RELAXED) &&
                        most <= load(&refused.free_units, RELAXED) &&
                        purge_noted() == load(&refused.noted, RELAXED);
    if (is_as_before || most == 0 || (units > most && span_is_limited()))
        return false;
    /* Addresses of free units can be given back, so that the front moves. */
    return units <= most || os_would_commit(align_up((units - most) << UNIT_SHIFT, region.granule));
}

static bool note_refusal(size_t units)
{
    store(&refused.free_units, free_units_most(), RELAXED);
    store(&refused.noted, purge_noted(), RELAXED);
    store(&refused.units, units, RELAXED);
    return false;
}

/* Memory is short: what lies about unused is brought together, this thread's cache included. */
static bool collect(size_t units, bool was_in_vain)
{
    static _Thread_local bool is_collecting;
    if (was_in_vain)
        return note_refusal(units);
    if (is_collecting || !is_collecting_worth(units))
        return false;
    is_collecting = true;
    if (of_thread.cache != &cache_none)
        cache_empty(of_thread.cache);
    if (span_is_limited())
        cores_cool();
    purge_collect();
    is_collecting = false;
    return true; /* also when another thread was faster: what it brought together is there for all
                  */
}

static void start_now(void)
{
    struct os_facts facts;
    lock_start();
    os_start(&facts);
    struct heap_settings settings;
    heap_configure(&facts, &settings);
    home_start(facts.cpu_count);
    shard_start(settings.shards, facts.cpu_count);
    cores_start(settings.cores, facts.core_limit);
    if (settings.huge_from_bytes != 0 && facts.has_huge_pages)
        huge_from = settings.huge_from_bytes >> UNIT_SHIFT;
    limit_start(facts.cpu_count, facts.memory_limit_bytes);
    heap_apply(&settings);
    span_on_shortage = collect;
    span_on_growth = shelf_drain_for_growth;
    depot_page_bytes = size_min(facts.page_bytes, CHUNK_BYTES);
    meta_start(META_CHUNK_BYTES, facts.page_bytes);
    uint64_t mark;
    os_random(&mark, sizeof mark);
    cache_mark = (mark & bits_below(MARK_RANDOM_BITS)) | (uint64_t)MARK_HIGHEST << MARK_RANDOM_BITS;
    uint32_t next = region_start(&facts) == 0 ? START_DONE : START_NOT_YET;
    store(&start_state, next, RELEASE);
    os_wake(&start_state, UINT32_MAX);
}

/* Another thread starts the heap: a few kernel calls, unless it is stopped there. Returns the
 * state; RUNNING never. */
static uint32_t wait_for_start(void)
{
    uint64_t begun = os_clock_ms(), waited = 0;
    uint32_t state = load(&start_state, ACQUIRE);
    for (; state == START_RUNNING && waited < START_PATIENCE_MS; waited = os_clock_ms() - begun) {
        os_wait(&start_state, START_RUNNING, START_PATIENCE_MS - waited);
        state = load(&start_state, ACQUIRE);
    }
    /* S5; the starter's own step, if it was first, stands. */
    if (state == START_RUNNING &&
        compare_swap(&start_state, &state, START_GIVEN_UP, ACQUIRE, ACQUIRE)) {
        os_wake(&start_state, UINT32_MAX);
        return START_GIVEN_UP;
    }
    return state;
}

bool heap_start(void)
{
    if (likely(load(&start_state, ACQUIRE) == START_DONE))
        return true;
    /* Before the first write: our variables, which this parts, are long enough for a huge page. */
    os_refuse_huge(&cache_none, sizeof cache_none);
    uint32_t state = START_NOT_YET;
    if (compare_swap(&start_state, &state, START_RUNNING, ACQUIRE, ACQUIRE)) {
        start_now();
        return load(&start_state, RELAXED) == START_DONE;
    }
    if (state == START_RUNNING)
        state = wait_for_start();
    return state == START_DONE;
}

void heap_apply(const struct heap_settings *settings)
{
    store(&purge_settings.is_idle_wanted, settings->purges_when_idle, RELAXED);
    store(&purge_settings.delay_ms, settings->purge_delay_ms, RELAXED);
    store(&purge_settings.cold_ms, settings->cold_ms, RELAXED);
    store(&misuse_policy.stops_on_misuse, settings->stops_on_misuse, RELAXED);
    store(&misuse_policy.stops_on_foreign, settings->stops_on_foreign, RELAXED);
    limit_apply(settings);
}

void heap_install_hooks(void)
{
    static _Atomic bool is_installed;
    heap_install_fork_hooks();
    if (heap_start() && !exchange(&is_installed, true, ACQ_REL))
        thread_start();
}

/* The first request of all may be a large one; how long pages are is known when the heap starts. */
ALWAYS_INLINE struct shelf_wish wish(size_t bytes, size_t align, uint32_t cohort_offset)
{
    if (unlikely(region.base == NULL))
        heap_start();
    return (struct shelf_wish){.units = large_units(bytes),
                               .owner = offset_owner(cohort_offset),
                               .align = size_max(align, UNIT_BYTES)};
}

/* From the shelf, or else from the spans. The shelf is empty before the heap has started. */
static void *large_alloc(struct shelf_wish wish)
{
    void *block = shelf_find(wish);
    if (likely(block != NULL) || !heap_start())
        return block;
    size_t align_units = wish.align >> UNIT_SHIFT;
    block = large_acquire(wish.units, align_units, wish.owner, NULL);
    return limit_ends(block) ? large_acquire(wish.units, align_units, wish.owner, NULL) : block;
}

NOINLINE void *heap_alloc_slow(size_t bytes, uint32_t cohort_offset)
{
    if (bytes <= MEDIUM_MAX)
        return cache_alloc(cohort_offset + home_offset(bytes));
    return bytes <= PTRDIFF_MAX ? large_alloc(wish(bytes, 1, cohort_offset)) : NULL;
}

void *heap_find_large(size_t bytes, uint32_t cohort_offset)
{
    return bytes <= PTRDIFF_MAX ? shelf_find(wish(bytes, 1, cohort_offset)) : NULL;
}

/* A block that was freed a moment ago, or else fresh pages, which need no clearing. */
static void *large_zeroed(size_t bytes, uint32_t cohort_offset)
{
    struct shelf_wish wanted = wish(bytes, 1, cohort_offset);
    void *block = shelf_find(wanted);
    if (block != NULL)
        return large_clear(block, bytes);
    block = large_alloc_zeroed(bytes, wanted.owner);
    return limit_ends(block) ? large_alloc_zeroed(bytes, wanted.owner) : block;
}

void *heap_alloc_zeroed(size_t bytes, uint32_t cohort_offset)
{
    if (bytes > MEDIUM_MAX)
        return bytes <= PTRDIFF_MAX && heap_start() ? large_zeroed(bytes, cohort_offset) : NULL;
    void *block = cache_alloc(cohort_offset + home_offset(bytes));
    if (likely(block != NULL))
        __builtin_memset(block, 0, bytes);
    return block;
}

void *heap_alloc_aligned(size_t bytes, size_t align, uint32_t cohort_offset)
{
    unsigned class = class_aligned(bytes, align);
    if (class != 0)
        return cache_alloc(cohort_offset + home_class_offset(class));
    if (bytes > PTRDIFF_MAX || align > PTRDIFF_MAX)
        return NULL;
    return large_alloc(wish(bytes, align, cohort_offset));
}

/* Whether a block lies free: its slab's bitmap has it, or it has the mark, by chance or copied
 * perhaps, and the exact search finds it. */
static bool is_free_already(const void *block)
{
    size_t chunk = region_chunk(block);
    unsigned bin = region_bin(chunk), class = bin_class(bin);
    if (CHECKS == 0 || bin == NO_SLAB)
        return false;
    if (slab_is_free(slab_of_chunk(chunk), class_block(class, (uint16_t)(uintptr_t)block)))
        return true;
    return block_is_marked(block) && misuse_is_free(block, bin);
}

/* Usable bytes of the block at an address of the region; 0: no slab is there, nor a live large
 * block. */
static size_t bytes_of(const void *block)
{
    return region_is_large(block) ? large_usable(block)
                                  : bin_bytes(region_bin(region_chunk(block)));
}

/* A block that a cache may hold. */
static void free_cached(void *block, unsigned bin, const char *verb)
{
    if (is_free_already(block)) {
        misuse_report_double(block, verb, bytes_of(block));
        return;
    }
    block_mark(block);
    cache_free(block, bin);
}

static void free_large(void *block)
{
    large_tell_free(block);
    if (!shelf_give(block))
        misuse_classify(block, "free of");
}

NOINLINE void heap_free_odd(void *block)
{
    size_t chunk = region_chunk(block);
    if (likely(region_holds(chunk)) && region_is_large(block))
        free_large(block);
    else if (block != NULL && !pooled_free(block) &&
             misuse_classify(block, "free of") == POINTER_SMALL)
        free_cached(block, region_bin(chunk), "free of");
}

/*
 * Whether `bytes` may be the size of a block of `have`: it was asked for, or realloc shrinks to it
 * in place, which it does while the block stays at least half used.
 */
static bool fits_in_place(size_t have, size_t bytes)
{
    if (bytes > have)
        return false;
    return bytes >= have / 2 || heap_good_size(bytes) == have;
}

/* Whether an allocation of that alignment may have given the block: all that begin as it does are
 * aligned so. */
static bool fits_alignment(const void *block, unsigned bin, size_t align)
{
    if (align <= ALIGN_NATURAL)
        return true;
    size_t step = bin != NO_SLAB ? bin_bytes(bin) : (uintptr_t)block;
    return (align & (align - 1)) == 0 && (step & (align - 1)) == 0;
}

NOINLINE void heap_free_sized_odd(void *block, size_t bytes, size_t align)
{
    if (block == NULL || pooled_free(block))
        return;
    size_t chunk = region_chunk(block);
    if (CHECKS >= 1 && region_holds(chunk)) {
        unsigned bin = region_bin(chunk);
        size_t have = bytes_of(block);
        bool fits = fits_in_place(have, bytes);
        if (!fits && align > 1 &&
            bytes <= have) /* an alignment may have asked for a larger class, or for units */
            fits = bin_class(bin) == class_aligned(bytes, align) &&
                   (bin != NO_SLAB || have == large_units(bytes) << UNIT_SHIFT);
        /* A small block that was sampled where cohorts are apart. */
        fits = fits ||
               (bin == NO_SLAB && bytes <= MEDIUM_MAX && rows_are_apart && large_is_sampled(block));
        if (unlikely(have != 0 && !fits)) {
            misuse_report_sized(block, have, bytes);
            return;
        }
        if (unlikely(have != 0 && !fits_alignment(block, bin, align))) {
            misuse_report_aligned(block, have, align);
            return;
        }
    }
    heap_free(block);
}

NOINLINE void heap_free_over(void *block, size_t over, size_t align)
{
    size_t bin = region_bin(region_chunk(block));
    heap_free_sized_odd(block, over + class_told.least[bin_class(bin)], align);
}

NOINLINE void heap_free_aligned_sized_odd(void *block, size_t align, size_t bytes)
{
    heap_free_sized_odd(block, bytes, align);
}

NOINLINE void heap_free_aligned_over(void *block, size_t align, size_t over)
{
    heap_free_over(block, over, align);
}

NOINLINE void heap_free_log2_odd(void *block, size_t bytes, unsigned align_log2)
{
    heap_free_sized_odd(block, bytes, (size_t)1 << align_log2);
}

NOINLINE void heap_free_log2_over(void *block, size_t over, unsigned align_log2)
{
    heap_free_over(block, over, (size_t)1 << align_log2);
}

size_t heap_good_size(size_t bytes)
{
    if (bytes <= MEDIUM_MAX)
        return class_facts[class_of(bytes)].bytes;
    return bytes <= PTRDIFF_MAX ? large_units(bytes) << UNIT_SHIFT : 0;
}

size_t heap_usable(const void *block)
{
    size_t pooled;
    if (block == NULL)
        return 0;
    if (pooled_usable(block, "usable size of", &pooled))
        return pooled;
    enum pointer_kind kind = misuse_classify(block, "usable size of");
    if (kind == POINTER_BAD || kind == POINTER_FOREIGN)
        return 0;
    size_t have = kind == POINTER_SMALL ? bin_bytes(region_bin(region_chunk(block)))
                                        : large_usable(block);
    if (!is_free_already(block))
        return have;
    misuse_report_double(block, "usable size of", have);
    return 0;
}

/* A pool's block stays where it is, or moves to the heap. */
static void *realloc_pooled(void *block, size_t have, size_t bytes, uint32_t cohort_offset,
                            bool is_sampled)
{
    if (have == 0 || bytes > PTRDIFF_MAX)
        return NULL;
    if (bytes <= have)
        return block;
    void *moved = is_sampled ? sampled_alloc(bytes, 1, false, cohort_offset)
                             : heap_alloc_slow(bytes, cohort_offset);
    if (moved == NULL)
        return NULL;
    __builtin_memcpy(moved, block, have);
    pooled_free(block);
    return moved;
}

/* A large block that keeps less than this part of its bytes is copied: cut in place it would pin
 * the front of a range that the next such request needs whole. */
enum { SHRINK_MAX = 8 };

/* One that grows by less than this part, and is copied for it, is given as much: steps are few. */
enum { GROWTH_MIN = 4 };

/* A copy of so much takes 2 ms, no longer than the faults that it saves. */
enum { COPY_MAX_BYTES = 16 * 1024 * 1024 };

static size_t grown_bytes(size_t have, size_t bytes)
{
    size_t wanted = size_min(have + have / GROWTH_MIN, LARGE_SHORT_UNITS << UNIT_SHIFT);
    return bytes > have ? size_max(bytes, wanted) : bytes;
}

static void *alloc_moved(size_t bytes, size_t wanted, uint32_t cohort_offset)
{
    void *moved = heap_alloc_slow(wanted, cohort_offset);
    if (wanted == bytes)
        return moved;
    if (moved == NULL)
        return heap_alloc_slow(bytes, cohort_offset);
    large_note_asked(moved, large_units(bytes));
    return moved;
}

/* One that is to be so many times as long at once, as before it was cut, finds its old pages. */
enum { JUMP = 4 };

/* A block that grows is copied to a dirty span of `room` units, whose pages are there. Only where a
 * copy is short. */
static void *copy_to_room(void *block, size_t have, size_t bytes, size_t room, unsigned owner)
{
    if (have > COPY_MAX_BYTES || bytes <= have)
        return NULL;
    void *target = large_acquire_in_room(large_units(bytes), room, owner);
    if (target == NULL)
        return NULL;
    region_copy((char *)target, (const char *)block, have);
    heap_free(block);
    return target;
}

static void *resize_large(void *block, size_t bytes, unsigned owner, bool is_sampled)
{
    size_t have = large_usable(block), units = large_units(bytes);
    bool is_jump = bytes / JUMP >= have;
    void *resized = is_jump ? copy_to_room(block, have, bytes, units, owner) : NULL;
    if (resized == NULL && large_resize_in_place(block, bytes, owner))
        resized = block;
    if (resized == NULL && !is_jump) /* so that it grows on in place */
        resized = copy_to_room(block, have, bytes, units + units / 2, owner);
    if (resized == NULL)
        resized = large_move(block, bytes, owner);
    if (resized != NULL && is_sampled)
        large_mark_sampled(resized);
    return resized;
}

void *heap_realloc(void *block, size_t bytes, uint32_t cohort_offset, bool is_sampled)
{
    size_t pooled;
    if (pooled_usable(block, "realloc of", &pooled))
        return realloc_pooled(block, pooled, bytes, cohort_offset, is_sampled);
    enum pointer_kind kind = misuse_classify(block, "realloc of");
    if (kind == POINTER_BAD || kind == POINTER_FOREIGN || bytes > PTRDIFF_MAX)
        return NULL;
    unsigned bin = region_bin(region_chunk(block));
    size_t have = kind == POINTER_SMALL ? bin_bytes(bin) : large_usable(block);
    if (is_free_already(block)) {
        misuse_report_double(block, "realloc of", have);
        return NULL;
    }
    unsigned owner = offset_owner(cohort_offset);
    bool is_fine = kind == POINTER_SMALL && fits_in_place(have, bytes) && owner == row_owner(bin);
    if (is_fine && (!is_sampled || bin_is_sampled(bin)))
        return block;
    bool is_large = kind == POINTER_LARGE && bytes > MEDIUM_MAX;
    bool is_rest = is_large && bytes < have / SHRINK_MAX;
    if (is_large && !is_rest) {
        void *resized = resize_large(block, bytes, owner, is_sampled);
        if (resized != NULL)
            return resized;
    }
    size_t wanted = kind == POINTER_LARGE ? grown_bytes(have, bytes) : bytes;
    void *moved = is_sampled ? sampled_alloc(bytes, 1, false, cohort_offset)
                             : alloc_moved(bytes, wanted, cohort_offset);
    if (moved == NULL && is_rest)
        return resize_large(block, bytes, owner, is_sampled);
    if (moved == NULL)
        return is_fine ? block : NULL;
    if (is_large)
        region_copy((char *)moved, (const char *)block, size_min(have, bytes));
    else
        __builtin_memcpy(moved, block, size_min(have, bytes));
    heap_free(block);
    return moved;
}

bool heap_trim(void)
{
    if (!heap_start())
        return false;
    thread_empty_cache();
    bool is_any = purge_all() > 0;
    span_give_up_long();
    return is_any;
}

void heap_idle(void)
{
    if (!heap_start())
        return;
    thread_empty_cache();
    limit_look();
    purge_due();
}

verdict heap_verify(void)
{
    verdict found = depot_verify();
    if (found == NULL)
        found = rows_verify();
    return found != NULL ? found : span_verify();
}
