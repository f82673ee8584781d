/*
 * site.h: which cohort a call site belongs to: one look-up in one table.
 *
 * A site is the address a request returns to. Its low twelve bits are the same in every run, since
 * address randomisation moves whole pages, and they index the table directly: no hash, no
 * multiplication, and two runs of a program place the same objects together. Several sites may
 * share an index; `hash` is content with that.
 *
 * An index may be diverted: its entry then names a cohort of which no cache has a block. So each of
 * its requests reaches the second front end (site/second.h), which asks for the site's own cohort.
 * Or it is counted: its entry names a cohort of which a cache has only as many blocks as requests
 * are to pass before the next one is sampled (core/armed.h).
 */
#ifndef CALM_SITE_SITE_H
#define CALM_SITE_SITE_H

#include "base/facts.h"
#include "core/heap.h"
#include "site/intern.h"

enum { SITE_BITS = 12, SITES = 1 << SITE_BITS };

enum site_policy { SITE_OFF, SITE_HASH, SITE_INTERN, SITE_LEARNED, SITE_AUTO };

extern HIDDEN _Atomic uint16_t site_table[SITES];

/* Sets the policy and how many cohorts `hash` and `auto` may use, from 1 to COHORTS_MAX
 * (core/rows.h). Before the heap is used. */
void site_start(enum site_policy policy, size_t cohorts);

extern const struct watch_fact site_facts[];

/* Cohorts in use now. */
size_t site_cohorts(void);

/* Has every request counted, by the armed cohort of this turn where it can be and else by the
 * second front end; or no longer. Any thread. */
void site_count_all(bool is_counted, uint32_t turn);

/* Brings `count` entries up to date from `first` on, after what they are to say has changed, or
 * another process wrote to them (site/remote.h). Any thread. */
void site_refill(size_t first, size_t count);

ALWAYS_INLINE size_t site_index(const void *return_address)
{
    return (uintptr_t)return_address >> CODE_ALIGN_LOG2 & (SITES - 1);
}

/* The offset of a site's entries in a cache; below OWN_OFFSET_FIRST, of none that are its own
 * (core/rows.h). Cost: one mask, one load. */
ALWAYS_INLINE uint32_t site_offset(const void *return_address)
{
    return load(&site_table[site_index(return_address)], RELAXED);
}

/* The number of the cohort that an index has by the policy, diverted or not: from 0, below
 * COHORTS_MAX. `intern` has none by index. */
size_t site_cohort_of(size_t index);

/* The offset of the entries of a site's own cohort where the policy goes by index, diverted or not.
 */
uint32_t site_offset_by_index(const void *return_address);

extern HIDDEN bool site_is_interned; /* the policy is `intern`; set while the heap starts */

/* The offset of the entries of a site's own cohort by the policy, diverted or not. Starts the heap,
 * which says what the policy is; without memory it cannot be served anyway. */
ALWAYS_INLINE uint32_t site_own_offset(const void *return_address)
{
    if (!site_is_interned && !(heap_start() && site_is_interned))
        return site_offset_by_index(return_address);
    return intern_offset(return_address);
}

#endif
