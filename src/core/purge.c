/*
 * purge.c: when free pages return to the kernel, and which thread returns them.
 *
 * Threads that free purge, a bounded step at a time; there is no purger thread. By bytes, while the
 * program shrinks: dirty spans are purged once they exceed what the program is expected to take
 * again; a sweep purges the whole free pages of all slabs each time an eighth of the slabs' bytes
 * has become free. By the clock: at least delay_ms after the last one a purge tick begins. It
 * purges dirty spans that stayed unneeded and unmaps long spans; later steps do the rest, a piece
 * of one part each: one warm cache, one spare per-CPU cache and the large cache; depots' idle
 * batches, deferred frees and wholly free slabs; idle pages of slabs; cold pages in use.
 *
 * Owner: the thread that has the turn (RANK_PURGE), one step at a time, so that a fork falls
 * between two steps. A step that ends halfway, with its thread, leaves nothing to repair: it loses
 * what it had in hand. A thread that frees never waits for the lock: without it the thread purges
 * spans only, from HELP_BYTES of excess on. A trim waits; where the holder does not run, the trim
 * goes on without the turn, which only slabs' pages need.
 * Design: docs/design/purge.md
 */
#include "core/purge.h"

#include "base/bits.h"
#include "core/cores.h"
#include "core/depot.h"
#include "core/large_cache.h"
#include "core/slab.h"
#include "core/thread.h"
#include "mem/cold.h"
#include "mem/huge.h"
#include "mem/refault.h"
#include "mem/span.h"
#include "os/os.h"

enum {
    SLACK_BYTES = 1024 * 1024, /* dirty bytes kept beyond those expected to be taken again */
    /* Bytes of excess that make a step worthwhile. A slice holds 10,000 small blocks, so that their
     * frees make fewer than 1 call in 10,000; larger blocks make more and shorter calls. */
    SLICE_BYTES = 2 * 1024 * 1024,
    SLICE_SHORT = SLICE_BYTES / 4,
    SLICES_A_STEP = 4,               /* beside four times what the caller freed */
    HELP_BYTES = 4 * SLICE_BYTES,    /* excess that a thread purges without the turn */
    LIMIT_SHARE = 8,                 /* of a limit: dirty bytes that may stay at least */
    SWEEP_SHARE = 8,                 /* of what slabs hold: free before a sweep */
    CHUNKS_A_TICK = 2048,            /* scanned for idle pages each tick */
    UNMAP_BYTES = 128 * 1024 * 1024, /* spans that a tick unmaps: shorter ones would part the heap
                                      * into mapped and unmapped pieces as it grows again */
    CHUNKS_A_STEP = 128,
    CALLS_A_STEP = 16, /* kernel calls for slabs' pages */
    DEPOTS_A_STEP = 64,
    BLOCKS_A_STEP = 1024, /* moves from batches to bitmaps that end a step */
    PEAKS = 3,            /* peaks that used plus kept may reach: `medium-t1`, `large-pingpong` */
    SLAB_TICKS = 4,       /* ticks that a slab is unchanged before its pages are purged */
};

static _Atomic size_t purged_bytes;
static _Atomic size_t peak_now, peak_before; /* peak bytes in use, this window and the last */
static _Atomic size_t dirty_left; /* least dirty bytes since the last purge of a whole excess */

enum tick_part { TICK_CACHES, TICK_DEPOTS, TICK_SLABS, TICK_COLD };
static _Atomic uint64_t tick_due_ms; /* 0 during a tick, and before the first */
static _Atomic size_t sweep_left;    /* chunks left of the sweep */

/* Guarded by the purger's turn. */
static struct {
    size_t hand; /* clock hand: the chunk scanned last */
    uint64_t tick_ms, idle_ms, window_ms;
    enum tick_part part;
    struct depot *depot;    /* to tidy next; NULL: none left */
    size_t chunks_left;     /* left to scan in this tick */
    size_t slab_free_least; /* least bytes free in slabs since the last sweep */
    size_t slab_most;       /* most bytes that slabs held since then */
} at;

static size_t count_purged(size_t bytes)
{
    fetch_add(&purged_bytes, bytes, RELAXED);
    return bytes;
}

/* Purges about `bytes` of dirty spans, in pieces of at most `bytes_max`. With or without the turn.
 * Returns bytes purged. */
static size_t purge_spans(size_t bytes, size_t bytes_max)
{
    size_t purged = 0;
    for (size_t done = 1; done > 0 && purged < bytes; purged += done)
        done = count_purged(span_purge(bytes - purged, bytes_max));
    return purged;
}

