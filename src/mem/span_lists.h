/*
 * span_lists.h: the lists of free spans, for span.c. All under the span lock.
 *
 * One list for each length up to EXACT_MAX units, then EIGHTHS lists for each doubling.
 */
#ifndef CALM_MEM_SPAN_LISTS_H
#define CALM_MEM_SPAN_LISTS_H

#include "base/bits.h"
#include "mem/span.h"

enum {
    EXACT_MAX = 32,
    EIGHTHS = 8,
    DOUBLINGS = 27,
    LIST_COUNT = EXACT_MAX + EIGHTHS * DOUBLINGS,
    LIST_WORDS = (LIST_COUNT + 63) / 64,
};

struct span_lists {
    uint64_t used[LIST_WORDS]; /* which lists are not empty */
    uint32_t heads[LIST_COUNT];
};

/* Lists of an owner's dirty, clean or unmapped spans; slack lists are shared by all owners. */
struct span_lists *span_lists_of(unsigned owner, unsigned state);

static inline unsigned span_list_of(size_t units)
{
    if (units <= EXACT_MAX)
        return (unsigned)units - 1;
    unsigned top = bit_highest(units);
    return EXACT_MAX + (top - 5) * EIGHTHS + (unsigned)(units >> (top - 3) & (EIGHTHS - 1));
}

/* Whether a free span of `state` and `owner` begins or ends at the unit. */
static inline bool span_is_alike(size_t unit, unsigned state, unsigned owner)
{
    return span_state_at(unit) == state && region.tags[unit].owner == owner;
}

static inline bool span_is_slack(size_t unit)
{
    return span_state_at(unit) >= SPAN_SLACK;
}

/* Records that the used units from `unit` on are one span. The holder of the units may call it
 * without the lock. */
static inline void span_tag_used(size_t unit, size_t units)
{
    region.tags[unit].units = (uint32_t)units;
}

/* Units in lists. Read without the lock; written under it. */
extern HIDDEN _Atomic size_t span_dirty_units, span_clean_units, span_unmapped_units,
    span_slack_units;

/* Makes an owner's lists and pending stacks before its first span. False: no memory. Not under the
 * lock. */
bool span_lists_make(unsigned owner);
bool span_lists_are_made(unsigned owner);

/* Pending spans of an owner that has lists (mem/pending.h). */
struct pending *span_lists_pending(unsigned owner);

/* span_lists_push(): lists unlisted units without merging. span_lists_insert(): lists used units,
 * merged with neighbours of the same state and owner, and ends slack behind them (S7). SPAN_SLACK
 * means the current window's. */
void span_lists_push(size_t unit, size_t units, unsigned state);
void span_lists_insert(size_t unit, size_t units, unsigned state);

/* The first unit of a free span that fits `units`, or 0. */
size_t span_lists_find(const struct span_lists *in, size_t units, size_t align_units);

/* Cuts [first, first + units) out of the free span at `unit` and marks it used. */
void span_lists_cut(size_t unit, size_t first, size_t units);

/* The highest list below `list` that is not empty, or LIST_COUNT. */
unsigned span_lists_below(const struct span_lists *in, unsigned list);

bool span_lists_are_empty(const struct span_lists *in);

/* Turn slack into clean spans, a bounded number per call. span_lists_end_slack(): of any age;
 * returns how many. span_lists_age_slack(): a window ends; slack that is unused since the window
 * before. */
size_t span_lists_end_slack(void);
void span_lists_age_slack(void);

/* The first owner from `owner` on, cyclically, that may have dirty spans. Pre: there is one. */
unsigned span_lists_dirty_owner(unsigned owner);
void span_lists_clear_owner(unsigned owner);

/* Rolls back the half-done change of a thread that ended while it held the lock. */
void span_lists_mend(void);

/* Checks invariants S1 to S7 (span.c); `owned_units` is indexed by owner. */
verdict span_lists_verify(const _Atomic uint32_t *owned_units);

#endif
