/*
 * site.c: fills the table of sites.
 *
 * `hash` spreads sites over cohorts by their index, once the heap is large enough: a small one
 * keeps its few objects on few pages, so that a tiny program pays nothing. Blocks that are there
 * stay in the cohort they have; an address tells its own bin.
 *
 * Owner: whoever adds the slab that crosses the threshold; a store at a time, so a reader sees an
 * old or a new cohort. Design: docs/design/sites.md
 */
#include "site/site.h"

#include "core/depot.h"

enum { SLABS_MIN = 128 }; /* docs/decisions/cohorts.md */

_Atomic uint16_t site_table[SITES];

static size_t cohorts_max = 1;
static _Atomic size_t cohorts_now = 1;

static void fill(size_t cohorts)
{
    for (uint32_t site = 0; site < SITES; site++) {
        /* Knuth's multiplicative hash: the golden ratio of 2^32. */
        uint32_t mixed = site * 0x9E3779B1u;
        uint32_t cohort = mixed >> 26 & (uint32_t)(cohorts - 1);
        store(&site_table[site], (uint16_t)(cohort * COHORT_ENTRY_BYTES), RELAXED);
    }
}

static void on_growth(size_t slab_count)
{
    size_t now = load(&cohorts_now, RELAXED);
    if (now >= cohorts_max || slab_count < SLABS_MIN)
        return;
    if (compare_swap(&cohorts_now, &now, cohorts_max, RELAXED, RELAXED))
        fill(cohorts_max);
}

void site_start(enum site_policy policy, size_t cohorts)
{
    cohorts_max = policy == SITE_OFF ? 1 : cohorts;
    depot_on_growth = on_growth;
}

size_t site_cohorts(void)
{
    return load(&cohorts_now, RELAXED);
}
