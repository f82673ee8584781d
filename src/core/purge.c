/*
 * purge.c: when free pages go back to the kernel, and who gives them.
 *
 * Whoever frees gives them back, a bounded step at a time; there is no thread for it. By bytes,
 * while the program shrinks: dirty spans go back as soon as they are more than the program is seen
 * to take again, and whole free pages of slabs each time an eighth of what slabs hold has become
 * free. By the clock, while the program goes on: every delay_ms a look begins, and each step does a
 * part of it. Dirty spans that were not needed at any time since the last look are purged, batches
 * that nobody touched are emptied into the bitmaps, wholly free slabs are retired, idle pages of
 * slabs dropped.
 *
 * Owner: whoever has the turn (RANK_PURGE), a step at a time, so that a fork comes between two. A
 * step that ends halfway, with its thread, leaves nothing to mend: it loses what it had in hand.
 * Who frees never waits for the lock. Who trims does; where its holder does not run, a trim goes on
 * out of turn, and only slabs' pages need one. Design: docs/design/purge.md
 */
#include "core/purge.h"

#include "base/bits.h"
#include "core/cores.h"
#include "core/depot.h"
#include "core/shelf.h"
#include "core/slab.h"
#include "core/thread.h"
#include "mem/cold.h"
#include "mem/huge.h"
#include "mem/regret.h"
#include "mem/span.h"
#include "os/os.h"

enum {
    SLACK_BYTES = 1024 * 1024, /* of dirty spans, beside what is taken again           */
    /* Worth a step. Of small blocks a slice has 10,000, so that calls are fewer than 1 in 10,000 of
     * their frees; of others they are more, and shorter. */
    SLICE_BYTES = 2 * 1024 * 1024,
    SLICE_SHORT = SLICE_BYTES / 4,
    SLICES_A_STEP = 4,            /* beside four times what the caller freed                  */
    HELP_BYTES = 4 * SLICE_BYTES, /* of dirty spans, that nobody waits with for a turn        */
    LIMIT_SHARE = 8,              /* of a limit, dirty at least, if the program wants it      */
    SWEEP_SHARE = 8,              /* of what slabs hold                                       */
    CHUNKS_A_LOOK = 2048,         /* slabs looked at for idle pages, by the clock             */
    CHUNKS_A_STEP = 128,
    CALLS_A_STEP = 16, /* kernel calls for their pages                          */
    DEPOTS_A_STEP = 64,
    BLOCKS_A_STEP = 1024, /* moved from batches to bitmaps, then it is enough */
    HEIGHTS = 3,          /* of what was in use, with what is kept: `medium-t1`, `large-pingpong` */
    SLAB_LOOKS = 4,       /* that a slab must be unchanged before its pages are dropped */
};

static _Atomic size_t purged_bytes;
static _Atomic size_t height_now, height_before; /* most bytes in use, this window and the last */
static _Atomic size_t dirty_left; /* least since the last purge of an excess, which left some */

enum look_part { LOOK_CACHES, LOOK_DEPOTS, LOOK_SLABS, LOOK_COLD };
static _Atomic uint64_t look_due_ms; /* 0 while a look is under way          */
static _Atomic size_t sweep_left;    /* slabs, of the sweep that is under way */

/* Who has the purger's turn. */
static struct {
    size_t hand; /* chunk where the next look at slabs begins */
    uint64_t look_ms, idle_ms, window_ms;
    enum look_part part;
    struct depot *depot;    /* to tidy next; NULL: the newest */
    size_t chunks_left;     /* of slabs, for the look under way */
    size_t slab_free_least; /* bytes free in slabs, the least since the last sweep */
    size_t slab_most;       /* bytes that slabs held, the most since then */
} at;

static size_t count_purged(size_t bytes)
{
    fetch_add(&purged_bytes, bytes, RELAXED);
    return bytes;
}

/* About so many bytes of dirty spans, in pieces of at most `bytes_max`. Has the turn, or does
 * without. Returns how many. */
static size_t purge_spans(size_t bytes, size_t bytes_max)
{
    size_t purged = 0;
    for (size_t done = 1; done > 0 && purged < bytes; purged += done)
        done = count_purged(span_purge(bytes - purged, bytes_max));
    return purged;
}

/* Looks at up to `chunks` slabs from the hand on; returns how many. Has the turn: what is claimed
 * of a slab is one purger's. */
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

/* Ended threads' caches, too, and the shelf. */
static void tidy_all(void)
{
    bool is_any = true;
    while (is_any) {
        bool has_turn = purge_turn_begin();
        is_any = thread_cool_one();
        purge_turn_end(has_turn);
    }
    depot_tidy_all();
    shelf_drain(true);
}

/* As much as is dirty now: who is told of a purge (os/linux/told.h) may free more with each piece.
 */
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
    purge_all_spans(); /* neighbours merge only when both are clean */
}

