/*
 * site.c: fills the table of sites.
 *
 * `hash` spreads sites over cohorts by their index once the heap is large enough: a small heap
 * keeps its few objects on few pages, so a tiny program pays nothing. Existing blocks keep their
 * cohort; an address tells its own bin. `auto` gives sites cohorts in the order of their first
 * requests, and joins two cohorts when the sites of one reuse blocks that the sites of the other
 * freed. `intern` (site/intern.h) diverts every index to the second front end.
 *
 * Owner: the thread that changes the table's input then fills the table, one store an entry, so a
 * reader sees an old or a new cohort. docs/protocols/site-table.md. Design: docs/design/sites.md
 */
#include "site/site.h"

#include "core/depot.h"
#include "core/rows.h"
#include "site/learned.h"
#include "site/wrapper.h"

enum {
    SLABS_MIN = 128, /* docs/decisions/sites.md */
    LEND_PART = 2,   /* docs/decisions/sites.md */
};

static const uint32_t SPREAD = 0x9E3779B1u; /* Knuth's: the golden ratio of 2^32 */

_Atomic uint16_t site_table[SITES];
_Static_assert(COHORT_LIMIT *COHORT_ENTRY_BYTES <= UINT16_MAX + 1, "two bytes each");
_Static_assert((int)DIVERTED_OFFSET == 0, "so that all sites are diverted before the heap starts");

bool site_is_interned;

static size_t cohorts_max = 1;
static _Atomic size_t cohorts_now = 1;
static _Atomic uint32_t counted_by; /* armed cohort that counts all requests; 0: none */
static bool is_learned;
static bool is_auto;
static _Atomic uint8_t given[SITES]; /* with `auto`: an index's cohort plus one; 0: none yet */
static _Atomic uint32_t given_count; /* cohorts given so far */
static _Atomic uint8_t joined[COHORTS_MAX]; /* with `auto`: the one serving a cohort's sites */
static _Atomic uint32_t changes;            /* of the table's input */

static size_t cohort_given(size_t index)
{
    size_t number = load(&given[index], RELAXED);
    return number == 0 ? 0 : load(&joined[number - 1], RELAXED);
}

/* Whether an index gets a cohort with its next request. */
static bool awaits_cohort(size_t index)
{
    return is_auto && load(&cohorts_now, RELAXED) > 1 && load(&given[index], RELAXED) == 0;
}

size_t site_cohort_of(size_t index)
{
    if (is_learned)
        return learned_cohort(index);
    if (is_auto)
        return cohort_given(index);
    uint32_t mixed = (uint32_t)index * SPREAD;
    return (uint64_t)mixed * load(&cohorts_now, RELAXED) >> 32;
}

static uint32_t offset_of(size_t index)
{
    return (uint32_t)(COHORT_FIRST + site_cohort_of(index)) * COHORT_ENTRY_BYTES;
}

/* Whether requests of an index go to the second front end. */
static bool is_diverted(size_t index)
{
    return site_is_interned || wrapper_has_index(index) || learned_watches(index) ||
           awaits_cohort(index);
}

/* Armed entries hold blocks of the first cohort only, so counting diverts all other sites. */
static uint32_t entry_of(size_t index, uint32_t armed)
{
    uint32_t offset = offset_of(index);
    if (is_diverted(index) || (armed != 0 && offset != OWN_OFFSET_FIRST))
        return DIVERTED_OFFSET;
    return armed != 0 ? armed * COHORT_ENTRY_BYTES : offset;
}

static void write_table(size_t first, size_t count)
{
    uint32_t armed = load(&counted_by, RELAXED);
    intern_allow_quick(site_is_interned && armed == 0);
    for (size_t index = first; index < first + count; index++)
        store(&site_table[index], (uint16_t)entry_of(index, armed), RELAXED);
}

/* Writes again if another thread changed the table's input meanwhile. */
void site_refill(size_t first, size_t count)
{
    uint32_t seen = 0, now = fetch_add(&changes, 1, ACQ_REL) + 1; /* W2 */
    while (now != seen) {
        seen = now;
        write_table(first, count); /* W3 */
        /* W4: a thread that increments after this one sees these stores, so its own come later. */
        now = fetch_add(&changes, 0, ACQ_REL);
    }
}

/* Before the heap is used there is one cohort, and only the policy diverts an index. */
static void begin_table(void)
{
    uint16_t offset = site_is_interned ? DIVERTED_OFFSET : OWN_OFFSET_FIRST;
    intern_allow_quick(site_is_interned);
    for (size_t index = 0; index < SITES; index++)
        store(&site_table[index], offset, RELAXED);
}

