/*
 * learned.c: watches sites in turn, follows some of their blocks, and decides now and then.
 *
 * The clock counts bytes that pass from depots to caches. Every site is watched from the start.
 * After some followed blocks a site rests for a while; a site with few requests is watched until it
 * has as many. A budget, filled by the clock, bounds the cost; once it is used up no site is
 * watched until a later decision. A decision comes each time the clock has advanced by a period, in
 * the thread that advanced it, after its refill.
 *
 * Owner: a decision is one thread's, by `is_deciding`; no thread waits. Words that requests and
 * frees change are atomic; docs/protocols/learned.md. Design: docs/design/learned.md
 */
#include "site/learned.h"

#include "base/bits.h"
#include "core/heap.h"
#include "mem/extent.h"
#include "os/os.h"
#include "site/follow.h"
#include "site/lifetime.h"
#include "site/poisson.h"
#include "site/second.h"
#include "site/site.h"

enum {
    CLOCK_SHIFT = 12,       /* a unit of the clock: 4 KiB                            */
    CLOCK_STEP = 64 * 1024, /* bytes that a thread counts before it adds them to the clock */
    PERIOD_MIN = 2 * 1024 * 1024 >> CLOCK_SHIFT,
    PERIOD_A_SITE = 32 * 1024 >> CLOCK_SHIFT,
    PERIOD_SHARE = 64, /* part of the time so far                               */
    WINDOW_FIRST = 24, /* samples that end a site's first window                */
    WINDOW_LATER = 8,  /* samples that end a later one                          */
    WINDOW_REQUESTS = 512,
    WINDOW_DENSE = 4,  /* samples of each request; then of 1 in 2, 1 in 4, ... */
    REST_PERIODS = 4,  /* from one window of a site to the next, at least       */
    FOLLOWED_MAX = 24, /* live followed blocks of a site                        */
    SETS_LOG2_FIRST = 4,
    SETS_LOG2_MAX = 9,
    FORGET_STEP = 128, /* ways that a decision looks at                         */
    OLD_PERIODS = 8,   /* a block so old may make room for a new one            */
    SAMPLE_COST = 24,  /* in requests that take the slow path                   */
    BUDGET_FIRST = 8192,
    BUDGET_MAX = 16 * 1024,
    BUDGET_KEPT = 4096, /* for sites without a record                          */
    BUDGET_RESUME = 1024,
    EARNED_MAX = 1024,   /* from one decision to the next                       */
    UNITS_A_REQUEST = 2, /* of the clock; they pay for one request              */
    MAPPING_ALIGN = 64 * 1024,
};

enum place_state { PLACE_NEW, PLACE_WATCHED, PLACE_QUIET };

/* State of an index in the table of sites. */
static struct place {
    _Atomic uint16_t record; /* number of its record, from 1; 0: none          */
    _Atomic uint8_t state;   /* all but PLACE_QUIET take the slow path         */
    _Atomic uint8_t cohort;
} places[SITES];

/* Observations of an index. */
struct record {
    /* In this window. */
    _Atomic uint32_t window_start;
    _Atomic uint32_t requests;
    _Atomic uint32_t samples;

    /* Since the start. */
    _Atomic uint64_t bytes; /* of `counted` requests */
    _Atomic uint64_t counted;
    _Atomic uint64_t classes;
    _Atomic uint64_t births; /* sum of the birth times of live followed blocks */
    _Atomic uint64_t ended;  /* sum of the lifetimes of blocks followed no longer           */
    _Atomic uint32_t live;   /* live followed blocks                                        */
    _Atomic uint32_t all;    /* blocks ever followed                                        */
    _Atomic uint32_t deaths; /* followed blocks that were freed                             */
    _Atomic uint32_t rate;   /* mean of windows, in LIFETIME_RATE; 0: none yet              */

    /* Written by the deciding thread. */
    uint16_t index;
    uint32_t first_seen;
    uint32_t watch_next;
    uint32_t deaths_last;
    uint64_t exposure_last;
};

