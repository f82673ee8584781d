/*
 * site.h: maps a call site to a cohort with one look-up in one table.
 *
 * A site is the address that a request returns to. Address randomisation moves whole pages, so a
 * site's low twelve bits are the same in every run (of the twelve above code's alignment, ten on
 * AArch64 with pages of 4 KiB). They index the table directly, without a hash or a multiplication:
 * two runs of a program place the same objects together. Several sites may share an index; `hash`
 * accepts this.
 *
 * An index may be diverted: its entry names a cohort of which no cache has a block. So each of its
 * requests reaches the second front end (site/second.h), which allocates from the site's own
 * cohort. An index may be counted: its entry names a cohort of which a cache has only as many
 * blocks as requests may pass before the next sample (core/armed.h).
 */
#ifndef CALM_SITE_SITE_H
#define CALM_SITE_SITE_H

#include "base/facts.h"
#include "core/heap.h"
#include "site/intern.h"

enum { SITE_BITS = 12, SITES = 1 << SITE_BITS };

enum site_policy { SITE_OFF, SITE_HASH, SITE_INTERN, SITE_LEARNED, SITE_AUTO };

extern HIDDEN _Atomic uint16_t site_table[SITES];

/* Sets the policy and the number of cohorts that `hash` and `auto` may use, from 1 to COHORTS_MAX
 * (core/rows.h). Call before the heap is used. */
void site_start(enum site_policy policy, size_t cohorts);

extern const struct watch_fact site_facts[];

/* Number of cohorts in use. */
size_t site_cohorts(void);

/* Counts every request from now on, by the armed cohort of `turn` where possible and else in the
 * second front end; or stops counting. Any thread. */
void site_count_all(bool is_counted, uint32_t turn);

/* Brings `count` entries from `first` up to date, after their input changed or another process
 * wrote to them (site/remote.h). Any thread. */
void site_refill(size_t first, size_t count);

ALWAYS_INLINE size_t site_index(const void *return_address)
{
    return (uintptr_t)return_address >> CODE_ALIGN_LOG2 & (SITES - 1);
}

/* Offset of a site's entries in a cache. Below OWN_OFFSET_FIRST the entries are of no site's own
 * cohort (core/rows.h). Cost: one mask, one load. */
ALWAYS_INLINE uint32_t site_offset(const void *return_address)
{
    return load(&site_table[site_index(return_address)], RELAXED);
}

/* Cohort that the policy gives an index, diverted or not: from 0, below COHORTS_MAX. `intern` gives
 * none by index. */
size_t site_cohort_of(size_t index);

/* Offset of the entries of a site's own cohort, for policies that go by index, diverted or not.
 * `auto` gives the index a cohort here. */
uint32_t site_offset_by_index(const void *return_address);

extern HIDDEN bool site_is_interned; /* the policy is `intern`; set while the heap starts */

/* Offset of the entries of a site's own cohort, diverted or not. Starts the heap, which sets the
 * policy; without memory for the heap the request fails anyway. */
ALWAYS_INLINE uint32_t site_own_offset(const void *return_address)
{
    if (!site_is_interned && !(heap_start() && site_is_interned))
        return site_offset_by_index(return_address);
    return intern_offset(return_address);
}

#endif
