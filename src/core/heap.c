/*
 * heap.c: starts the heap, and serves the slow paths: medium and large sizes, zeroing, alignment,
 * realloc, and slow frees.
 *
 * Owner: start_state serialises the start; everything else belongs to the layers below.
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
#include "core/large_cache.h"
#include "core/thread.h"
#include "mem/huge.h"
#include "mem/meta.h"
#include "mem/span.h"
#include "os/lock.h"

/* START_GIVEN_UP: the start still runs, but no thread waits for it any more. */
enum start_state { START_NOT_YET, START_RUNNING, START_DONE, START_GIVEN_UP };

enum { START_PATIENCE_MS = 5000 };

enum {
    META_CHUNK_BYTES = 256 * 1024 * 1024,
    UNMAP_TRIM_BYTES = 32 * 1024 * 1024, /* the C library always unmaps such blocks */
    UNMAP_LOCK_BYTES = 1024 * 1024,      /* what mlockall() may fill of each shorter piece */
};

static _Atomic uint32_t start_state;

const struct above above = {.start = heap_start, .settle = limit_settle, .purge = purge_some};

/* Upper bound on the free units that a collect() can bring together: all below the front, less live
 * large blocks and the program's small blocks. Of the small blocks that are out, caches may hold as
 * much as their arrays have room for. */
static size_t free_units_most(void)
{
    size_t front = region_units() << UNIT_SHIFT;
    size_t cached = load(&caches_budget.in_use, RELAXED) + large_cache_bytes() +
                    SAMPLED_KEPT_BYTES * registry_count();
    size_t out = depot_sums().out_bytes + large_bytes();
    return (front - size_min(front, out - size_min(out, cached))) >> UNIT_SHIFT;
}

/* Whether a collect() could help the request: an untrusted length must not cost more than a
 * refusal. */
static bool is_collect_useful(size_t units)
{
    size_t most = free_units_most();
    if (most == 0 || (units > most && span_is_limited()))
        return false;
    /* The addresses of free units can return to the kernel, so that the front can move. */
    return units <= most || os_would_commit(align_up((units - most) << UNIT_SHIFT, region.granule));
}

/* Threads take turns to collect and retry: what one of them has in hand, another would miss. Not
 * the purger's turn, which lasts one step, so that forks do not wait. */
static struct lock shortage_lock;

static _Thread_local struct {
    bool is_collecting, has_turn;
} shortage;

/* span_on_shortage: moves unused blocks to the spans, those of the calling thread's cache included,
 * in a turn that lasts until end_collect(). A turn whose holder does not run is not waited for. */
static bool collect(size_t units)
{
    if (shortage.is_collecting || !is_collect_useful(units))
        return false;
    shortage.is_collecting = true;
    if (!shortage.has_turn) /* a retry may collect too, for its tables */
        shortage.has_turn = lock_acquire_or_fail(&shortage_lock, RANK_SHORTAGE);
    if (of_thread.cache != &cache_none)
        cache_empty(of_thread.cache);
    if (span_is_limited())
        cores_cool();
    purge_collect();
    shortage.is_collecting = false;
    return true; /* also when another thread was faster: all threads share what it collected */
}

/* span_end_shortage. */
static void end_collect(void)
{
    if (!shortage.has_turn)
        return;
    shortage.has_turn = false;
    lock_release(&shortage_lock, RANK_SHORTAGE);
}

void heap_fork_reset(void)
{
    lock_orphan(&shortage_lock, false);
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
    if (settings.huge_from_bytes != 0 && facts.huge_pages != OS_HUGE_NEVER)
        huge_from = settings.huge_from_bytes >> UNIT_SHIFT;
    huge_for_blocks = huge_from != SIZE_MAX &&
                      (settings.has_huge_blocks || facts.huge_pages == OS_HUGE_ALWAYS);
    limit_start(facts.cpu_count, facts.memory_limit_bytes);
    span_note_ceiling(facts.address_limit_bytes);
    heap_apply(&settings);
    span_on_shortage = collect;
    span_end_shortage = end_collect;
    span_on_growth = large_cache_drain_for_growth;
    depot_page_bytes = size_min(facts.page_bytes, CHUNK_BYTES);
    meta_start(META_CHUNK_BYTES, facts.page_bytes);
    uint64_t mark;
    os_random(&mark, sizeof mark);
    cache_mark = (mark & bits_below(MARK_RANDOM_BITS)) | (uint64_t)MARK_HIGHEST << MARK_RANDOM_BITS;
    uint32_t next = region_start(&facts) == 0 ? START_DONE : START_NOT_YET;
    store(&start_state, next, RELEASE);
    os_wake(&start_state, UINT32_MAX);
}

/* Waits for the thread that starts the heap: a few kernel calls, unless that thread is stopped.
 * Returns the state, never START_RUNNING. */
