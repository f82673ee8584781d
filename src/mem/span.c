/*
 * span.c: free runs of units, in segregated lists with boundary tags.
 *
 * Lists: one for each length up to EXACT_MAX units, then EIGHTHS lists for each doubling, for dirty
 * and for clean spans; a bitmap finds the first list that fits (the two-level segregated fit of
 * Masmano et al., 2004). In a list of mixed lengths the first few spans are tried, then the next
 * list up. Each owner has separate lists; the slack of all owners has two sets.
 *
 * A thread that does not get the lock in a bounded number of attempts, because its holder does not
 * run, takes pending spans (mem/pending.h) or moves the front, and makes the spans it releases
 * pending. The next holder merges them. A thread that inherits the lock from a thread that ended
 * rolls back the unfinished change (mem/undo.h).
 *
 * Owner: any thread, under span_lock (RANK_SPAN). No system call is made while it is held.
 * S1: a free span carries its length and state at both ends.
 * S2: no two neighbours are free in the same state.
 * S3: span_dirty_units == sum of dirty spans.
 * S4: every free span is in the list of its length.
 * S5: the units of a span have one owner, and a free span is in that owner's lists.
 * S6: an owner has as many units as it took from nobody.
 * S7: slack lies behind a used span.
 * span_verify() checks them. Design: docs/design/spans.md
 */
#include "mem/span.h"

#include "base/bits.h"
#include "mem/pending.h"
#include "mem/region.h"
#include "mem/refault.h"
#include "mem/span_lists.h"
#include "mem/span_parts.h"
#include "os/lock.h"
#include "os/os.h"

enum {
    MERGE_MAX = 16,       /* pending spans each time the lock is taken */
    MERGE_TURNS = 256,    /* before the front moves */
    SHORTAGE_TURNS = 8,   /* while other threads take what a turn brings together */
    SLACK_SHARE = 2,      /* of a growing block: moves each byte at most three times */
    REFAULTS_TO_KEEP = 2, /* refaults of a unit before it stays: a program that repeats its work
                           * and then sleeps keeps a half */
};

static struct lock span_lock;
static _Atomic uint32_t growing;             /* threads that ask the kernel for memory */
static _Atomic uint32_t grown;               /* times that it gave some */
static _Thread_local uint8_t shortage_depth; /* a retry may be short of memory for its tables */
static _Atomic uint32_t owned_units[SPAN_OWNER_LIMIT]; /* taken from nobody so far */
bool (*span_on_shortage)(size_t units);
void (*span_end_shortage)(void);
bool (*span_on_growth)(size_t units);
static size_t dirty_units_least;    /* since the last span_take_idle_bytes() */
struct refault_meter span_refaults; /* in units; span_end_window() ends its window */

/* Call at the end of each operation that may take dirty units; earlier, a span that is being cut is
 * in no list. */
void span_note_least(void)
{
    dirty_units_least = size_min(dirty_units_least, load(&span_dirty_units, RELAXED));
}

/* Takes from the lists of `from`, dirty spans first. */
static struct span take_from(unsigned from, size_t units, size_t align_units)
{
    for (unsigned state = SPAN_DIRTY; state <= SPAN_CLEAN; state++) {
        size_t unit = span_lists_find(span_lists_of(from, state), units, align_units);
        if (unit != 0) {
            size_t first = region_aligned(unit, align_units);
            span_lists_cut(unit, first, units);
            span_note_least();
            if (state == SPAN_CLEAN)
                refault_note_taken(&span_refaults, units);
            return (struct span){first, units, state == SPAN_CLEAN};
        }
    }
    return (struct span){0, 0, false};
}

/* Makes units that were nobody's `owner`'s. The ends are tagged as used, so no other thread reads
 * the owner. */
void span_own(size_t unit, size_t units, unsigned owner)
{
    if (region.tags[unit].owner == owner)
        return;
    fetch_add(&owned_units[owner], (uint32_t)units, RELAXED);
    for (size_t i = unit; i < unit + units; i++)
        region.tags[i].owner = (uint16_t)owner;
}

/* Merges a few of the spans that became pending while the lock was held. Under the lock. Returns
 * how many. */