struct tables {
    struct follow_way ways[FOLLOW_WAYS << SETS_LOG2_MAX];
    struct record records[LIFETIME_SITES_MAX + 1]; /* entry 0 is unused */
    struct lifetime_site sites[LIFETIME_SITES_MAX + 1];
    uint16_t order[LIFETIME_SITES_MAX];
};

static _Atomic bool is_chosen;
static uint64_t seed_wanted;
static struct tables *_Atomic tables;
static struct follow_table followed_blocks;
_Atomic bool learned_is_on;
static _Atomic bool is_paused;
static _Atomic uint32_t clock; /* in units; wraps after 16 TiB */
static _Atomic uint32_t decide_next;
static _Atomic uint32_t is_deciding;
static _Atomic int64_t budget;
static _Atomic uint32_t records_used;
static _Atomic uint32_t threads_seen;
static _Atomic uint64_t samples_all, decisions, moves;
static _Atomic size_t cohorts_now = 1;
static uint32_t decided_last;
static uint32_t watch_cursor;                            /* next record that watch_again() tries */
static struct learned_move log_entries[LEARNED_LOG_MAX]; /* a ring; for the deciding thread */

static _Thread_local struct {
    uint64_t random;
    uint32_t bytes_uncounted; /* not added to the clock yet */
} here;

static bool draw(uint32_t one_in_log2)
{
    if (here.random == 0)
        here.random = seed_wanted + ((uint64_t)fetch_add(&threads_seen, 1, RELAXED) << 32) + 1;
    return (poisson_random(&here.random) & ((1u << one_in_log2) - 1)) == 0;
}

/* --- windows --- */

static void spend(int64_t requests)
{
    if (likely(fetch_sub(&budget, requests, RELAXED) > requests))
        return;
    if (!exchange(&is_paused, true, RELAXED))
        site_refill(0, SITES);
}

static void set_quiet(size_t index)
{
    store(&places[index].state, PLACE_QUIET, RELAXED);
    site_refill(index, 1);
}

static uint32_t window_rate(struct record *record, uint32_t now)
{
    uint64_t length = size_max(now - load(&record->window_start, RELAXED), 1);
    uint64_t found = (uint64_t)load(&record->requests, RELAXED) * LIFETIME_RATE / length;
    uint64_t known = load(&record->rate, RELAXED);
    return (uint32_t)size_min(known == 0 ? found : (found + known + 1) / 2, UINT32_MAX);
}

static void window_open(struct record *record, uint32_t now)
{
    store(&record->window_start, now, RELAXED);
    store(&record->requests, 0, RELAXED);
    store(&record->samples, 0, RELAXED);
}

static void window_close(struct record *record, size_t index)
{
    uint8_t expected = PLACE_WATCHED;
    if (!compare_swap(&places[index].state, &expected, PLACE_QUIET, RELAXED, RELAXED))
        return; /* another thread closed it */
    store(&record->rate, window_rate(record, load(&clock, RELAXED)), RELAXED);
    site_refill(index, 1);
}

/* The record of an index, made on first use. NULL: no room. */
static struct record *record_for(size_t index)
{
    struct tables *all = load(&tables, ACQUIRE);
    struct place *place = &places[index];
    uint16_t number = load(&place->record, ACQUIRE);
    if (likely(number != 0))
        return &all->records[number];
    uint32_t next = fetch_add(&records_used, 1, RELAXED) + 1;
    if (next > LIFETIME_SITES_MAX) {
        fetch_sub(&records_used, 1, RELAXED);
        return NULL;
    }
    struct record *record = &all->records[next];
    record->index = (uint16_t)index;
    record->first_seen = load(&clock, RELAXED);
    window_open(record, record->first_seen);
    if (!compare_swap(&place->record, &number, (uint16_t)next, RELEASE, ACQUIRE)) /* P2 */
        return &all->records[number]; /* another thread was first; this record stays unused */
    store(&place->state, PLACE_WATCHED, RELAXED);
    follow_make_room(&followed_blocks, (size_t)next * FOLLOWED_MAX);
    return record;
}

static uint32_t window_samples(struct record *record)
{
    return load(&record->all, RELAXED) <= WINDOW_FIRST ? WINDOW_FIRST : WINDOW_LATER;
}

/* Whether the next request of a window is followed: each of the first few, then ever fewer, so that
 * a window is not one moment. */