size_t purge_bytes(void)
{
    return load(&purged_bytes, RELAXED);
}

/* Whether the heap has more than the program wants, so that what is free goes back at once. */
static bool is_too_much(void)
{
    size_t limit = load(&purge_settings.soft_limit, RELAXED);
    return unlikely(limit != 0) && span_charged_bytes() > limit;
}

/* What is dirty and can be taken again. */
static size_t dirty_bytes(void)
{
    return span_dirty_bytes() + shelf_bytes();
}

/* What is charged and not dirty. */
static size_t used_bytes(size_t dirty)
{
    size_t charged = span_charged_bytes();
    return charged - size_min(charged, dirty);
}

/* The program is not expected to take more again than some times what it used at its height of
 * late, in blocks of other lengths. */
static size_t expected_bytes(size_t dirty)
{
    size_t used = used_bytes(dirty);
    size_t height = size_max(load(&height_now, RELAXED), load(&height_before, RELAXED));
    return size_min(span_regret_bytes(), HEIGHTS * height - size_min(HEIGHTS * height, used));
}

static size_t slack_bytes(void)
{
    return SLACK_BYTES + huge_spare_bytes();
}

/* So much of the dirty bytes may stay whatever the program is expected to take: half of what a
 * limit of its own leaves, so that a high one costs nothing. */
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

/* Before `bytes` of it were freed. */
static void note_height(size_t bytes)
{
    size_t used = used_bytes(dirty_bytes()) + bytes;
    if (used > load(&height_now, RELAXED))
        store(&height_now, used, RELAXED);
}

/* Dirty bytes beyond what the program is expected to take again and SLICE_BYTES, and a slice below
 * that; 0 until there is a slice more than were left the last time. */
static size_t excess_bytes(size_t slice)
{
    size_t dirty = dirty_bytes();
    size_t kept = slack_bytes() + expected_bytes(dirty);
    if (is_too_much())
        return dirty >= slice ? dirty : 0;
    kept = size_min(kept, dirty_most(dirty)) + SLICE_BYTES - slice;
    size_t left = load(&dirty_left, RELAXED);
    if (dirty < left)
        store(&dirty_left, left = dirty, RELAXED);
    return dirty >= size_max(kept, left) + slice ? dirty - kept : 0;
}

/* The same, of which the shelf has none any more. */
static size_t excess_of_spans(size_t slice)
{
    size_t excess = excess_bytes(slice);
    if (excess > span_dirty_bytes())
        shelf_drain(true);
    return excess;
}

/* The caller freed `bytes`: several threads that shrink at once keep pace with what they free. */
static void purge_excess(size_t bytes, size_t slice)
{
    size_t budget = 4 * bytes + SLICES_A_STEP * slice;
    size_t excess = excess_of_spans(slice);
    size_t purged = purge_spans(size_min(excess, budget), budget), dirty = span_dirty_bytes();
    /* A span may be so long that less than a half of it is wanted. */
    if (excess > 0 && purged == 0 && dirty > dirty_most(dirty) + SLICE_BYTES)
        purged = purge_spans(dirty, budget);
    if (purged > 0 && excess <= budget)
        store(&dirty_left, dirty_bytes(), RELAXED);
}

/* Begins a sweep over all slabs when much has become free in them since the last one: an eighth of
 * what they hold, and more than what a sweep has dropped in vain. Or when slabs have become fewer
 * by that: what is free in them falls then, with each that goes, and pages of the others become
 * free all the same. */
static void sweep_begin(void)
{
    size_t free_bytes = depot_free_bytes(), held = depot_slab_bytes();
    size_t share = size_max(held / SWEEP_SHARE, SLICE_BYTES) + slab_regret_bytes();
    at.slab_free_least = size_min(at.slab_free_least, free_bytes);
    at.slab_most = size_max(at.slab_most, held);
    size_t fewer = at.slab_most - held, more = free_bytes - at.slab_free_least;
    more = size_max(more, fewer - size_min(fewer, span_dirty_bytes()));
    if (more < (is_too_much() ? SLICE_BYTES : share))
        return;
    at.slab_free_least = free_bytes;
    at.slab_most = held;
    store(&sweep_left, load(&region.chunks, RELAXED), RELAXED);
}

/* So many slabs that a sweep is over before as much as it waited for has become free again. */
static void sweep_some(size_t bytes)
{
    size_t left = load(&sweep_left, RELAXED);
    size_t chunks = size_min(left, CHUNKS_A_STEP / 2 + 2 * SWEEP_SHARE * (bytes >> CHUNK_SHIFT));
    /* Also those that have changed since the sweep began. */
    left -= purge_slabs(chunks, load(&depot_tick, RELAXED) + 1, CALLS_A_STEP);
    store(&sweep_left, left, RELAXED);
}