static size_t merge_pending(void)
{
    size_t merged = 0;
    for (unsigned state = SPAN_DIRTY; state <= SPAN_CLEAN; state++) {
        for (unsigned i = 0; i < MERGE_MAX && unlikely(pending_units(state) > 0); i++) {
            struct span span = pending_pop(state);
            if (span.unit == 0)
                break;
            span_lists_insert(span.unit, span.units, state);
            merged++;
        }
    }
    return merged;
}

static bool has_pending(void)
{
    return pending_units(SPAN_DIRTY) + pending_units(SPAN_CLEAN) > 0;
}

/* Loses at most the spans that the ended holder had taken out. */
static void mend_if_inherited(void)
{
    if (unlikely(lock_was_inherited(&span_lock)))
        span_lists_mend();
}

/* Waits for a holder that runs, and only once for a holder that does not. */
static bool wait_lock(enum lock_patience patience)
{
    if (!lock_try_patiently(&span_lock, RANK_SPAN, patience))
        return false;
    mend_if_inherited();
    merge_pending();
    return true;
}

bool span_try_lock(void)
{
    if (!lock_try_briefly(&span_lock, RANK_SPAN))
        return shortage_depth > 0 && wait_lock(PATIENCE_LONG);
    mend_if_inherited();
    if (unlikely(has_pending()))
        merge_pending();
    return true;
}

void span_unlock(void)
{
    lock_release(&span_lock, RANK_SPAN);
}

/* Takes from the lists of `owner`, or else nobody's. Called under the lock, which it releases. */
static struct span take_locked(size_t units, size_t align_units, unsigned owner)
{
    struct span span = take_from(owner, units, align_units);
    bool is_nobodys = span.unit == 0 && owner != 0;
    if (is_nobodys)
        span = take_from(0, units, align_units);
    span_unlock();
    if (is_nobodys && span.unit != 0)
        span_own(span.unit, units, owner);
    return span;
}

/* Joins neighbours before the front moves. */
static struct span take_pending_of(size_t units, size_t align_units, unsigned owner)
{
    struct span span = pending_take(units, align_units, owner);
    if (span.unit != 0)
        return span;
    pending_join(owner);
    return pending_take(units, align_units, owner);
}

static struct span take_pending(size_t units, size_t align_units, unsigned owner)
{
    struct span span = take_pending_of(units, align_units, owner);
    if (span.unit == 0 && owner != 0)
        span = take_pending_of(units, align_units, 0);
    if (span.unit != 0) {
        span_own(span.unit, span.units, owner);
        span_tag_used(span.unit, units);
    }
    return span;
}

/* The last attempt: waits long for the lock, merges all pending spans and ends all slack. If the
 * holder does not run, only new pending spans are left to try. */
static struct span take_or_wait(size_t units, size_t align_units, unsigned owner)
{
    struct span span;
    size_t merged;
    do {
        if (!span_try_lock() && !wait_lock(PATIENCE_LONG))
            return take_pending(units, align_units, owner);
        merged = merge_pending() + span_lists_end_slack();
        span = take_locked(units, align_units, owner);
    } while (span.unit == 0 && merged > 0);
    return span;
}

/* Retries after merging pending spans, then after other parts release spans they kept. */
static struct span take_merged(size_t units, size_t align_units, unsigned owner)
{
    struct span span = {0, 0, false};
    for (unsigned turn = 0; turn < MERGE_TURNS && span.unit == 0; turn++) {
        if (!has_pending() || !span_try_lock())
            break;
        span = take_locked(units, align_units, owner);
    }
    if (span.unit == 0 && span_on_growth != NULL && span_on_growth(units) && span_try_lock())
        span = take_locked(units, align_units, owner);
    return span;
}

void span_put_all(const struct span *spans, size_t count)
{
    bool is_locked = span_try_lock();
    for (size_t i = 0; i < count; i++) {
        unsigned state = spans[i].is_zero ? SPAN_CLEAN : SPAN_DIRTY;
        if (spans[i].units == 0)
            continue;
        if (is_locked)
            span_lists_insert(spans[i].unit, spans[i].units, state);
        else
            pending_put(spans[i].unit, spans[i].units, state);
    }
    if (is_locked)
        span_unlock();
}