static bool is_followed(struct record *record)
{
    uint32_t samples = load(&record->samples, RELAXED);
    return samples < window_samples(record) && load(&record->live, RELAXED) < FOLLOWED_MAX &&
           draw(samples / WINDOW_DENSE);
}

bool learned_request(size_t index, size_t bytes)
{
    if (!learned_watches(index) || bytes > MEDIUM_MAX)
        return false;
    struct record *record = record_for(index);
    if (record == NULL) {
        set_quiet(index);
        return false;
    }
    fetch_add(&record->bytes, bytes, RELAXED);
    fetch_add(&record->counted, 1, RELAXED);
    atomic_fetch_or_explicit(&record->classes, UINT64_C(1) << class_of(bytes), RELAXED);
    bool is_sampled = is_followed(record);
    uint32_t samples = fetch_add(&record->samples, is_sampled, RELAXED) + is_sampled;
    uint32_t requests = fetch_add(&record->requests, 1, RELAXED) + 1;
    bool is_crowded = load(&record->live, RELAXED) >= FOLLOWED_MAX;
    if (is_crowded || samples >= window_samples(record) || requests >= WINDOW_REQUESTS)
        window_close(record, index);
    spend(is_sampled ? SAMPLE_COST : 1);
    return is_sampled;
}

/* --- followed blocks --- */

void learned_follow(const void *block, size_t index)
{
    struct tables *all = load(&tables, ACQUIRE);
    struct record *record = &all->records[load(&places[index].record, RELAXED)];
    struct followed followed = {.row = load(&places[index].record, RELAXED),
                                .birth = load(&clock, RELAXED)};
    fetch_add(&record->births, followed.birth, RELAXED);
    fetch_add(&record->live, 1, RELAXED);
    if (follow_begin(&followed_blocks, block, followed)) {
        fetch_add(&record->all, 1, RELAXED);
        fetch_add(&samples_all, 1, RELAXED);
        return;
    }
    fetch_sub(&record->births, followed.birth, RELAXED);
    fetch_sub(&record->live, 1, RELAXED);
}

static struct record *end_following(struct tables *all, struct followed followed)
{
    struct record *record = &all->records[followed.row];
    fetch_sub(&record->live, 1, RELAXED);
    fetch_sub(&record->births, followed.birth, RELAXED);
    fetch_add(&record->ended, load(&clock, RELAXED) - followed.birth, RELAXED);
    return record;
}

void learned_free(const void *block)
{
    struct tables *all = load(&tables, ACQUIRE);
    struct followed followed;
    if (all == NULL || !follow_end(&followed_blocks, block, &followed))
        return;
    struct record *record = end_following(all, followed);
    fetch_add(&record->deaths, 1, RELAXED);
}

/* Stops following old blocks of sites that follow many, to make room for new ones. */
static void forget_old(struct tables *all, uint32_t now, uint32_t period)
{
    struct followed followed;
    const void *block;
    for (unsigned i = 0; i < FORGET_STEP; i++) {
        if (!follow_next(&followed_blocks, &block, &followed))
            continue;
        bool is_crowded = load(&all->records[followed.row].live, RELAXED) > FOLLOWED_MAX / 2;
        if (is_crowded && now - followed.birth > period * OLD_PERIODS &&
            follow_end(&followed_blocks, block, &followed))
            end_following(all, followed);
    }
}

/* --- decisions --- */

static void update_site(struct lifetime_site *site, struct record *record, uint32_t now)
{
    uint64_t live = load(&record->live, RELAXED) * (uint64_t)now;
    uint64_t births = load(&record->births, RELAXED);
    uint64_t exposure = load(&record->ended, RELAXED) + live - size_min(births, live);
    uint32_t deaths = load(&record->deaths, RELAXED);
    uint64_t counted = load(&record->counted, RELAXED);
    bool is_watched = load(&places[record->index].state, RELAXED) == PLACE_WATCHED;
    site->exposure_new = exposure - size_min(record->exposure_last, exposure);
    site->deaths_new = deaths - record->deaths_last;
    site->rate = is_watched ? window_rate(record, now) : load(&record->rate, RELAXED);
    site->age = size_max(now - record->first_seen, 1);
    site->classes = load(&record->classes, RELAXED);
    site->samples = load(&record->all, RELAXED);
    site->bytes = counted == 0 ? 0 : (uint32_t)(load(&record->bytes, RELAXED) / counted);
    record->exposure_last = size_max(record->exposure_last, exposure);
    record->deaths_last = deaths;
}

