/*
 * lifetime.h: decides which sites share a cohort, from the observed lifetimes of their blocks.
 *
 * Arithmetic only: no clock, no heap, no state but the caller's. Equal input gives equal output on
 * every machine. Design: docs/design/learned.md
 */
#ifndef CALM_SITE_LIFETIME_H
#define CALM_SITE_LIFETIME_H

#include "base/attr.h"

enum {
    LIFETIME_SITES_MAX = 1024,
    LIFETIME_COHORTS_MAX = 6,
    LIFETIME_LOG_BITS = 16,   /* fraction bits of a binary logarithm                        */
    LIFETIME_RATE = 256,      /* a rate of one block in a unit of the clock                 */
    LIFETIME_SAMPLES_MIN = 4, /* followed blocks before a decision on a site                */
    LIFETIME_STREAK = 2,      /* decisions in a row that want a move before it is made      */
};

/* A site. Times are in units of the caller's clock. All 0 at first. */
struct lifetime_site {
    /* Input, from the caller. */
    uint64_t exposure_new; /* summed time that followed blocks were live since the last decision */
    uint64_t deaths_new;   /* followed blocks freed since the last decision                  */
    uint64_t rate;         /* blocks asked for in a unit of the clock, in LIFETIME_RATE      */
    uint64_t age;          /* of the site; bounds the blocks that can be live                */
    uint64_t classes;      /* a bit for each size class it asked for                         */
    uint32_t samples;      /* blocks ever followed                                           */
    uint32_t bytes;        /* mean size of a block                                           */

    /* Kept from one decision to the next; old values fade. Fixed point, 16 bits. */
    uint64_t exposure, deaths;
    uint64_t expected; /* deaths, if its blocks had died as all sites' did */
    uint8_t wanted;    /* cohort, by the last decision        */
    uint8_t streak;    /* decisions that wanted it            */

    /* Output. */
    uint8_t cohort;       /* below LIFETIME_COHORTS_MAX                                    */
    int32_t log_relative; /* log2 of its lifetime over all sites', in LIFETIME_LOG_BITS    */
    uint64_t lifetime;    /* mean; with few deaths, a rough lower bound                   */
    uint64_t live_blocks; /* estimate                                                      */
};

/*
 * Adds the new input, and decides on every site with enough samples: sets `wanted`, and `cohort`
 * once LIFETIME_STREAK decisions in a row have wanted it. Returns how many sites moved. Pre: count
 * <= LIFETIME_SITES_MAX; `order` has room for `count`, from the caller since stacks may be small.
 * Cost: about 100 instructions for each site and each binary digit of their number, three times as
 * many for each kind.
 */
size_t lifetime_decide(struct lifetime_site *sites, size_t count, uint16_t *order);

/* Binary logarithm of value >= 1, in LIFETIME_LOG_BITS; to within 0.01. */
int32_t lifetime_log2(uint64_t value);

#endif