/* Releases fresh units around the part that is kept. */
static void release_around(size_t first, size_t count, size_t kept, size_t units)
{
    struct span spans[2];
    size_t parts = 0, behind = kept + units;
    if (kept > first)
        spans[parts++] = (struct span){first, kept - first, true};
    if (behind < first + count)
        spans[parts++] = (struct span){behind, first + count - behind, true};
    if (parts > 0)
        span_put_all(spans, parts);
}

void span_keep(size_t first, size_t count, size_t kept, size_t units, unsigned owner)
{
    span_tag_used(kept, units);
    span_own(kept, units, owner);
    release_around(first, count, kept, units);
}

/* Units that alignment may skip: the front is at a chunk's start. */
static size_t skew_of_front(size_t align_units)
{
    return align_units - size_min(align_units, CHUNK_UNITS);
}

/* What is on its way from the kernel to a thread is missed by a thread that finds no memory. */
static void begin_growth(void)
{
    fetch_add(&growing, 1, RELAXED);
}

static bool end_growth(bool has_grown)
{
    if (has_grown)
        fetch_add(&grown, 1, RELAXED);
    fetch_sub(&growing, 1, RELEASE);
    return has_grown;
}

static bool grow(size_t units, bool is_more_wanted, size_t *first, size_t *count)
{
    begin_growth();
    if (!end_growth(region_grow(units, is_more_wanted && !span_is_limited(), first, count) == 0))
        return false;
    refault_note_taken(&span_refaults, units);
    return true;
}

static struct span take_unmapped(size_t units, size_t align_units, unsigned owner)
{
    begin_growth();
    struct span span = span_take_unmapped(units, align_units, owner);
    end_growth(span.unit != 0);
    return span;
}

/* Moves the front and keeps `units` for an owner. Returns the first, or 0. */
static size_t cut_front(size_t units, size_t align_units, bool is_more_wanted, unsigned owner)
{
    size_t first, count;
    if (!grow(units + skew_of_front(align_units), is_more_wanted, &first, &count))
        return 0;
    size_t kept = region_aligned(first, align_units);
    span_keep(first, count, kept, units, owner);
    return kept;
}

/* Takes from the lists or from the front. While the lock is held, perhaps by a thread that does not
 * run, takes pending spans instead; waits long only if the front cannot move either. */
static struct span take_or_grow(size_t units, size_t align_units, unsigned owner)
{
    bool is_locked = span_try_lock();
    struct span span = is_locked ? take_locked(units, align_units, owner)
                                 : take_pending(units, align_units, owner);
    if (span.unit == 0 && !is_locked && (is_locked = wait_lock(PATIENCE_SHORT)))
        span = take_locked(units, align_units, owner);
    if (span.unit == 0)
        span = take_merged(units, align_units, owner);
    if (span.unit == 0)
        span = take_unmapped(units, align_units, owner);
    if (span.unit != 0)
        return span;
    /* A thread that did not search the lists takes only what it needs: many may come at once. */
    size_t first = cut_front(units, align_units, is_locked, owner);
    return first != 0 ? (struct span){first, units, true} : take_or_wait(units, align_units, owner);
}

/* Cuts `units` for an owner out of a free span of at least `room`. Returns the first, or 0: also if
 * the lock is held, for long where `is_patient`. */
static size_t cut(enum span_state state, size_t units, size_t room, size_t align_units,
                  unsigned owner, bool is_patient)
{
    if (!span_lists_make(owner) || (!span_try_lock() && !(is_patient && wait_lock(PATIENCE_LONG))))
        return 0;
    size_t unit = span_lists_find(span_lists_of(owner, state), room, align_units);
    if (unit == 0)
        unit = span_lists_find(span_lists_of(0, state), room, align_units);
    size_t first = unit == 0 ? 0 : region_aligned(unit, align_units);
    if (unit != 0)
        span_lists_cut(unit, first, units);
    span_note_least();
    span_unlock();
    if (first != 0)
        span_own(first, units, owner);
    return first;
}

/* At the limit: takes dirty spans only, which are charged already. */
static struct span take_dirty(size_t units, size_t align_units, unsigned owner)
{
    return (struct span){cut(SPAN_DIRTY, units, units, align_units, owner, true), units, false};
}

