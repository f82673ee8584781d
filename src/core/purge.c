/*
 * purge.c: when idle pages go back, and who does it.
 *
 * A helper thread starts when a few MiB have become free, and looks every delay_ms: dirty spans
 * that were not needed at any time since the last look (the least number of dirty bytes there was)
 * are purged, batches that nobody touched are emptied into the bitmaps, wholly free slabs are
 * retired, and whole free pages of slabs that did not change are dropped. When a few looks in a row
 * find nothing, it ends. A program that never frees much never has one.
 *
 * Owner: the helper, or a thread that trims, under purge_lock (RANK_PURGE), which is held for one
 * step at a time. Design: docs/design/purge.md
 */
#include "core/purge.h"

#include "base/bits.h"
#include "core/depot.h"
#include "core/shelf.h"
#include "core/thread.h"
#include "mem/span.h"
#include "os/lock.h"
#include "os/os.h"

enum {
    START_BYTES = 2 * 1024 * 1024, /* freed, before a helper is worth its start */
    UNITS_A_LOOK = 2048,           /* slabs looked at for idle pages            */
    CALLS_A_LOOK = 4096,           /* kernel calls for them                     */
    UNITS_A_STEP = 64,
    SLAB_LOOKS = 4, /* that a slab must be unchanged before its pages are dropped */
    IDLE_LOOKS_MAX = 2 * SLAB_LOOKS,
    STACK_BYTES = 128 * 1024,
    ENDING_MS_MAX = 10, /* to wait for a helper that is on its way out */
};

enum { HELPER_LOOKING, HELPER_ENDING };

struct purge_settings purge_settings = {.is_idle_wanted = true, .delay_ms = 50};

static struct lock purge_lock;
static _Atomic size_t noted_bytes;  /* became free since the start          */
static _Atomic size_t noted_before; /* of them, when the helper ended last  */
static _Atomic size_t purged_bytes;
static _Atomic uint32_t helper_alive;
static _Atomic uint32_t helper_stop;
static _Atomic uint32_t helper_state; /* docs/protocols/helper.md */
static size_t hand;                   /* unit where the next look at slabs begins */

static _Alignas(64 * 1024) char helper_stack[STACK_BYTES];

static size_t purge_spans(size_t bytes)
{
    size_t purged = 0;
    for (size_t done = 1; done > 0 && purged < bytes; purged += done) {
        lock_acquire(&purge_lock, RANK_PURGE);
        done = span_purge(bytes - purged);
        lock_release(&purge_lock, RANK_PURGE);
    }
    return purged;
}

/* Looks at up to `units_max` slabs from the hand on. */
static size_t purge_slabs(size_t units_max, uint32_t tick_oldest, unsigned calls_max)
{
    size_t purged = 0;
    unsigned calls = 0;
    for (size_t done = 0; done < units_max && calls < calls_max; done += UNITS_A_STEP) {
        lock_acquire(&purge_lock, RANK_PURGE);
        for (unsigned i = 0; i < UNITS_A_STEP; i++) {
            hand = hand + 1 < load(&region.units, RELAXED) ? hand + 1 : 1;
            if (region_holds(hand))
                purged += depot_purge_unit(hand, tick_oldest, &calls);
        }
        lock_release(&purge_lock, RANK_PURGE);
    }
    return purged;
}

/* Caches that ended threads left, and those of idle cores: all, or one and some a look. */
static size_t cool_caches(bool is_all)
{
    size_t cooled = 0;
    bool is_any = true;
    while (is_any && (is_all || cooled == 0)) {
        lock_acquire(&purge_lock, RANK_PURGE);
        is_any = thread_cool_one();
        lock_release(&purge_lock, RANK_PURGE);
        cooled += is_any;
    }
    lock_acquire(&purge_lock, RANK_PURGE);
    cooled += cores_cool(is_all);
    lock_release(&purge_lock, RANK_PURGE);
    return cooled;
}

/* Batches whose stack did not move since the last look go to the bitmaps. Returns whether no stack
 * did. */
static bool tidy_stacks(struct depot *depot, bool is_all, size_t *work)
{
    bool is_idle = true;
    for (unsigned shard = 0; shard < shard_count; shard++) {
        struct batch_stack *stack = depot_stack(depot, shard);
        if (stack == NULL)
            continue;
        if (!batch_is_idle(stack) && !is_all) {
            is_idle = false;
            continue;
        }
        lock_acquire(&purge_lock, RANK_PURGE);
        *work += batch_count(stack) > 0 ? depot_drain_stack(depot, stack, is_all) : 0;
        batch_settle(stack);
        lock_release(&purge_lock, RANK_PURGE);
    }
    return is_idle;
}

/* Idle batches go to the bitmaps, and the empty slabs of idle depots to the spans. */
static size_t tidy_depots(bool is_all)
{
    size_t work = 0;
    for (struct depot *depot = depot_newest(); depot != NULL; depot = depot->below) {
        if (!tidy_stacks(depot, is_all, &work))
            continue;
        lock_acquire(&purge_lock, RANK_PURGE);
        size_t retired = depot_retire_empty(depot, is_all);
        work += retired;
        while (retired == REFILL_MAX)
            work += retired = depot_retire_empty(depot, is_all);
        lock_release(&purge_lock, RANK_PURGE);
    }
    lock_acquire(&purge_lock, RANK_PURGE);
    work += shelf_drain(is_all);
    lock_release(&purge_lock, RANK_PURGE);
    return work;
}