/* Purges pages of slabs in up to `chunks` chunks from the clock hand on; returns the chunks
 * scanned. Needs the turn: only one purger may claim blocks of a slab. */
static size_t purge_slabs(size_t chunks, uint32_t tick_oldest, unsigned calls_max)
{
    unsigned calls = 0;
    size_t done = 0, purged = 0;
    for (; done < chunks && calls < calls_max; done++) {
        at.hand = at.hand + 1 < load(&region.chunks, RELAXED) ? at.hand + 1 : 1;
        if (region_holds(at.hand))
            purged += depot_purge_chunk(at.hand, tick_oldest, &calls);
    }
    count_purged(purged);
    return done;
}

/* Moves free blocks of ended threads' caches, depots and the large cache to the spans. */
static void tidy_all(void)
{
    bool is_any = true;
    while (is_any) {
        bool has_turn = purge_turn_begin();
        is_any = thread_cool_one();
        purge_turn_end(has_turn);
    }
    depot_tidy_all(true);
    large_cache_drain(true);
}

/* At most the bytes that are dirty now: functions called for a purge (os/linux/told.h) may free
 * more with each piece. */
static void purge_all_spans(void)
{
    size_t left = span_dirty_bytes();
    for (size_t done = 1; done > 0 && left > 0; left -= size_min(left, done)) {
        bool has_turn = purge_turn_begin();
        done = count_purged(span_purge(left, HELP_BYTES));
        purge_turn_end(has_turn);
    }
}

size_t purge_all(void)
{
    size_t before = purge_bytes();
    bool has_turn = purge_turn_begin();
    cores_cool();
    purge_turn_end(has_turn);
    tidy_all();
    uint32_t tick = fetch_add(&depot_tick, 2, RELAXED) + 2; /* after tidying, which changes slabs */
    size_t chunks = load(&region.chunks, RELAXED);
    for (size_t done = 0; done < chunks; done += CHUNKS_A_STEP) {
        if (!purge_turn_begin())
            break;
        purge_slabs(CHUNKS_A_STEP, tick, UINT32_MAX);
        purge_turn_end(true);
    }
    purge_all_spans();
    return purge_bytes() - before;
}

void purge_collect(void)
{
    tidy_all();
    purge_all_spans(); /* dirty and clean neighbours do not merge */
}

size_t purge_bytes(void)
{
    return load(&purged_bytes, RELAXED);
}

/* Whether the heap is over its soft limit, so that what is free is purged at once. */
static bool is_over_soft(void)
{
    size_t limit = load(&purge_settings.soft_limit, RELAXED);
    return unlikely(limit != 0) && span_charged_bytes() > limit;
}

/* Dirty bytes that can be taken again. */
static size_t dirty_bytes(void)
{
    return span_dirty_bytes() + large_cache_bytes();
}

/* Charged bytes that are not dirty. */
static size_t used_bytes(size_t dirty)
{
    size_t charged = span_charged_bytes();
    return charged - size_min(charged, dirty);
}

/* Dirty bytes that the program is expected to take again: no more than PEAKS times its recent
 * peak, less what is used. None near a limit on address space, where the program's own mappings
 * need it first. */
static size_t expected_bytes(size_t dirty)
{
    if (unlikely(span_is_near_ceiling()))
        return 0;
    size_t used = used_bytes(dirty);
    size_t peak = size_max(load(&peak_now, RELAXED), load(&peak_before, RELAXED));
    return size_min(span_refault_bytes(), PEAKS * peak - size_min(PEAKS * peak, used));
}

static size_t slack_bytes(void)
{
    return SLACK_BYTES + huge_spare_bytes();
}

/* The dirty bytes that may stay at most, whatever is expected: under a limit of the program's own,
 * half of what the limit leaves, so that a high limit costs nothing. */
static size_t dirty_most(size_t dirty)
{
    size_t most = load(&purge_settings.dirty_most, RELAXED);
    size_t limit = load(&purge_settings.limit, RELAXED);
    if (unlikely(limit != SIZE_MAX)) {
        size_t left = limit - size_min(limit, used_bytes(dirty));
        most = size_min(most, size_max(limit / LIMIT_SHARE, left / 2));
    }
    return slack_bytes() + most;
}

/* Records the peak, which counts the `bytes` that the caller freed. */
static void note_peak(size_t bytes)
{
    size_t used = used_bytes(dirty_bytes()) + bytes;
    if (used > load(&peak_now, RELAXED))
        store(&peak_now, used, RELAXED);
}