static struct span take(size_t units, size_t align_units, unsigned owner)
{
    if (unlikely(!span_lists_make(owner)))
        return (struct span){0, units, false};
    if (!span_reserve_charge(units))
        return take_dirty(units, align_units, owner);
    struct span span = take_or_grow(units, align_units, owner);
    span_end_charge(units);
    refault_settle(&span_refaults);
    return span;
}

/* From here to end_shortage() the thread waits for the lock: what it has no access to, it would
 * take for used. */
static bool begin_shortage(size_t units)
{
    shortage_depth++;
    if (span_on_shortage != NULL && span_on_shortage(units))
        return true;
    shortage_depth--;
    return false;
}

static void end_shortage(void)
{
    if (--shortage_depth == 0)
        span_end_shortage();
}

/* Tries again while other threads take what a turn of collecting brings together. */
static struct span take_in_shortage(size_t units, size_t align_units, unsigned owner)
{
    struct span span = {0, units, false};
    size_t enough = units + align_units - 1;
    bool is_again = true;
    for (unsigned turn = 0; is_again && turn < SHORTAGE_TURNS && begin_shortage(enough); turn++) {
        uint32_t before = load(&grown, RELAXED);
        span = take(units, align_units, owner);
        if (span.unit == 0 && !span_is_limited() && span_unmap(enough) > 0)
            span = take(units, align_units, owner);
        is_again = span.unit == 0 &&
                   (load(&growing, ACQUIRE) > 0 || load(&grown, RELAXED) != before);
        end_shortage();
    }
    return span;
}

struct span span_acquire(size_t units, size_t align_units, unsigned owner)
{
    struct span span = take(units, align_units, owner);
    if (span.unit == 0)
        span = take_in_shortage(units, align_units, owner);
    return span;
}

bool span_make_room(size_t bytes)
{
    size_t units = (bytes >> UNIT_SHIFT) + 1;
    if (!begin_shortage(units))
        return false;
    bool is_made = span_unmap(units) > 0;
    end_shortage();
    return is_made;
}

size_t span_acquire_in_room(size_t units, size_t room, unsigned owner)
{
    return cut(SPAN_DIRTY, units, room, 1, owner, false);
}

struct span span_acquire_growing(size_t units, size_t units_old, size_t align_units, unsigned owner)
{
    size_t slack = align_down(units / SLACK_SHARE, region_granule_units()), first = 0;
    size_t more = units - units_old; /* the moved units are charged already */
    if (!span_lists_make(owner))
        return (struct span){0, units, false};
    bool is_charged = span_reserve_charge(more);
    if (!is_charged && begin_shortage(more)) {
        is_charged = span_reserve_charge(more);
        end_shortage(); /* span_acquire() may still find the whole length */
    }
    if (is_charged) {
        first = cut(SPAN_CLEAN, units + slack, units + slack, align_units, owner, false);
        if (first == 0)
            first = take_unmapped(units + slack, align_units, owner).unit;
        if (first == 0)
            first = cut_front(units + slack, align_units, true, owner);
        span_end_charge(more);
    }
    if (first == 0)
        return span_acquire(units, align_units, owner);
    span_tag_used(first, units);
    if (slack > 0 && span_try_lock()) {
        span_lists_push(first + units, slack, SPAN_SLACK);
        span_unlock();
    } else if (slack > 0) {
        pending_put(first + units, slack, SPAN_CLEAN);
    }
    return (struct span){first, units, true};
}

void span_release(size_t unit, size_t units, bool is_zero)
{
    ASSERT(!span_is_listed(unit));
    if (!span_try_lock()) {
        pending_put(unit, units, is_zero ? SPAN_CLEAN : SPAN_DIRTY);
        return;
    }
    span_lists_insert(unit, units, is_zero ? SPAN_CLEAN : SPAN_DIRTY);
    span_unlock();
}

/* The span ends at the front: grows the region, unless another thread does so first. */
static bool extend_front(size_t unit, size_t units_old, size_t units_new)
{
    size_t first, count, more = units_new - units_old;
    unsigned owner = region.tags[unit].owner;
    if (!grow(more, true, &first, &count) &&
        !(span_make_room(more << UNIT_SHIFT) && grow(more, true, &first, &count)))
        return false;
    bool is_ours = first == unit + units_old;
    if (is_ours) {
        span_own(first, more, owner);
        span_tag_used(unit, units_new);
    }
    release_around(first, count, first, is_ours ? more : 0);
    return is_ours;
}