static void on_growth(size_t slab_count)
{
    size_t now = load(&cohorts_now, RELAXED);
    if (slab_count < SLABS_MIN)
        return;
    if (is_learned)
        learned_begin();
    if (now >= cohorts_max)
        return;
    if (compare_swap(&cohorts_now, &now, cohorts_max, RELAXED, RELAXED))
        site_refill(0, SITES);
}

static unsigned cohort_of_bin(unsigned bin)
{
    return bin_row(bin) % COHORT_LIMIT - COHORT_FIRST;
}

/* Joins a bin's cohort to its lender's. Sites of the bin's cohort reuse single blocks scattered
 * over the lender's slabs, and free them to the lender. From now on these sites allocate from the
 * lender's cohort. Two threads at once may each leave sites behind, which join the next time. */
static void on_scattered(unsigned bin, unsigned lender_bin)
{
    unsigned from = cohort_of_bin(bin), to = cohort_of_bin(lender_bin);
    if (from >= COHORTS_MAX || to >= COHORTS_MAX)
        return;
    from = load(&joined[from], RELAXED);
    to = load(&joined[to], RELAXED);
    if (from == to)
        return;
    for (size_t i = 0; i < COHORTS_MAX; i++)
        if (load(&joined[i], RELAXED) == from)
            store(&joined[i], (uint8_t)to, RELAXED); /* W1 */
    site_refill(0, SITES);
}

static void start_auto(void)
{
    store(&given_count, 0, RELAXED);
    for (size_t index = 0; index < SITES; index++)
        store(&given[index], 0, RELAXED);
    for (size_t i = 0; i < COHORTS_MAX; i++)
        store(&joined[i], (uint8_t)i, RELAXED);
    depot_lend_part = is_auto ? LEND_PART : 0;
    depot_on_scattered = is_auto ? on_scattered : NULL;
}

/* Number of cohorts in use that have not joined another. */
static size_t count_unjoined(void)
{
    size_t count = 0, now = load(&cohorts_now, RELAXED);
    if (!is_auto)
        return now;
    for (size_t i = 0; i < now; i++)
        count += load(&joined[i], RELAXED) == i;
    return count;
}

void site_start(enum site_policy policy, size_t cohorts)
{
    is_auto = policy == SITE_AUTO;
    cohorts_max = policy == SITE_HASH || is_auto ? cohorts : 1;
    if (is_auto || depot_on_scattered != NULL)
        start_auto();
    is_learned = policy == SITE_LEARNED;
    site_is_interned = rows_are_separate = policy == SITE_INTERN;
    depot_on_growth = on_growth;
    if (site_is_interned)
        wrapper_start(true);
    begin_table();
}

size_t site_cohorts(void)
{
    struct intern_counts counts = intern_counts();
    if (is_learned)
        return learned_cohorts();
    return site_is_interned ? counts.sites + (counts.overflow > 0) : count_unjoined();
}

void site_count_all(bool is_wanted, uint32_t turn)
{
    store(&counted_by, is_wanted ? COHORT_ARMED + turn % ARMED_COHORTS : 0, RELAXED);
    site_refill(0, SITES);
}

/* Gives an index the next cohort in turn, so that no two sites share a cohort before each cohort is
 * given. The first turn is not the first cohort's, which has the blocks of all sites from
 * before. */
static void give_cohort(size_t index)
{
    uint8_t none = 0;
    size_t number = (fetch_add(&given_count, 1, RELAXED) + 1) % load(&cohorts_now, RELAXED);
    if (compare_swap(&given[index], &none, (uint8_t)(number + 1), RELAXED, RELAXED)) /* W1 */
        site_refill(index, 1);
}

uint32_t site_offset_by_index(const void *return_address)
{
    size_t index = site_index(return_address);
    if (unlikely(awaits_cohort(index)))
        give_cohort(index);
    return offset_of(index);
}

const struct watch_fact site_facts[] = {
    FACT_AT("site.table", site_table),
    FACT_NUMBER("site.count", SITES),
    FACT_NUMBER("site.bytes", sizeof site_table[0]),
    FACT_NUMBER("site.diverted", DIVERTED_OFFSET),
    FACT_NUMBER("site.align", CODE_ALIGN_LOG2),
    FACT_AT("site.cohorts", cohorts_now),
    FACT_AT("site.spread", SPREAD),
    FACT_AT("site.is_auto", is_auto),
    FACT_AT("site.given", given),
    FACT_AT("site.joined", joined),
    FACT_AT("site.is_learned", is_learned),
    FACTS_END,
};