static uint32_t wait_for_start(void)
{
    uint64_t begun = os_clock_ms(), waited = 0;
    uint32_t state = load(&start_state, ACQUIRE);
    for (; state == START_RUNNING && waited < START_PATIENCE_MS; waited = os_clock_ms() - begun) {
        os_wait(&start_state, START_RUNNING, START_PATIENCE_MS - waited);
        state = load(&start_state, ACQUIRE);
    }
    /* S5 of docs/protocols/start.md. If the starter finished first, its state stands. */
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
    /* Before the first write: otherwise our variables could get a huge page. */
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
    store(&purge_settings.purges_on_free, settings->purges_on_free, RELAXED);
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

/* large_units() needs the page size, which the start finds out. */
ALWAYS_INLINE struct large_request request(size_t bytes, size_t align, uint32_t cohort_offset)
{
    if (unlikely(region.base == NULL))
        heap_start();
    return (struct large_request){.units = large_units(bytes),
                                  .owner = offset_owner(cohort_offset),
                                  .align = size_max(align, UNIT_BYTES)};
}

/* From the large cache, else from the spans. The large cache is empty before the heap starts. */
static void *large_alloc(struct large_request request)
{
    void *block = large_cache_find(request);
    if (likely(block != NULL) || !heap_start())
        return block;
    size_t align_units = request.align >> UNIT_SHIFT;
    block = large_acquire(request.units, align_units, request.owner, NULL);
    return limit_should_retry(block)
               ? large_acquire(request.units, align_units, request.owner, NULL)
               : block;
}

NOINLINE void *heap_alloc_slow(size_t bytes, uint32_t cohort_offset)
{
    if (bytes <= MEDIUM_MAX)
        return cache_alloc(cohort_offset + home_offset(bytes));
    return bytes <= PTRDIFF_MAX ? large_alloc(request(bytes, 1, cohort_offset)) : NULL;
}

void *heap_find_large(size_t bytes, uint32_t cohort_offset)
{
    return bytes <= PTRDIFF_MAX ? large_cache_find(request(bytes, 1, cohort_offset)) : NULL;
}

/* A cached block, cleared; else a block from the spans, where fresh pages need no clearing. */
static void *large_zeroed(size_t bytes, uint32_t cohort_offset)
{
    struct large_request wanted = request(bytes, 1, cohort_offset);
    void *block = large_cache_find(wanted);
    if (block != NULL)
        return large_clear(block, bytes);
    block = large_alloc_zeroed(bytes, wanted.owner);
    return limit_should_retry(block) ? large_alloc_zeroed(bytes, wanted.owner) : block;
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
    return large_alloc(request(bytes, align, cohort_offset));
}

/* Whether the block is free: in its slab's bitmap, or marked and found by the exact search. A live
 * block may carry the mark by chance or as a copy. */
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

/* Usable bytes of the block at an address of the region; 0: neither a slab nor a live large block
 * is there. */
static size_t bytes_of(const void *block)
{
    return region_is_large(block) ? large_usable(block)
                                  : bin_bytes(region_bin(region_chunk(block)));
}

/* Frees a slab's block. */
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
    large_report_free(block);
    if (!large_cache_put(block))
        misuse_classify(block, "free of");
}

NOINLINE void heap_free_slow(void *block)
{
    size_t chunk = region_chunk(block);
    if (likely(region_holds(chunk)) && region_is_large(block))
        free_large(block);
    else if (block != NULL && !pooled_free(block) &&
             misuse_classify(block, "free of") == POINTER_SMALL)
        free_cached(block, region_bin(chunk), "free of");
}

/*
 * Whether `bytes` can be the size of a block of `have` bytes: the size requested, or one that
 * realloc shrank to in place, which it does while the block stays at least half used.
 */
static bool fits_in_place(size_t have, size_t bytes)
{
    if (bytes > have)
        return false;
    return bytes >= have / 2 || heap_good_size(bytes) == have;
}

/* Whether an allocation with this alignment can have returned the block: every block of its bin, or
 * the large block itself, is so aligned. */
static bool fits_alignment(const void *block, unsigned bin, size_t align)
{
    if (align <= ALIGN_NATURAL)
        return true;
    size_t step = bin != NO_SLAB ? bin_bytes(bin) : (uintptr_t)block;
    return (align & (align - 1)) == 0 && (step & (align - 1)) == 0;
}

