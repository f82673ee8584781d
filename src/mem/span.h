/*
 * span.h: runs of units: find, give back, grow in place, and purge.
 *
 * A free span is dirty (its pages may be resident and hold anything) or clean (they read as zero
 * and cost nothing). The two never merge; requests take dirty spans first, the smallest that fits.
 *
 * A span may have an owner: a number below SPAN_OWNER_LIMIT, or 0, which is nobody. Units that were
 * nobody's are an owner's from the first time that it takes them, and for ever: they never come to
 * another's span, nor merge with one.
 */
#ifndef CALM_MEM_SPAN_H
#define CALM_MEM_SPAN_H

#include "base/check.h"
#include "mem/region.h"

enum { SPAN_OWNER_LIMIT = 1024 };

/* SPAN_GONE: its addresses were given back to the kernel (mem/span_gone.c). SPAN_SLACK: clean, and
 * kept for a while for the block before it, should that grow; of one window of time, and of the
 * other. */
enum span_state {
    SPAN_USED,
    SPAN_DIRTY,
    SPAN_CLEAN,
    SPAN_GONE,
    SPAN_SLACK,
    SPAN_SLACK_OTHER,
};

/* A run of units; `unit` 0 means none. */
struct span {
    size_t unit;
    size_t units;
    bool is_zero; /* every byte reads as zero */
};

/* Asked once when there is no span of `units`: whether something may have come back, so that
 * another try is worth it; and told afterwards where that was in vain, too. */
extern bool (*span_on_shortage)(size_t units, bool was_in_vain);

/* Asked each time before the front moves for `units`: whether spans that somebody kept were
 * released, so that the lists are worth another look. It waits for nobody. */
extern bool (*span_on_growth)(size_t units);

/* Takes a span of exactly `units` whose first unit is a multiple of `align_units` (a power of two):
 * one that `owner` has, or else nobody's. Any thread. */
struct span span_acquire(size_t units, size_t align_units, unsigned owner);

/* The same for a block of `units_old` that is to move there as it grows: clean, and with half as
 * many units of slack behind, where that can be had, which only span_extend() of this span takes.
 * Slack that nothing was taken of for a second or two is as any free span from then on; sooner
 * where memory is short, or when the block before it is released. */
struct span span_acquire_growing(size_t units, size_t units_old, size_t align_units,
                                 unsigned owner);

/* The same where no memory is left for two: moves the pages of the used span at `from` to addresses
 * below the front that have none, and only what is more is asked of the kernel. The units at `from`
 * have no addresses then, and are to be released so. 0: it cannot be done; nothing changed. */
size_t span_carry(size_t from, size_t units_old, size_t units);
void span_release_gone(size_t unit, size_t units);

/* Takes the first units of a dirty span of `room` units or more, of which the others stay free, so
 * that a block may grow there. Returns the first, or 0: there is none. */
size_t span_acquire_in_room(size_t units, size_t room, unsigned owner);

/* Gives the addresses of clean spans back that are so long that the program may want them for its
 * own mappings. */
void span_give_up_long(void);

/* Gives addresses of free spans back where the kernel refuses more of them, so that it grants
 * `bytes` more, for whatever it was asked. False: there are none, or it would be in vain. */
bool span_make_room(size_t bytes);

/* Gives a span back, to its owner; its units must be UNIT_FREE in the map already. `is_zero` as for
 * struct span.
 */
void span_release(size_t unit, size_t units, bool is_zero);

/*
 * Makes the used span at `unit` longer by taking from the free span behind it, if that is long
 * enough and its owner's or nobody's, or from the front of the region if it ends there. Returns
 * whether it grew; what the added part holds is unspecified.
 */
bool span_extend(size_t unit, size_t units_old, size_t units_new);

/* Splits the tail off a used span and releases it. */
void span_shrink(size_t unit, size_t units_old, size_t units_new, bool is_zero);

/*
 * Purges dirty spans, a batch of the longest first, until about `bytes_wanted` are; no lock is held
 * during kernel calls. Spans are purged whole, or not where less than a half is wanted; one longer
 * than `bytes_max` is cut. A piece that the kernel refuses, as pages of it are locked, stays dirty.
 * Returns the bytes purged: 0 when nothing is dirty that is so short, or all was refused.
 */
size_t span_purge(size_t bytes_wanted, size_t bytes_max);

/* Dirty bytes now, and the least there were since the last call of span_idle_bytes, which nobody
 * needed: as many are not expected to be taken again, see span_regret_bytes(). */
size_t span_dirty_bytes(void);
size_t span_idle_bytes(void);

/* How many dirty bytes the program is expected to take again soon: a half of all that were
 * purged and then taken again, each time before span_end_window() was called. About. */
size_t span_regret_bytes(void);

/* A window of time is over: what was purged before is forgotten, and slack grows older. */
void span_end_window(void);

/* Bytes of spans that may be resident: all that are not clean, nor slack, nor above the front. In
 * constant time. */
size_t span_charged_bytes(void);

/* From now on no span is given that would bring the charged bytes above so many; 0: any number.
 * What is charged already stays. Any thread. */
void span_limit(size_t bytes);
bool span_is_limited(void);

/* Has `tell` called from now on each time before units are taken that may have to be charged, and
 * before the limit is asked; not under a lock. */
void span_tell(void (*tell)(size_t units));

/* Bytes of free units whose addresses were given back to the kernel. In constant time. */
size_t span_gone_bytes(void);

/* Bytes of address space that owners have, used or free. */
size_t span_owned_bytes(void);

/* Invariants S1 to S7; span.c lists them. Other threads must be quiet; lists that are held by one
 * that does not run are passed over. */
verdict span_verify(void);

/* For the fork hooks: waits a second at most; false: not taken, and not to be unlocked. */
bool span_fork_lock(void);
void span_fork_unlock(void);
void span_fork_reset(bool is_taken);

#endif