/* Dirty bytes to purge: `dirty` - `kept`, once `dirty` >= max(kept, left) + slice; else 0. `kept`
 * includes SLICE_BYTES - slice, so that purging begins at one amount with either slice, and short
 * slices purge less at a time. `left`: bytes that the last purge did not get are not tried again
 * before a slice is added. Over the soft limit: all, from a slice on. */
static size_t excess_bytes(size_t slice)
{
    size_t dirty = dirty_bytes();
    size_t kept = slack_bytes() + expected_bytes(dirty);
    if (is_over_soft())
        return dirty >= slice ? dirty : 0;
    kept = size_min(kept, dirty_most(dirty)) + SLICE_BYTES - slice;
    size_t left = load(&dirty_left, RELAXED);
    if (dirty < left)
        store(&dirty_left, left = dirty, RELAXED);
    return dirty >= size_max(kept, left) + slice ? dirty - kept : 0;
}

/* The excess, all of it in spans: empties the large cache if spans have less. */
static size_t excess_of_spans(size_t slice)
{
    size_t excess = excess_bytes(slice);
    if (excess > span_dirty_bytes())
        large_cache_drain(true);
    return excess;
}

/* The budget grows with `bytes`, which the caller freed: threads that shrink at once keep pace. */
static void purge_excess(size_t bytes, size_t slice)
{
    size_t budget = 4 * bytes + SLICES_A_STEP * slice;
    size_t excess = excess_of_spans(slice);
    size_t purged = purge_spans(size_min(excess, budget), budget), dirty = span_dirty_bytes();
    /* span_purge() skips a span of which less than a half is wanted. */
    if (excess > 0 && purged == 0 && dirty > dirty_most(dirty) + SLICE_BYTES)
        purged = purge_spans(dirty, budget);
    if (purged > 0 && excess <= budget)
        store(&dirty_left, dirty_bytes(), RELAXED);
    if (purged > 0)
        span_unmap_if_limited();
}

/* Begins a sweep over all slabs once an eighth of what they hold has become free since the last
 * one, and more than sweeps purged in vain. Also once slabs have become fewer by as much: each slab
 * that goes lowers the free bytes, though pages of others become free. */
static void sweep_begin(void)
{
    size_t free_bytes = depot_free_bytes(), held = depot_slab_bytes();
    size_t share = size_max(held / SWEEP_SHARE, SLICE_BYTES) + slab_refault_bytes();
    at.slab_free_least = size_min(at.slab_free_least, free_bytes);
    at.slab_most = size_max(at.slab_most, held);
    size_t fewer = at.slab_most - held, more = free_bytes - at.slab_free_least;
    more = size_max(more, fewer - size_min(fewer, span_dirty_bytes()));
    if (more < (is_over_soft() ? SLICE_BYTES : share))
        return;
    at.slab_free_least = free_bytes;
    at.slab_most = held;
    store(&sweep_left, load(&region.chunks, RELAXED), RELAXED);
}

/* Scans fast enough to end the sweep before the next one is due, unless kernel calls take long. */
static void sweep_some(size_t bytes)
{
    size_t left = load(&sweep_left, RELAXED);
    size_t chunks = size_min(left, CHUNKS_A_STEP / 2 + 2 * SWEEP_SHARE * (bytes >> CHUNK_SHIFT));
    /* Slabs that changed since the sweep began are included. */
    left -= purge_slabs(chunks, load(&depot_tick, RELAXED) + 1, CALLS_A_STEP);
    store(&sweep_left, left, RELAXED);
}

/* Purges what was not needed for the delay, or for a whole window where the program takes purged
 * bytes again. */
static void purge_idle_spans(uint64_t now)
{
    size_t delay = load(&purge_settings.delay_ms, RELAXED);
    bool is_window_over = now - at.window_ms >= REFAULT_WINDOW_MS;
    if (is_window_over) {
        at.window_ms = now;
        store(&peak_before, exchange(&peak_now, 0, RELAXED), RELAXED);
        span_end_window();
        slab_forget_dropped();
    }
    if (span_refault_bytes() > 0)
        delay = size_max(delay, REFAULT_WINDOW_MS);
    if (now - at.idle_ms < delay)
        return;
    at.idle_ms = now;
    purge_spans(span_take_idle_bytes(), HELP_BYTES);
}