NOINLINE void heap_free_sized_slow(void *block, size_t bytes, size_t align)
{
    if (block == NULL || pooled_free(block))
        return;
    size_t chunk = region_chunk(block);
    if (CHECKS >= 1 && region_holds(chunk)) {
        unsigned bin = region_bin(chunk);
        size_t have = bytes_of(block);
        bool fits = fits_in_place(have, bytes);
        if (!fits && align > 1 &&
            bytes <= have) /* the alignment may need a larger class, or units */
            fits = bin_class(bin) == class_aligned(bytes, align) &&
                   (bin != NO_SLAB || have == large_units(bytes) << UNIT_SHIFT);
        /* With separate cohorts, a small request that is sampled gets a large block. */
        fits = fits || (bin == NO_SLAB && bytes <= MEDIUM_MAX && rows_are_separate &&
                        large_is_sampled(block));
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

NOINLINE void heap_free_aligned_slow(void *block, size_t align, size_t bytes)
{
    heap_free_sized_slow(block, bytes, align);
}

size_t heap_good_size(size_t bytes)
{
    if (bytes <= MEDIUM_MAX)
        return class_facts[class_of(bytes)].bytes;
    return bytes <= PTRDIFF_MAX ? large_units(bytes) << UNIT_SHIFT : 0;
}

struct found {
    enum pointer_kind kind;
    size_t bytes; /* usable; 0: no live block, reported */
};

static NOINLINE struct found find_slow(const void *block, const char *verb)
{
    struct found found = {.kind = POINTER_POOLED};
    if (pooled_usable(block, verb, &found.bytes))
        return found;
    found.kind = misuse_classify(block, verb);
    if (found.kind == POINTER_BAD || found.kind == POINTER_FOREIGN)
        return found;
    if (is_free_already(block))
        misuse_report_double(block, verb, bytes_of(block));
    else
        found.bytes = bytes_of(block);
    return found;
}

/* The live block at an address that is not NULL. A small one as free's fast path sees it: without a
 * look at its slab. */
ALWAYS_INLINE struct found find_live(const void *block, const char *verb)
{
    size_t chunk = region_chunk(block);
    if (likely(region_holds(chunk))) {
        unsigned bin = region_bin(chunk);
        if (likely(heap_looks_live(block, chunk, bin)))
            return (struct found){POINTER_SMALL, bin_bytes(bin)};
    }
    return find_slow(block, verb);
}

size_t heap_usable(const void *block)
{
    return block != NULL ? find_live(block, "usable size of").bytes : 0;
}

/* A pool's block stays in place or moves to the heap. */
static void *realloc_pooled(void *block, size_t have, size_t bytes, uint32_t cohort_offset,
                            bool is_sampled)
{
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

/* A large block that shrinks to less than 1/SHRINK_MAX is copied: cut in place, it would pin the
 * front of a range that the next such request needs whole. */
enum { SHRINK_MAX = 8 };

/* A large block that is copied to grow grows by at least 1/GROWTH_MIN, up to LARGE_SHORT_UNITS:
 * fewer copies. */
enum { GROWTH_MIN = 4 };

/* Copying this much takes 2 ms, no longer than the faults that the copy saves. */
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

/* A large block that grows by this factor at once, as if to its length before it was cut, may find
 * its old pages. */
enum { JUMP = 4 };

/* Copies a growing block to a dirty span of `room` units, whose pages are resident. Only where the
 * copy is short. NULL: not copied. */
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
    bool is_jump = bytes / JUMP >= have, is_copied_first = is_jump || large_grows_fresh(block);
    size_t room = is_jump ? units : units + units / 2; /* leaves room to grow in place */
    void *resized = is_copied_first ? copy_to_room(block, have, bytes, room, owner) : NULL;
    if (resized == NULL && large_resize_in_place(block, bytes, owner))
        resized = block;
    if (resized == NULL && !is_copied_first)
        resized = copy_to_room(block, have, bytes, room, owner);
    if (resized == NULL)
        resized = large_move(block, bytes, owner);
    if (resized != NULL && is_sampled)
        large_mark_sampled(resized);
    return resized;
}

void *heap_realloc(void *block, size_t bytes, uint32_t cohort_offset, bool is_sampled)
{
    struct found found = find_live(block, "realloc of");
    enum pointer_kind kind = found.kind;
    size_t have = found.bytes;
    if (have == 0 || bytes > PTRDIFF_MAX)
        return NULL;
    if (kind == POINTER_POOLED)
        return realloc_pooled(block, have, bytes, cohort_offset, is_sampled);
    unsigned bin = region_bin(region_chunk(block));
    unsigned owner = offset_owner(cohort_offset);
    bool fits_now = kind == POINTER_SMALL && fits_in_place(have, bytes) && owner == row_owner(bin);
    if (fits_now && (!is_sampled || bin_is_sampled(bin)))
        return block;
    bool is_large = kind == POINTER_LARGE && bytes > MEDIUM_MAX;
    bool is_deep_cut = is_large && bytes < have / SHRINK_MAX;
    if (is_large && !is_deep_cut) {
        void *resized = resize_large(block, bytes, owner, is_sampled);
        if (resized != NULL)
            return resized;
    }
    size_t wanted = kind == POINTER_LARGE ? grown_bytes(have, bytes) : bytes;
    void *moved = is_sampled ? sampled_alloc(bytes, 1, false, cohort_offset)
                             : alloc_moved(bytes, wanted, cohort_offset);
    if (moved == NULL && is_deep_cut)
        return resize_large(block, bytes, owner, is_sampled);
    if (moved == NULL)
        return fits_now ? block : NULL;
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
    span_unmap_long(UNMAP_TRIM_BYTES);
    return is_any;
}

void heap_unmap_clean(void)
{
    span_unmap_long(UNMAP_LOCK_BYTES);
}

void heap_idle(void)
{
    if (!heap_start())
        return;
    thread_empty_cache();
    limit_reread();
    purge_due();
}

verdict heap_verify(void)
{
    verdict found = depot_verify();
    if (found == NULL)
        found = rows_verify();
    return found != NULL ? found : span_verify();
}