static void note_move(const struct lifetime_site *site, const struct record *record, uint32_t now,
                      uint8_t from)
{
    uint64_t number = load(&moves, RELAXED);
    log_entries[number % LEARNED_LOG_MAX] = (struct learned_move){
        .at_kib = (uint64_t)now << CLOCK_SHIFT >> 10,
        .lifetime_kib = site->lifetime << CLOCK_SHIFT >> 10,
        .live_bytes = site->live_blocks * site->bytes,
        .bytes = site->bytes,
        .index = record->index,
        .from = from,
        .to = site->cohort,
    };
    store(&moves, number + 1, RELEASE);
}

/* Moves sites to the decided cohorts. Whether another move is pending. */
static bool apply(struct tables *all, uint32_t count, uint32_t now)
{
    bool is_pending = false;
    size_t cohorts = 1;
    for (uint32_t i = 1; i <= count; i++) {
        struct lifetime_site *site = &all->sites[i];
        struct place *place = &places[all->records[i].index];
        uint8_t before = load(&place->cohort, RELAXED);
        cohorts = size_max(cohorts, site->cohort + 1u);
        is_pending |= site->wanted != site->cohort;
        if (before == site->cohort || load(&place->record, RELAXED) != i)
            continue;
        store(&place->cohort, site->cohort, RELAXED);
        note_move(site, &all->records[i], now, before);
        site_refill(all->records[i].index, 1);
    }
    store(&cohorts_now, cohorts, RELAXED);
    return is_pending;
}

/* Opens windows of rested sites, as long as the budget allows. */
static void watch_again(struct tables *all, uint32_t count, uint32_t now, uint32_t period)
{
    int64_t promised = 0;
    for (uint32_t looks = 0; looks < count; looks++) {
        uint32_t i = watch_cursor % count + 1;
        struct record *record = &all->records[i];
        struct place *place = &places[record->index];
        if (load(&place->state, RELAXED) != PLACE_QUIET ||
            (int32_t)(now - record->watch_next) < 0 || load(&place->record, RELAXED) != i) {
            watch_cursor++;
            continue;
        }
        if (load(&budget, RELAXED) - promised < BUDGET_KEPT)
            return; /* the next decision continues with this record */
        watch_cursor++;
        promised += WINDOW_LATER * SAMPLE_COST;
        record->watch_next = now + period * REST_PERIODS;
        window_open(record, now);
        store(&place->state, PLACE_WATCHED, RELAXED);
        if (!load(&is_paused, RELAXED))
            site_refill(record->index, 1);
    }
}

static void earn(struct tables *all, uint32_t count, uint32_t units, uint32_t now)
{
    int64_t more = (int64_t)size_min(units / UNITS_A_REQUEST, EARNED_MAX);
    int64_t have = fetch_add(&budget, more, RELAXED) + more;
    if (have > BUDGET_MAX)
        fetch_sub(&budget, have - BUDGET_MAX, RELAXED);
    if (have < BUDGET_RESUME || !load(&is_paused, RELAXED))
        return;
    for (uint32_t i = 1; i <= count; i++)
        window_open(&all->records[i], now);
    store(&is_paused, false, RELAXED);
    site_refill(0, SITES);
}

static void decide(uint32_t now)
{
    struct tables *all = load(&tables, ACQUIRE);
    uint32_t count = (uint32_t)size_min(load(&records_used, ACQUIRE), LIFETIME_SITES_MAX);
    uint32_t period = (uint32_t)size_max(size_max(PERIOD_MIN, now / PERIOD_SHARE),
                                         count * (size_t)PERIOD_A_SITE);
    for (uint32_t i = 1; i <= count; i++)
        update_site(&all->sites[i], &all->records[i], now);
    lifetime_decide(all->sites + 1, count, all->order);
    bool is_pending = apply(all, count, now);
    watch_again(all, count, now, period);
    forget_old(all, now, period);
    earn(all, count, now - decided_last, now);
    decided_last = now;
    fetch_add(&decisions, 1, RELAXED);
    store(&decide_next, now + (is_pending ? period / 2 : period), RELAXED);
}

