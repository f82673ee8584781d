/*
 * site.c: fills the table of sites.
 *
 * `hash` spreads sites over cohorts by their index, once the heap is large enough: a small one
 * keeps its few objects on few pages, so that a tiny program pays nothing. Blocks that are there
 * stay in the cohort they have; an address tells its own bin.
 *
 * Owner: whoever changes what the table is to say, then fills it; a store at a time, so a reader
 * sees an old or a new cohort. docs/protocols/site-table.md. Design: docs/design/sites.md
 */
#include "site/site.h"

#include "core/depot.h"
#include "core/sampled.h"

enum { SLABS_MIN = 128 }; /* docs/decisions/cohorts.md */

_Atomic uint16_t site_table[SITES];

static size_t cohorts_max = 1;
static _Atomic size_t cohorts_now = 1;
static _Atomic bool is_table_diverted;
static _Atomic uint32_t changes; /* of the two above */

static uint16_t own_offset(size_t index, size_t cohorts)
{
    /* Knuth's multiplicative hash: the golden ratio of 2^32. */
    uint32_t mixed = (uint32_t)index * 0x9E3779B1u;
    return (uint16_t)(((uint64_t)mixed * cohorts >> 32) * COHORT_ENTRY_BYTES);
}

static void write_table(void)
{
    bool is_diverted = load(&is_table_diverted, RELAXED);
    size_t cohorts = load(&cohorts_now, RELAXED);
    for (size_t index = 0; index < SITES; index++)
        store(&site_table[index],
              is_diverted ? (uint16_t)PROFILED_OFFSET : own_offset(index, cohorts), RELAXED);
}

/* After a change: writes what it asks for, and again if another change came meanwhile. */
static void fill(void)
{
    uint32_t seen = 0, now = fetch_add(&changes, 1, ACQ_REL) + 1; /* W2 */
    while (now != seen) {
        seen = now;
        write_table(); /* W3 */
        /* W4: an increment that comes after this one sees our stores, so its own come later. */
        now = fetch_add(&changes, 0, ACQ_REL);
    }
}

static void on_growth(size_t slab_count)
{
    size_t now = load(&cohorts_now, RELAXED);
    if (now >= cohorts_max || slab_count < SLABS_MIN)
        return;
    if (compare_swap(&cohorts_now, &now, cohorts_max, RELAXED, RELAXED))
        fill();
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

void site_divert(bool is_diverted)
{
    store(&is_table_diverted, is_diverted, RELAXED);
    fill();
}

void site_refresh(void)
{
    fill();
}

uint32_t site_own_offset(const void *return_address)
{
    return own_offset(site_index(return_address), load(&cohorts_now, RELAXED));
}

const struct watch_fact site_facts[] = {
    FACT_AT("site.table", site_table),
    FACT_NUMBER("site.count", SITES),
    FACT_NUMBER("site.bytes", sizeof site_table[0]),
    FACT_NUMBER("site.cohort_bytes", COHORT_ENTRY_BYTES),
    FACT_NUMBER("site.diverted", PROFILED_OFFSET),
    FACT_AT("site.cohorts", cohorts_now),
    FACTS_END,
};
