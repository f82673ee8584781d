/*
 * lifetime.h: which sites should share a cohort, from what was seen of their blocks' lifetimes.
 *
 * Arithmetic only: no clock, no heap, no state but what the caller passes. The same input gives the
 * same output on every machine. Design: docs/design/learned.md
 */
#ifndef CALM_SITE_LIFETIME_H
#define CALM_SITE_LIFETIME_H

#include "base/attr.h"

enum {
    LIFETIME_SITES_MAX = 1024,
    LIFETIME_COHORTS_MAX = 6,
    LIFETIME_LOG_BITS = 16,   /* behind the point, of a binary logarithm                    */
    LIFETIME_RATE = 256,      /* one block in a unit of the clock counts as this            */
    LIFETIME_SAMPLES_MIN = 4, /* followed blocks before a site is judged                    */
    LIFETIME_STREAK = 2,      /* decisions in a row that want a move before it is made      */
};

/* A site. Times are in units of the caller's clock. All 0 at first. */
struct lifetime_site {
    /* What was seen; the caller's. */
    uint64_t exposure_new; /* how long its followed blocks were live since the last decision */
    uint64_t deaths_new;   /* of them, since then                                            */
    uint64_t rate;         /* blocks asked for in a unit, in LIFETIME_RATE                   */
    uint64_t age;          /* of the site: no more blocks than in that time are live         */
    uint64_t classes;      /* a bit for each size class it asked for                         */
    uint32_t samples;      /* blocks that were ever followed                                 */
    uint32_t bytes;        /* of a block, on average                                         */

    /* Kept from one decision to the next; what is old counts less. Fixed point, 16 bits. */
    uint64_t exposure, deaths;
    uint64_t expected; /* deaths, had its blocks died as all sites' did at the time */
    uint8_t wanted;    /* cohort, by the last decision        */
    uint8_t streak;    /* of decisions that wanted it         */

    /* What was decided. */
    uint8_t cohort;       /* below LIFETIME_COHORTS_MAX                                    */
    int32_t log_relative; /* of its lifetime to all sites', in LIFETIME_LOG_BITS           */
    uint64_t lifetime;    /* the mean; with few deaths, at least about that               */
    uint64_t live_blocks; /* estimated                                                     */
};

/*
 * Adds what is new, and decides on every site with enough samples: sets `wanted`, and `cohort` once
 * a decision has wanted the same LIFETIME_STREAK times. Returns how many sites moved. Pre: count <=
 * LIFETIME_SITES_MAX; `order` has room for as many, and is the caller's as stacks may be small.
 * Cost: some 100 instructions a site and a binary logarithm of their number, thrice that for each
 * kind.
 */
size_t lifetime_decide(struct lifetime_site *sites, size_t count, uint16_t *order);

/* The binary logarithm of value >= 1, in LIFETIME_LOG_BITS; to within 0.01. */
int32_t lifetime_log2(uint64_t value);

#endif
