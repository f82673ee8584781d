/*
 * site.h: which cohort a call site belongs to: one look-up in one table.
 *
 * A site is the address a request returns to. Its low twelve bits are the same in every run, since
 * address randomisation moves whole pages, and they index the table directly: no hash, no
 * multiplication, and two runs of a program place the same objects together. Several sites may
 * share an index; `hash` is content with that.
 *
 * While requests are sampled every site has one and the same cohort, of which no cache has a block:
 * so every request reaches the slow path, which asks for the site's own cohort.
 */
#ifndef CALM_SITE_SITE_H
#define CALM_SITE_SITE_H

#include "base/facts.h"
#include "core/heap.h"

enum { SITE_BITS = 12, SITES = 1 << SITE_BITS };

enum site_policy { SITE_OFF, SITE_HASH };

extern HIDDEN _Atomic uint16_t site_table[SITES];

/* Sets the policy and how many cohorts it may use, from 1 to COHORTS_MAX (core/sampled.h). Before
 * the heap is used. */
void site_start(enum site_policy policy, size_t cohorts);

extern const struct watch_fact site_facts[];

/* Cohorts in use now. */
size_t site_cohorts(void);

/* Sends every request to the slow path, or no longer. Any thread. */
void site_divert(bool is_diverted);

/* Writes the table anew. Any thread. */
void site_refresh(void);

/* The offset of the entries of a site's own cohort, diverted or not. */
uint32_t site_own_offset(const void *return_address);

ALWAYS_INLINE size_t site_index(const void *return_address)
{
    return (uintptr_t)return_address >> CODE_ALIGN_LOG2 & (SITES - 1);
}

/* The offset of a site's entries in a cache. Cost: one mask, one load. */
ALWAYS_INLINE uint32_t site_offset(const void *return_address)
{
    return load(&site_table[site_index(return_address)], RELAXED);
}

#endif