/* What was not needed for all of the delay goes back; what is taken again has a window. */
static void purge_idle_spans(uint64_t now)
{
    size_t delay = load(&purge_settings.delay_ms, RELAXED);
    bool is_window_over = now - at.window_ms >= REGRET_WINDOW_MS;
    if (is_window_over) {
        at.window_ms = now;
        store(&height_before, exchange(&height_now, 0, RELAXED), RELAXED);
        span_end_window();
        slab_forget_dropped();
    }
    if (span_regret_bytes() > 0)
        delay = size_max(delay, REGRET_WINDOW_MS);
    if (now - at.idle_ms < delay)
        return;
    at.idle_ms = now;
    purge_spans(span_idle_bytes(), HELP_BYTES);
}

static void look_begin(uint64_t now)
{
    at.look_ms = now;
    at.part = LOOK_CACHES;
    at.depot = NULL;
    at.chunks_left = size_min(load(&region.chunks, RELAXED), CHUNKS_A_LOOK);
    fetch_add(&depot_tick, 1, RELAXED);
    purge_idle_spans(now);
    store(&look_due_ms, 0, RELAXED);
}

size_t purge_cold(uint64_t age_ms)
{
    size_t left = 0;
    for (bool goes_on = true; goes_on && purge_turn_begin();
         age_ms = UINT64_MAX) { /* one pass begins */
        uint64_t now = os_clock_ms();
        goes_on = cold_begin(now, age_ms, depot_page_bytes);
        if (goes_on)
            left += cold_some(now);
        purge_turn_end(true);
    }
    return left;
}

/* A part of the look under way. */
static void look_some(uint64_t now)
{
    if (at.part == LOOK_CACHES) {
        thread_cool_one();
        cores_cool_spare();
        shelf_drain(false);
        at.part = LOOK_DEPOTS;
        at.depot = depot_newest();
    } else if (at.part == LOOK_DEPOTS) {
        size_t moved = 0;
        for (unsigned i = 0; i < DEPOTS_A_STEP && moved < BLOCKS_A_STEP && at.depot != NULL; i++) {
            moved += depot_tidy(at.depot, false);
            at.depot = at.depot->below;
        }
        if (at.depot == NULL)
            at.part = LOOK_SLABS;
    } else if (at.part == LOOK_SLABS) {
        size_t chunks = size_min(at.chunks_left, CHUNKS_A_STEP);
        at.chunks_left -= purge_slabs(chunks, load(&depot_tick, RELAXED) - SLAB_LOOKS,
                                      CALLS_A_STEP);
        if (at.chunks_left == 0)
            at.part = LOOK_COLD;
    } else {
        size_t age_ms = load(&purge_settings.cold_ms, RELAXED);
        if (age_ms != 0 && cold_begin(now, age_ms, depot_page_bytes))
            cold_some(now);
        else
            store(&look_due_ms, at.look_ms + load(&purge_settings.delay_ms, RELAXED), RELAXED);
    }
}

/* A part of the sweep and of the look that are under way, or are to begin. Returns whether one is
 * under way. */
static bool go_on(size_t bytes, bool is_sweep_due, bool is_look_due, uint64_t now)
{
    if (is_sweep_due && load(&sweep_left, RELAXED) == 0)
        sweep_begin();
    if (load(&sweep_left, RELAXED) > 0)
        sweep_some(bytes);
    if (load(&look_due_ms, RELAXED) == 0)
        look_some(now);
    else if (is_look_due)
        look_begin(now);
    return load(&sweep_left, RELAXED) > 0 || load(&look_due_ms, RELAXED) == 0;
}

/* Who does not get the turn leaves it to others, but for many dirty spans. */
void purge_some(size_t bytes, bool is_short, bool is_sweep_due)
{
    size_t slice = is_short ? SLICE_SHORT : SLICE_BYTES;
    uint64_t now = os_clock_ms();
    note_height(bytes);
    size_t excess = excess_bytes(slice);
    bool is_look_due = now >= load(&look_due_ms, RELAXED);
    if (excess == 0 && !is_sweep_due && !is_look_due && load(&sweep_left, RELAXED) == 0)
        return;
    if (purge_turn_begin_soon()) {
        purge_excess(bytes, slice);
        go_on(bytes, is_sweep_due, is_look_due, now);
        purge_turn_end(true);
    } else if (excess >= HELP_BYTES) {
        purge_excess(bytes, slice);
    }
}

/* All of the excess, a turn for each few slices. */
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
    if (!load(&purge_settings.is_idle_wanted, RELAXED))
        return;
    purge_whole_excess();
    bool is_look_due = now >= load(&look_due_ms, RELAXED);
    for (bool is_first = true, is_more = true; is_more && purge_turn_begin_soon();
         is_first = false) {
        is_more = go_on(0, is_first, is_first && is_look_due, now);
        purge_turn_end(true);
    }
}
