/*
 * span.h: runs of units: take, release, grow in place, and purge.
 *
 * A free span is dirty (its pages may be resident and hold anything) or clean (they read as zero
 * and cost nothing). The two never merge. Requests take dirty spans first, about best fit.
 *
 * A span may have an owner: a number below SPAN_OWNER_LIMIT, or 0 for nobody. The owner that first
 * takes unowned units keeps them for ever: other owners never get them, and they never merge with
 * other owners' spans.
 */
#ifndef CALM_MEM_SPAN_H
#define CALM_MEM_SPAN_H

#include "base/check.h"
#include "mem/region.h"

enum { SPAN_OWNER_LIMIT = 1024 };

/* SPAN_UNMAPPED: its addresses are unmapped (mem/span_unmapped.c). SPAN_SLACK: clean, and reserved
 * for a while for growth of the block before it, in one time window; SPAN_SLACK_OTHER: in the other
 * window. */
enum span_state {
    SPAN_USED,
    SPAN_DIRTY,
    SPAN_CLEAN,
    SPAN_UNMAPPED,
    SPAN_SLACK,
    SPAN_SLACK_OTHER,
};

/* The state of the listed span that begins or ends at the unit; else SPAN_USED. Without the span
 * lock it may change meanwhile. */
static inline unsigned span_state_at(size_t unit)
{
    return unit < region_units() ? load(&region.tags[unit].state, RELAXED) : SPAN_USED;
}

static inline bool span_is_listed(size_t unit)
{
    return span_state_at(unit) != SPAN_USED;
}

/* A run of units; `unit` 0 means none. */
struct span {
    size_t unit;
    size_t units;
    bool is_zero; /* every byte reads as zero */
};

/* Called when no span of `units` is found, also by a retry. Returns whether memory may have become
 * free, so that a retry is worth it. After the outermost retry span_end_shortage() is called. */
extern bool (*span_on_shortage)(size_t units);
extern void (*span_end_shortage)(void);

/* Called each time before the front moves for `units`. Returns whether kept spans were released, so
 * that the lists are worth another search. Never waits. */
extern bool (*span_on_growth)(size_t units);

/* Takes a span of exactly `units` whose first unit is a multiple of `align_units` (a power of two):
 * the owner's, or else nobody's. Any thread. */
struct span span_acquire(size_t units, size_t align_units, unsigned owner);

/* Like span_acquire(), for a block of `units_old` that moves there as it grows. The span is clean
 * and, if possible, has half as many units of slack behind it, which only span_extend() of this
 * span takes. Slack that is not used for one to two seconds becomes an ordinary free span; sooner
 * when memory is short or when the block before it is released. */
struct span span_acquire_growing(size_t units, size_t units_old, size_t align_units,
                                 unsigned owner);

/* Like span_acquire_growing(), when memory does not suffice for two copies: moves the pages of the
 * used span at `from` to unmapped addresses below the front, and asks the kernel only for the
 * difference. The units at `from` are unmapped afterwards; release them with
 * span_release_unmapped(). Returns 0 on failure; nothing changed then. */
size_t span_carry(size_t from, size_t units_old, size_t units);
void span_release_unmapped(size_t unit, size_t units);

/* Takes the first `units` of a dirty span of at least `room` units. The rest stays free, so that a
 * block may grow there. Returns the first unit, or 0: no such span. */
size_t span_acquire_in_room(size_t units, size_t room, unsigned owner);

/* Unmaps clean spans of at least `least_bytes`: others may want the addresses, or the memory that
 * the kernel has promised for them. */
void span_unmap_long(size_t least_bytes);

/* span_note_ceiling: the kernel refuses the process so many bytes of address space, or more: from
 * now on span_unmap_long() unmaps shorter spans too, and span_unmap_if_limited() does the same;
 * before it does nothing. span_is_near_ceiling: whether more than half of it is mapped here. */
void span_note_ceiling(size_t bytes);
bool span_is_near_ceiling(void);
void span_unmap_if_limited(void);

/* Unmaps free spans when the kernel refuses `bytes` more address space, for any purpose. False:
 * there are none, or it would not help. */
bool span_make_room(size_t bytes);

/* Releases a span to its owner. Its units must already be free in the map. `is_zero` as in struct
 * span. */
void span_release(size_t unit, size_t units, bool is_zero);

/*
 * Extends the used span at `unit` into the free span behind it, if that is long enough and the
 * owner's or nobody's, or over the region's front if the span ends there. Returns whether it grew.
 * The content of the added part is unspecified.
 */
bool span_extend(size_t unit, size_t units_old, size_t units_new);

/* Splits off the tail of a used span and releases it. */
void span_shrink(size_t unit, size_t units_old, size_t units_new, bool is_zero);

/*
 * Purges dirty spans, a batch of the longest first, until about `bytes_wanted` are purged. Holds no
 * lock during kernel calls. Purges whole spans, and skips a span of which less than half is wanted;
 * cuts a span longer than `bytes_max`, or than that and the rest of a huge page. A piece that the
 * kernel refuses, because of locked pages, stays dirty. Returns the bytes purged; 0: no dirty span
 * is short enough, or the kernel refused all.
 */
size_t span_purge(size_t bytes_wanted, size_t bytes_max);

/* span_dirty_bytes: dirty bytes now. span_take_idle_bytes: the least since its last call, which
 * were not needed; also lowers span_refault_bytes, since these bytes did not refault. */
size_t span_dirty_bytes(void);
size_t span_take_idle_bytes(void);

/* Estimate of the dirty bytes that the program takes again soon: half of the refaults so far, less
 * idle bytes. A refault is a purge and a take in one window (span_end_window). */
size_t span_refault_bytes(void);

/* Ends a time window: forgets earlier purges, and ages slack. */
void span_end_window(void);

/* Bytes of spans that may be resident: all below the front except clean, unmapped and slack spans.
 * Constant time. */
size_t span_charged_bytes(void);

/* From now on, no span is handed out that raises the charged bytes above `bytes`; 0: no limit.
 * Bytes already charged stay. Any thread. */
void span_limit(size_t bytes);
bool span_is_limited(void);

/* Installs `tell`, which is called before units are taken that may be charged, and before the limit
 * is checked. Called without a lock. */
void span_on_charge(void (*tell)(size_t units));

/* Bytes of free units that are unmapped. Constant time. */
size_t span_unmapped_bytes(void);

/* Bytes of address space that owners have, used or free. */
size_t span_owned_bytes(void);

/* Checks invariants S1 to S7, which span.c lists. Other threads must be quiet. Skips the lists if a
 * thread that does not run holds their lock. */
verdict span_verify(void);

/* For the fork hooks. span_fork_lock() waits at most a second; false: not locked, so do not unlock.
 */
bool span_fork_lock(void);
void span_fork_unlock(void);
void span_fork_reset(bool is_taken);

#endif
