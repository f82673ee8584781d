/*
 * purge.c: when idle pages go back, and who does it.
 *
 * A helper thread starts when a few MiB have become free, and looks every delay_ms: dirty spans
 * that were not needed at any time since the last look (the least number of dirty bytes there was)
 * are purged, batches that nobody touched are emptied into the bitmaps, wholly free slabs are
 * retired, and whole free pages of slabs that did not change are dropped. When a few looks in a row
 * find nothing, it ends. A program that never frees much never has one.
 *
 * Owner: the helper, or a thread that trims. They take turns, a step each, by purge_lock
 * (RANK_PURGE), so that a fork comes between two steps. Where whoever has the turn does not run,
 * the others go on out of turn; only slabs' pages need it. Design: docs/design/purge.md
 */
#include "core/purge.h"

#include "base/bits.h"
#include "core/cores.h"
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
static _Atomic uint32_t forks; /* under way: a child gets no helper before it is whole */
static size_t hand; /* unit where the next look at slabs begins; by whoever has the turn */

/* The helper's words, and above them its stack. Zeros in a child that has its own copy, whichever
 * way it was made: it has no helper. docs/protocols/helper.md */
static struct {
    _Alignas(64 * 1024) _Atomic uint32_t alive;
    _Atomic uint32_t stop;
    _Atomic uint32_t state;
    _Alignas(64 * 1024) char stack[STACK_BYTES];
} of_helper;

/* Whether it was had. */
static bool turn_begin(void)
{
    return lock_acquire_or_fail(&purge_lock, RANK_PURGE);
}

static void turn_end(bool has_turn)
{
    if (has_turn)
        lock_release(&purge_lock, RANK_PURGE);
}

static size_t purge_spans(size_t bytes)
{
    size_t purged = 0;
    for (size_t done = 1; done > 0 && purged < bytes; purged += done) {
        bool has_turn = turn_begin();
        done = span_purge(bytes - purged);
        turn_end(has_turn);
    }
    return purged;
}

/* Looks at up to `units_max` slabs from the hand on. In turn: what is claimed of a slab is one
 * purger's. */
static size_t purge_slabs(size_t units_max, uint32_t tick_oldest, unsigned calls_max)
{
    size_t purged = 0;
    unsigned calls = 0;
    for (size_t done = 0; done < units_max && calls < calls_max; done += UNITS_A_STEP) {
        if (!turn_begin())
            break;
        for (unsigned i = 0; i < UNITS_A_STEP; i++) {
            hand = hand + 1 < load(&region.units, RELAXED) ? hand + 1 : 1;
            if (region_holds(hand))
                purged += depot_purge_unit(hand, tick_oldest, &calls);
        }
        turn_end(true);
    }
    return purged;
}

/* Caches that ended threads left, and those of idle cores: all, or one and some a look. */
static size_t cool_caches(bool is_all)
{
    size_t cooled = 0;
    bool is_any = true;
    while (is_any && (is_all || cooled == 0)) {
        bool has_turn = turn_begin();
        is_any = thread_cool_one();
        turn_end(has_turn);
        cooled += is_any;
    }
    bool has_turn = turn_begin();
    cooled += cores_cool(is_all);
    turn_end(has_turn);
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
        bool has_turn = turn_begin();
        *work += batch_count(stack) > 0 ? depot_drain_stack(depot, stack, is_all) : 0;
        batch_settle(stack);
        turn_end(has_turn);
    }
    return is_idle;
}

/* Strays are not to stay, however busy the stacks are. */
static size_t tidy_strays(struct depot *depot, bool is_all)
{
    size_t moved = 0;
    for (size_t strays = 1; strays > 0; moved += strays) {
        bool has_turn = turn_begin();
        strays = depot_drain_strays(depot, is_all);
        turn_end(has_turn);
    }
    return moved;
}