/* Advances the clock. Called after each refill, with no lock held. */
static void on_refill(size_t bytes)
{
    here.bytes_uncounted += (uint32_t)size_min(bytes, UINT32_MAX / 2);
    if (likely(here.bytes_uncounted < CLOCK_STEP))
        return;
    uint32_t units = here.bytes_uncounted >> CLOCK_SHIFT;
    here.bytes_uncounted = 0;
    uint32_t now = fetch_add(&clock, units, RELAXED) + units;
    if (likely((int32_t)(now - load(&decide_next, RELAXED)) < 0) ||
        exchange(&is_deciding, 1, ACQUIRE) != 0) /* K1 */
        return;
    decide(now);
    store(&is_deciding, 0, RELEASE); /* K2 */
}

/* --- interface --- */

void learned_choose(uint64_t seed)
{
    store(&is_chosen, true, RELAXED);
    seed_wanted = seed;
}

static size_t table_bytes(void)
{
    return align_up(sizeof(struct tables), MAPPING_ALIGN);
}

bool learned_begin(void)
{
    struct extent made;
    if (!load(&is_chosen, RELAXED) || !exchange(&is_chosen, false, RELAXED))
        return false;
    if (extent_make_fixed(&made, table_bytes(), MAPPING_ALIGN, NULL) != 0)
        return false;
    second_report_frees();
    struct tables *all = (struct tables *)(void *)made.start;
    follow_start(&followed_blocks, all->ways, SETS_LOG2_FIRST, SETS_LOG2_MAX);
    store(&tables, all, RELEASE);
    store(&budget, BUDGET_FIRST, RELAXED);
    store(&decide_next, PERIOD_MIN, RELAXED);
    store(&learned_is_on, true, RELEASE);
    store(&cache_on_refill, &on_refill, RELEASE);
    site_refill(0, SITES);
    return true;
}

bool learned_watches(size_t index)
{
    return load(&learned_is_on, ACQUIRE) && !load(&is_paused, RELAXED) &&
           load(&places[index].state, RELAXED) != PLACE_QUIET;
}

unsigned learned_cohort(size_t index)
{
    return load(&places[index].cohort, RELAXED);
}

size_t learned_cohorts(void)
{
    return load(&cohorts_now, RELAXED);
}

struct learned_facts learned_facts(void)
{
    return (struct learned_facts){
        .is_on = load(&learned_is_on, ACQUIRE),
        .clock_kib = (uint64_t)load(&clock, RELAXED) << CLOCK_SHIFT >> 10,
        .decisions = load(&decisions, RELAXED),
        .moves = load(&moves, RELAXED),
        .samples = load(&samples_all, RELAXED),
        .sites = size_min(load(&records_used, RELAXED), LIFETIME_SITES_MAX),
        .cohorts = load(&cohorts_now, RELAXED),
    };
}

size_t learned_log(struct learned_move *out)
{
    uint64_t end = load(&moves, ACQUIRE), count = size_min(end, LEARNED_LOG_MAX);
    for (uint64_t i = 0; i < count; i++)
        out[i] = log_entries[(end - count + i) % LEARNED_LOG_MAX];
    return count;
}

size_t learned_mapped_bytes(void)
{
    return load(&tables, ACQUIRE) == NULL ? 0 : table_bytes();
}

size_t learned_resident_bytes(void)
{
    char *start = (char *)load(&tables, ACQUIRE);
    return start == NULL ? 0 : os_resident_bytes(start, table_bytes());
}

const struct watch_fact learned_table_facts[] = {
    FACT_AT("learned.tables", tables),
    FACT_AT("learned.places", places),
    FACT_NUMBER("learned.place_bytes", sizeof(struct place)),
    FACT_NUMBER("learned.cohort", offsetof(struct place, cohort)),
    FACTS_END,
};