/* Takes from the free span behind. */
static bool extend_inside(size_t unit, size_t units_old, size_t units_new)
{
    size_t behind = unit + units_old, more = units_new - units_old;
    unsigned owner = region.tags[unit].owner;
    if (!span_try_lock())
        return false;
    const struct span_tag *tag = &region.tags[behind];
    unsigned state = span_state_at(behind);
    bool is_gone = false, is_free = state != SPAN_USED;
    bool is_nobodys = is_free && tag->owner != owner && tag->owner == 0;
    bool is_room = is_free && (is_nobodys || tag->owner == owner) && tag->units >= more;
    if (is_room) {
        if (state == SPAN_CLEAN || state == SPAN_UNMAPPED)
            refault_note_taken(&span_refaults, more);
        is_gone = state == SPAN_UNMAPPED;
        span_lists_cut(behind, behind, more);
        span_note_least();
    }
    span_unlock();
    if (unlikely(is_gone) && !span_map_again(behind, more))
        return false;
    if (is_room)
        span_tag_used(unit, units_new);
    if (is_room && is_nobodys)
        span_own(behind, more, owner);
    return is_room;
}

bool span_extend(size_t unit, size_t units_old, size_t units_new)
{
    size_t more = units_new - units_old;
    if (!span_reserve_charge(more))
        return false;
    bool is_extended = unit + units_old == region_units()
                           ? extend_front(unit, units_old, units_new)
                           : extend_inside(unit, units_old, units_new);
    span_end_charge(more);
    refault_settle(&span_refaults);
    return is_extended;
}

void span_shrink(size_t unit, size_t units_old, size_t units_new, bool is_zero)
{
    struct span tail = {unit + units_new, units_old - units_new, is_zero};
    span_tag_used(unit, units_new);
    span_put_all(&tail, 1);
}

size_t span_dirty_bytes(void)
{
    return (load(&span_dirty_units, RELAXED) + pending_units(SPAN_DIRTY)) << UNIT_SHIFT;
}

/* If the lock is held, returns the pending dirty bytes. */
size_t span_take_idle_bytes(void)
{
    if (!span_try_lock())
        return pending_units(SPAN_DIRTY) << UNIT_SHIFT;
    size_t units = dirty_units_least;
    dirty_units_least = load(&span_dirty_units, RELAXED);
    size_t sum = load(&span_refaults.sum, RELAXED);
    store(&span_refaults.sum, sum - size_min(sum, units * REFAULTS_TO_KEEP), RELAXED);
    span_unlock();
    return units << UNIT_SHIFT;
}

size_t span_refault_bytes(void)
{
    return load(&span_refaults.sum, RELAXED) / REFAULTS_TO_KEEP << UNIT_SHIFT;
}

void span_end_window(void)
{
    refault_end_window(&span_refaults);
    if (load(&span_slack_units, RELAXED) == 0 || !span_try_lock())
        return;
    span_lists_age_slack();
    span_unlock();
}

size_t span_owned_bytes(void)
{
    size_t units = 0;
    for (unsigned owner = 1; owner < SPAN_OWNER_LIMIT; owner++)
        units += load(&owned_units[owner], RELAXED);
    return units << UNIT_SHIFT;
}

verdict span_verify(void)
{
    if (!lock_acquire_or_fail(&span_lock, RANK_SPAN))
        return NULL;
    mend_if_inherited();
    while (merge_pending() > 0)
        continue;
    verdict found = span_lists_verify(owned_units);
    span_unlock();
    return found;
}

bool span_fork_lock(void)
{
    if (lock_is_own(&span_lock) || !lock_acquire_or_fail(&span_lock, RANK_SPAN))
        return false;
    mend_if_inherited();
    return true;
}

void span_fork_unlock(void)
{
    span_unlock();
}

/* Lists that another thread of the parent was changing may be half changed, and the copied undo log
 * may be of another moment. They stay unused, and no thread waits for them. */
void span_fork_reset(bool is_taken)
{
    store(&growing, 0, RELAXED);
    uint32_t holder = lock_holder(&span_lock);
    if (is_taken || holder == LOCK_FREE || holder == lock_id_before)
        lock_orphan(&span_lock, is_taken);
    else
        lock_retire(&span_lock);
}