/* Idle batches go to the bitmaps, and the empty slabs of idle depots to the spans. */
static size_t tidy_depots(bool is_all)
{
    size_t work = 0;
    for (struct depot *depot = depot_newest(); depot != NULL; depot = depot->below) {
        if (stray_are_any(&depot->strays))
            work += tidy_strays(depot, is_all);
        if (!tidy_stacks(depot, is_all, &work))
            continue;
        bool has_turn = turn_begin();
        size_t retired = depot_retire_empty(depot, is_all);
        work += retired;
        while (retired == REFILL_MAX)
            work += retired = depot_retire_empty(depot, is_all);
        turn_end(has_turn);
    }
    bool has_turn = turn_begin();
    work += shelf_drain(is_all);
    turn_end(has_turn);
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

size_t purge_noted(void)
{
    return load(&noted_bytes, RELAXED);
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
    if (load(&of_helper.stop, RELAXED) != 0)
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
        load(&of_helper.stop, ACQUIRE) == 0 &&
        (idle_looks < IDLE_LOOKS_MAX || idle_looks * UNITS_A_LOOK < load(&region.units, RELAXED))) {
        os_wait(&of_helper.stop, 0, size_max(load(&purge_settings.delay_ms, RELAXED), 1));
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
        store(&of_helper.state, HELPER_LOOKING, RELAXED);
        look_until_idle();
        seen = load(&noted_before, RELAXED);
        atomic_store(&of_helper.state, HELPER_ENDING);
    } while (atomic_load(&noted_bytes) - seen >= START_BYTES &&
             load(&of_helper.stop, ACQUIRE) == 0);
}

/* Not for a child of vfork: its threads end with it, whatever lock of the parent's they hold. */
static void helper_start(void)
{
    uint32_t expected = 0;
    if (area_is_barred)
        return;
    os_forget_in_children(&of_helper, sizeof of_helper);
    if (load(&of_helper.stop, RELAXED) != 0 || load(&forks, RELAXED) != 0 ||
        !compare_swap(&of_helper.alive, &expected, 1, ACQ_REL, RELAXED))
        return;
    store(&of_helper.state, HELPER_LOOKING, RELAXED);
    int error = os_counted(
        os_helper_start(helper, of_helper.stack, sizeof of_helper.stack, &of_helper.alive));
    if (error == 0)
        return;
    if (error == OS_FORBIDDEN)
        store(&purge_settings.is_idle_wanted, false, RELAXED);
    else /* tried again when as much has become free anew */
        store(&noted_before, load(&noted_bytes, RELAXED), RELAXED);
    store(&of_helper.alive, 0, RELEASE);
}

void purge_note(size_t bytes)
{
    size_t noted = atomic_fetch_add(&noted_bytes, bytes) + bytes;
    if (likely(noted - load(&noted_before, RELAXED) < START_BYTES ||
               !load(&purge_settings.is_idle_wanted, RELAXED)))
        return;
    if (load(&of_helper.alive, ACQUIRE) != 0 && atomic_load(&of_helper.state) == HELPER_ENDING)
        os_helper_join(&of_helper.alive, ENDING_MS_MAX);
    if (load(&of_helper.alive, RELAXED) == 0)
        helper_start();
}

void purge_helper_stop(void)
{
    enum { STOP_MS_MAX = 1000 };
    store(&of_helper.stop, 1, RELEASE);
    os_wake(&of_helper.stop, 1);
    os_helper_join(&of_helper.alive, STOP_MS_MAX);
    store(&of_helper.stop, 0, RELEASE);
}

void purge_fork_begin(void)
{
    fetch_add(&forks, 1, RELAXED);
}

void purge_fork_end(void)
{
    fetch_sub(&forks, 1, RELAXED);
}

bool purge_fork_lock(void)
{
    return turn_begin();
}

void purge_fork_unlock(void)
{
    turn_end(true);
}

void purge_fork_reset(void)
{
    lock_reset(&purge_lock);
    store(&forks, 0, RELAXED);
    store(&of_helper.alive, 0, RELAXED);
    store(&of_helper.stop, 0, RELAXED);
    store(&noted_before, load(&noted_bytes, RELAXED), RELAXED);
}