static void tick_begin(uint64_t now)
{
    at.tick_ms = now;
    at.part = TICK_CACHES;
    at.depot = NULL;
    at.chunks_left = size_min(load(&region.chunks, RELAXED), CHUNKS_A_TICK);
    fetch_add(&depot_tick, 1, RELAXED);
    purge_idle_spans(now);
    span_unmap_long(UNMAP_BYTES);
    store(&tick_due_ms, 0, RELAXED);
}

size_t purge_cold(uint64_t age_ms)
{
    size_t left = 0;
    for (bool goes_on = true; goes_on && purge_turn_begin();
         age_ms = UINT64_MAX) { /* only one pass begins */
        uint64_t now = os_clock_ms();
        goes_on = cold_begin(now, age_ms, depot_page_bytes);
        if (goes_on)
            left += cold_step(now);
        purge_turn_end(true);
    }
    return left;
}

/* Does a part of the tick. */
static void tick_some(uint64_t now)
{
    if (at.part == TICK_CACHES) {
        thread_cool_one();
        cores_cool_spare();
        large_cache_drain(false);
        at.part = TICK_DEPOTS;
        at.depot = depot_newest();
    } else if (at.part == TICK_DEPOTS) {
        size_t moved = 0;
        for (unsigned i = 0; i < DEPOTS_A_STEP && moved < BLOCKS_A_STEP && at.depot != NULL; i++) {
            moved += depot_tidy(at.depot, false, false);
            at.depot = at.depot->below;
        }
        if (at.depot == NULL)
            at.part = TICK_SLABS;
    } else if (at.part == TICK_SLABS) {
        size_t chunks = size_min(at.chunks_left, CHUNKS_A_STEP);
        at.chunks_left -= purge_slabs(chunks, load(&depot_tick, RELAXED) - SLAB_TICKS,
                                      CALLS_A_STEP);
        if (at.chunks_left == 0)
            at.part = TICK_COLD;
    } else {
        size_t age_ms = load(&purge_settings.cold_ms, RELAXED);
        if (age_ms != 0 && cold_begin(now, age_ms, depot_page_bytes))
            cold_step(now);
        else
            store(&tick_due_ms, at.tick_ms + load(&purge_settings.delay_ms, RELAXED), RELAXED);
    }
}

/* Does a part of the sweep and of the tick, or begins them. Returns whether one is under way. */
static bool sweep_and_tick(size_t bytes, bool is_sweep_due, bool is_tick_due, uint64_t now)
{
    if (is_sweep_due && load(&sweep_left, RELAXED) == 0)
        sweep_begin();
    if (load(&sweep_left, RELAXED) > 0)
        sweep_some(bytes);
    if (load(&tick_due_ms, RELAXED) == 0)
        tick_some(now);
    else if (is_tick_due)
        tick_begin(now);
    return load(&sweep_left, RELAXED) > 0 || load(&tick_due_ms, RELAXED) == 0;
}

/* Without the turn, a thread purges only many dirty spans. */
void purge_some(size_t bytes, bool is_short, bool is_sweep_due)
{
    size_t slice = is_short ? SLICE_SHORT : SLICE_BYTES;
    uint64_t now = os_clock_ms();
    note_peak(bytes);
    size_t excess = excess_bytes(slice);
    bool is_tick_due = now >= load(&tick_due_ms, RELAXED);
    if (excess == 0 && !is_sweep_due && !is_tick_due && load(&sweep_left, RELAXED) == 0)
        return;
    if (purge_turn_begin_soon()) {
        purge_excess(bytes, slice);
        sweep_and_tick(bytes, is_sweep_due, is_tick_due, now);
        purge_turn_end(true);
    } else if (excess >= HELP_BYTES) {
        purge_excess(bytes, slice);
    }
}

/* Purges the whole excess, a few slices in each turn. */
static void purge_whole_excess(void)
{
    size_t left = excess_of_spans(SLICE_BYTES), done = 1;
    while (left > 0 && done > 0 && purge_turn_begin_soon()) {
        done = count_purged(span_purge(left, HELP_BYTES));
        purge_turn_end(true);
        left -= size_min(left, done);
    }
}

void purge_due(void)
{
    uint64_t now = os_clock_ms();
    if (!load(&purge_settings.purges_on_free, RELAXED))
        return;
    purge_whole_excess();
    bool is_tick_due = now >= load(&tick_due_ms, RELAXED);
    for (bool is_first = true, is_more = true; is_more && purge_turn_begin_soon();
         is_first = false) {
        is_more = sweep_and_tick(0, is_first, is_first && is_tick_due, now);
        purge_turn_end(true);
    }
}