static size_t count_purged(size_t bytes)
{
    fetch_add(&purged_bytes, bytes, RELAXED);
    return bytes;
}

size_t purge_all(void)
{
    cool_caches(true);
    tidy_depots(true);
    uint32_t tick = fetch_add(&depot_tick, 2, RELAXED) + 2; /* after tidying, which changes slabs */
    size_t units = load(&region.units, RELAXED);
    size_t purged = purge_slabs(units, tick, UINT32_MAX);
    purged += purge_spans(SIZE_MAX);
    return count_purged(purged);
}

void purge_collect(void)
{
    cool_caches(true);
    tidy_depots(true);
    count_purged(purge_spans(SIZE_MAX)); /* neighbours merge only when both are clean */
}

size_t purge_bytes(void)
{
    return load(&purged_bytes, RELAXED);
}

/* One look; whether anything was done. */
static bool look(void)
{
    size_t idle = span_idle_bytes();
    uint32_t tick = fetch_add(&depot_tick, 1, RELAXED);
    size_t work = count_purged(purge_spans(idle));
    if (load(&helper_stop, RELAXED) != 0)
        return true;
    work += cool_caches(false);
    work += tidy_depots(false);
    work += count_purged(purge_slabs(size_min(load(&region.units, RELAXED), UNITS_A_LOOK),
                                     tick - SLAB_LOOKS, CALLS_A_LOOK));
    return work > 0;
}

/* Looks until the hand has gone round all slabs, and IDLE_LOOKS_MAX times, without work or news. */
static void look_until_idle(void)
{
    size_t noted = load(&noted_bytes, RELAXED);
    size_t idle_looks = 0;
    span_idle_bytes();
    while (
        load(&helper_stop, ACQUIRE) == 0 &&
        (idle_looks < IDLE_LOOKS_MAX || idle_looks * UNITS_A_LOOK < load(&region.units, RELAXED))) {
        os_wait(&helper_stop, 0, size_max(load(&purge_settings.delay_ms, RELAXED), 1));
        bool has_worked = look();
        size_t now = load(&noted_bytes, RELAXED);
        idle_looks = has_worked || now != noted ? 0 : idle_looks + 1;
        noted = now;
    }
    store(&noted_before, noted, RELAXED);
}

/* A free that comes while the helper ends either sees that it is ENDING and starts another, or is
 * seen here. */
static void helper(void)
{
    size_t seen;
    do {
        store(&helper_state, HELPER_LOOKING, RELAXED);
        look_until_idle();
        seen = load(&noted_before, RELAXED);
        atomic_store(&helper_state, HELPER_ENDING);
    } while (atomic_load(&noted_bytes) - seen >= START_BYTES && load(&helper_stop, ACQUIRE) == 0);
}

static void helper_start(void)
{
    uint32_t expected = 0;
    if (load(&helper_stop, RELAXED) != 0 ||
        !compare_swap(&helper_alive, &expected, 1, ACQ_REL, RELAXED))
        return;
    store(&helper_state, HELPER_LOOKING, RELAXED);
    int error = os_counted(
        os_helper_start(helper, helper_stack, sizeof helper_stack, &helper_alive));
    if (error == 0)
        return;
    if (error == OS_FORBIDDEN)
        store(&purge_settings.is_idle_wanted, false, RELAXED);
    else /* tried again when as much has become free anew */
        store(&noted_before, load(&noted_bytes, RELAXED), RELAXED);
    store(&helper_alive, 0, RELEASE);
}

void purge_note(size_t bytes)
{
    size_t noted = atomic_fetch_add(&noted_bytes, bytes) + bytes;
    if (likely(noted - load(&noted_before, RELAXED) < START_BYTES ||
               !load(&purge_settings.is_idle_wanted, RELAXED)))
        return;
    if (load(&helper_alive, ACQUIRE) != 0 && atomic_load(&helper_state) == HELPER_ENDING)
        os_helper_join(&helper_alive, ENDING_MS_MAX);
    if (load(&helper_alive, RELAXED) == 0)
        helper_start();
}

void purge_helper_stop(void)
{
    enum { STOP_MS_MAX = 1000 };
    store(&helper_stop, 1, RELEASE);
    os_wake(&helper_stop, 1);
    os_helper_join(&helper_alive, STOP_MS_MAX);
    store(&helper_stop, 0, RELEASE);
}

void purge_fork_lock(void)
{
    lock_acquire(&purge_lock, RANK_PURGE);
}

void purge_fork_unlock(void)
{
    lock_release(&purge_lock, RANK_PURGE);
}

void purge_fork_reset(void)
{
    lock_reset(&purge_lock);
    store(&helper_alive, 0, RELAXED);
    store(&helper_stop, 0, RELAXED);
    store(&noted_before, load(&noted_bytes, RELAXED), RELAXED);
}
