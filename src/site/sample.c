/*
 * sample.c: counts down the bytes of requests, takes a sample where the count ends, and keeps it
 * until the block is freed.
 *
 * Each thread draws the distance to its next sample. A request that reaches it gets a block whose
 * free is reported (core/sampled.h), and its stack is noted with what the sample stands for. Small
 * requests of sites of the first cohort are counted by class: their entries are armed with no more
 * blocks than requests may pass (core/armed.h). All other requests are counted by bytes. Where
 * samples come often, the next distances are drawn longer (site/thinning.h).
 *
 * Owner: each countdown is its thread's. Starts and stops go one at a time, by `sample_state`; a
 * second one does not wait. Requests need no lock. Design: docs/design/profiler.md
 */
#include "site/sample.h"

#include "base/bits.h"
#include "core/armed.h"
#include "core/sampled.h"
#include "mem/extent.h"
#include "os/cycles.h"
#include "os/os.h"
#include "os/probe.h"
#include "os/stack.h"
#include "site/modules_seen.h"
#include "site/places.h"
#include "site/poisson.h"
#include "site/python.h"
#include "site/second.h"
#include "site/thinning.h"
#include "site/traced.h"

enum {
    MAPPING_ALIGN = 64 * 1024, /* a multiple of any page */
    INSIDE_MAX = 16,           /* the allocator's frames, above the site */
    REDRAWN_PART = 4,          /* an interval so many times too long is drawn anew */
    VOLUME_HALF = 1 << (VOLUME_BITS - 1),
};

/* Thinning leaves no more requests than this between two samples on average, so that frequent
 * requests of one size do not leave other sizes without samples. */
enum { THINNED_REQUESTS_LOG2 = 12 };

/* Ticks replace the clock under a given seed, so that draws do not depend on time: rough costs of a
 * request with the work around it, of a sample, and of a fresh page. */
enum { TICKS_A_REQUEST = 500, TICKS_A_SAMPLE = 1500, TICKS_A_PAGE = 1000, PAGE_LOG2 = 12 };

_Atomic uint32_t sample_state;
static char *_Atomic tables; /* table_bytes() long; never unmapped */
static struct follow_table live;

_Atomic uint32_t sample_start_count; /* a thread draws anew after each change */
static _Atomic uint32_t starts;
static _Atomic uint64_t rate_bytes;
static _Atomic uint64_t seed_now;
static _Atomic uint32_t threads_seen; /* since the start */

static _Atomic uint64_t first_start_ns;
static _Atomic uint64_t on_since_ms;
static _Atomic uint64_t on_before_ms; /* in earlier starts */
static _Atomic uint64_t samples;
static _Atomic uint64_t samples_lost;

static _Atomic bool is_seeded; /* sample_start() got a seed */

_Thread_local int64_t sample_medium_left[COHORT_FIRST];
_Thread_local int64_t sample_large_left[COHORT_FIRST];
_Thread_local bool sample_is_inside;

/* A thread's requests that are counted by bytes. */
struct stream {
    uint64_t rate;  /* with which the distance to the next sample was drawn          */
    int64_t given;  /* part of the distance that the countdown last got              */
    int64_t beyond; /* the rest of the distance                                      */
};

static _Thread_local struct {
    uint32_t start; /* the start after which this thread last drew */
    bool is_thinned;
    uint64_t random;
    uint64_t rate;         /* as given to sample_start()                       */
    uint64_t rate_reached; /* of the interval that ended with the last sample  */
    uint64_t ticks;        /* own clock under a given seed; else 0             */
    struct thinning thinning;
    struct stream streams[STREAM_COUNT];
} here;

/* This thread's countdown of a stream, in the start that the thread knows. */
static int64_t *left_of(unsigned kind)
{
    return sample_left((COHORT_ARMED + here.start % ARMED_COHORTS) * COHORT_ENTRY_BYTES, kind);
}

static uint64_t draw(uint64_t rate)
{
    return poisson_distance(rate, poisson_random(&here.random));
}

static uint64_t ticks_now(void)
{
    return here.ticks != 0 ? here.ticks : os_cycles();
}

/* Adds the credit of requests that passed. */
static void pass(uint64_t requests)
{
    if (here.ticks != 0)
        here.ticks += requests * TICKS_A_REQUEST;
    thinning_pass(&here.thinning, ticks_now());
}

/* Charges a sample that began at tick `from`. */
static void charge_sample(uint64_t from)
{
    if (here.ticks != 0)
        here.ticks += TICKS_A_SAMPLE;
    thinning_spend(&here.thinning, from, ticks_now());
}

/* Doublings of the rate for the next draw, for requests of `bytes` each. */
static unsigned shift_now(size_t bytes)
{
    unsigned shift = here.is_thinned ? thinning_shift(&here.thinning) : 0;
    while (shift > 0 && here.rate >> THINNED_REQUESTS_LOG2 << shift > bytes)
        shift--;
    return shift;
}

static uint64_t rate_now(size_t bytes)
{
    return here.rate << shift_now(bytes);
}

/* Sets a stream's countdown to the distance, or to a part of it while the interval is longer than
 * the rate, so that the interval is checked in between. */
static void set_countdown(unsigned kind, int64_t distance)
{
    struct stream *stream = &here.streams[kind];
    int64_t most = stream->rate > here.rate ? (int64_t)stream->rate : INT64_MAX;
    stream->given = distance < most ? distance : most;
    stream->beyond = distance - stream->given;
    *left_of(kind) = stream->given;
}

/* Draws a stream's next distance, for requests of `bytes` each. */
static void draw_stream(unsigned kind, size_t bytes)
{
    here.streams[kind].rate = rate_now(bytes);
    set_countdown(kind, (int64_t)draw(here.streams[kind].rate));
}

/* The thread's next request that is counted by bytes notices a new start. */
static void end_countdowns(void)
{
    __builtin_memset(sample_medium_left, 0, sizeof sample_medium_left);
    __builtin_memset(sample_large_left, 0, sizeof sample_large_left);
}

/* Resets the thread's draws after a new start. */
static NOINLINE void begin_anew(size_t bytes, uint32_t start)
{
    here.start = start;
    here.rate = load(&rate_bytes, RELAXED);
    here.random = load(&seed_now, RELAXED) + ((uint64_t)fetch_add(&threads_seen, 1, RELAXED) << 32);
    here.ticks = load(&is_seeded, RELAXED) ? 1 : 0;
    here.is_thinned = here.rate >= SAMPLE_RATE_THINNED && here.rate <= SAMPLE_RATE_THINNED_MAX;
    thinning_begin(&here.thinning, ticks_now());
    end_countdowns();
    for (unsigned kind = 0; kind < STREAM_COUNT; kind++)
        draw_stream(kind, bytes);
}

ALWAYS_INLINE void begin(size_t bytes)
{
    uint32_t start = load(&sample_start_count, ACQUIRE);
    if (unlikely(here.start != start))
        begin_anew(bytes, start);
}

/* A request of `bytes` took a stream's countdown below zero. Whether a mark lies in the request.
 * Only a request without a mark may change the interval: docs/design/sampling.md. */
static NOINLINE bool is_mark(size_t bytes, unsigned kind)
{
    struct stream *stream = &here.streams[kind];
    int64_t distance = *left_of(kind) + stream->beyond;
    pass((uint64_t)stream->given / bytes + 1);
    if (distance < 0) {
        here.rate_reached = stream->rate;
        draw_stream(kind, bytes);
        return true;
    }
    if (rate_now(bytes) <= stream->rate / REDRAWN_PART)
        draw_stream(kind, bytes);
    else
        set_countdown(kind, distance);
    return false;
}

void sample_look(size_t bytes)
{
    unsigned kind = stream_of(bytes);
    if (here.ticks != 0)
        here.ticks += ((bytes >> PAGE_LOG2) + 1) * TICKS_A_PAGE;
    if (sample_is_inside)
        return;
    begin(bytes); /* a stream may still hold a distance of the start before last */
    if (here.streams[kind].rate <= here.rate || !thinning_is_due(&here.thinning, ticks_now()))
        return;
    pass(1);
    if (rate_now(bytes) <= here.streams[kind].rate / REDRAWN_PART)
        draw_stream(kind, bytes);
}

/* Subtracts a request's bytes. Whether the request is sampled. */
static bool is_reached(size_t bytes)
{
    begin(bytes);
    unsigned kind = stream_of(bytes);
    int64_t *left = left_of(kind);
    *left -= (int64_t)bytes;
    return unlikely(*left < 0) && is_mark(bytes, kind);
}

/* Draws how many requests of a class pass before its next sample. */
static uint64_t draw_class(struct cache *cache, unsigned class)
{
    uint32_t bytes = class_facts[class].bytes;
    cache->armed_shift[class] = (uint8_t)shift_now(bytes);
    return draw(here.rate << cache->armed_shift[class]) / bytes;
}

/* Draws for the first request of a class after each start. */
static NOINLINE void draw_first(struct cache *cache, unsigned class)
{
    if (cache->armed_start != here.start) {
        armed_drop(cache);
        cache->armed_start = here.start;
        cache->armed_drawn = 0;
    }
    uint64_t bit = (uint64_t)1 << class;
    if ((cache->armed_drawn & bit) == 0) {
        cache->armed_drawn |= bit;
        cache->armed_more |= bit;
        cache->armed[class].unarmed = draw_class(cache, class);
    }
}

/* Counts a request of a class whose armed entry is empty. Whether the request is sampled. */
static bool is_turn(struct cache *cache, unsigned class)
{
    if (unlikely(cache->armed_start != here.start || (cache->armed_drawn >> class & 1) == 0))
        draw_first(cache, class);
    if (likely(cache->armed[class].unarmed > 0)) {
        cache->armed[class].unarmed--;
        return false;
    }
    here.rate_reached = here.rate << cache->armed_shift[class];
    pass(here.rate_reached / class_facts[class].bytes);
    cache->armed[class].unarmed = draw_class(cache, class);
    armed_drawn_again(cache, class);
    return true;
}

/* Row of a stack, with Python's functions in place of its interpreter's. */
static uint32_t enter(uintptr_t *callers, size_t depth)
{
    modules_seen_note(callers, depth);
    return stacks_enter(callers, python_replace(callers, depth, PROFILE_DEPTH_MAX));
}

/* Row of the stack from the site outwards: a walk from here, without the allocator's frames. */
static NOINLINE uint32_t stack_walked(const void *site)
{
    uintptr_t callers[INSIDE_MAX + PROFILE_DEPTH_MAX];
    size_t depth = os_stack(callers, INSIDE_MAX + PROFILE_DEPTH_MAX);
    size_t first = 0;
    while (first < size_min(depth, INSIDE_MAX) && callers[first] != (uintptr_t)site)
        first++;
    if (first == size_min(depth, INSIDE_MAX)) { /* no such frame: the site alone counts */
        callers[0] = (uintptr_t)site;
        return enter(callers, 1);
    }
    return enter(callers + first, size_min(depth - first, PROFILE_DEPTH_MAX));
}

/* Row of the stack from the site outwards. As a rule the site's frame is enough to walk from. */
static NOINLINE uint32_t stack_here(const void *site, const void *frame)
{
    uintptr_t callers[PROFILE_DEPTH_MAX];
    size_t depth = os_stack_from((uintptr_t)site, (uintptr_t)frame, callers, PROFILE_DEPTH_MAX);
    return depth > 0 ? enter(callers, depth) : stack_walked(site);
}

/* Estimate of a request of `bytes` that took `counted` bytes off the distance. */
static struct estimate estimate_of(uint64_t bytes, uint64_t counted)
{
    uint64_t weight = poisson_weight(here.rate_reached, counted);
    uint64_t low = weight * bytes, high = multiply_high(weight, bytes);
    unsigned shift = POISSON_WEIGHT_BITS - VOLUME_BITS;
    return (struct estimate){
        .weight = ((weight >> (POISSON_WEIGHT_BITS - WEIGHT_BITS - 1)) + 1) >> 1,
        .volume = high << (64 - shift) | low >> shift,
    };
}

/* Records a sample of `bytes` at `block`. */
static NOINLINE void note(const void *block, size_t bytes, size_t counted, const void *site,
                          const void *frame)
{
    struct followed sample = {.row = stack_here(site, frame),
                              .estimate = estimate_of(bytes, counted)};
    if (!follow_begin(&live, block, sample)) {
        stacks_leave(sample.row);
        fetch_add(&samples_lost, 1, RELAXED);
        return;
    }
    stacks_add(sample.row, sample.estimate);
    fetch_add(&samples, 1, RELAXED);
    PROBE_3("sample_alloc", block, bytes, site);
    traced_alloc(block, bytes, (sample.estimate.volume + VOLUME_HALF) >> VOLUME_BITS);
}

void sample_free(void *block)
{
    struct followed sample;
    if (load(&tables, ACQUIRE) == NULL || !follow_end(&live, block, &sample))
        return;
    stacks_end(sample.row, sample.estimate);
    PROBE_1("sample_free", block);
    traced_free(block);
}

bool sample_counts_down(size_t bytes)
{
    return !sample_is_inside && is_reached(size_max(bytes, 1));
}

ALWAYS_INLINE void *take_sample(size_t bytes, size_t align, bool is_zeroed, size_t counted,
                                const void *site, const void *frame, uint32_t offset)
{
    sample_is_inside = true;
    uint64_t from = ticks_now();
    void *block = sampled_alloc(bytes, align, is_zeroed, offset);
    if (block != NULL)
        note(block, size_max(bytes, 1), counted, site, frame);
    charge_sample(from);
    sample_is_inside = false;
    traced_stop_unused();
    return block;
}

void *sample_alloc(size_t bytes, size_t align, bool is_zeroed, const void *site, const void *frame,
                   uint32_t offset)
{
    return take_sample(bytes, align, is_zeroed, size_max(bytes, 1), site, frame, offset);
}

static NOINLINE void *armed_slow(size_t bytes, bool is_zeroed, const void *site, const void *frame,
                                 uint32_t entry_offset)
{
    struct cache *cache = cache_own();
    if (unlikely(cache == NULL || sample_is_inside || !sample_is_on()))
        return NULL;
    unsigned bin = entry_offset / ENTRY_BYTES, class = bin_class(bin);
    begin(class_facts[class].bytes);
    if (unlikely(!bin_is_armed_in(bin, here.start % ARMED_COHORTS)))
        return NULL; /* the table of sites is stale: its writer is not done */
    if (unlikely(is_turn(cache, class)))
        return take_sample(bytes, 1, is_zeroed, class_facts[class].bytes, site, frame,
                           OWN_OFFSET_FIRST);
    void *block = armed_alloc(cache, entry_offset);
    return block != NULL && is_zeroed ? __builtin_memset(block, 0, bytes) : block;
}

void *sample_armed(size_t bytes, bool is_zeroed, const void *site, const void *frame,
                   uint32_t entry_offset, uint32_t own_offset)
{
    struct cache *cache = of_thread.cache;
    bool is_mine = cache->armed_start == load(&sample_start_count, RELAXED) && !is_zeroed;
    void *block = likely(is_mine) ? armed_refill(cache, entry_offset, own_offset) : NULL;
    return block != NULL ? block : armed_slow(bytes, is_zeroed, site, frame, entry_offset);
}

/* Ends one request and begins another, wherever the block is then. */
void *sample_realloc(void *block, size_t bytes, const void *site, const void *frame,
                     uint32_t offset)
{
    bool is_on = sample_is_on() && !sample_is_inside && bytes <= PTRDIFF_MAX;
    bool is_hit = is_on && is_reached(bytes);
    uint64_t from = is_hit ? ticks_now() : 0;
    void *result = heap_realloc(block, bytes, offset, is_hit);
    if (!is_on || result == NULL)
        return result;
    sample_is_inside = true;
    if (result == block)
        sample_free(block);
    if (is_hit && sampled_is(result)) {
        note(result, bytes, size_max(bytes, 1), site, frame);
        charge_sample(from);
    }
    sample_is_inside = false;
    return result;
}

static size_t live_bytes(void)
{
    return LIVE_WAYS * sizeof(struct follow_way);
}

static size_t table_bytes(void)
{
    return align_up(stacks_bytes() + live_bytes() + places_bytes() + python_bytes() +
                        modules_seen_bytes(),
                    MAPPING_ALIGN);
}

/* The child draws anew, from a seed of its own: else it would sample the same requests as its
 * parent and their other children. The thread's armed entries, drawn by the parent, stay until the
 * next miss: a handler may have forked over a request that works on them. */
static void begin_in_child(uint32_t number)
{
    if (!sample_is_on())
        return;
    end_countdowns();
    uint64_t seed = load(&seed_now, RELAXED) ^ number;
    store(&seed_now, poisson_random(&seed), RELAXED);
    store(&threads_seen, 0, RELAXED);
    fetch_add(&sample_start_count, ARMED_COHORTS, RELEASE); /* the armed cohort stays the same */
}

/* Maps the tables, once. They stay mapped: a sampled block may be freed at any time. */
static bool have_tables(void)
{
    if (load(&tables, RELAXED) != NULL)
        return true;
    size_t bytes = table_bytes();
    struct extent made;
    if (extent_make_fixed(&made, bytes, MAPPING_ALIGN, NULL) != 0)
        return false;
    stacks_start(made.start);
    follow_start(&live, made.start + stacks_bytes(), LIVE_LOG2, LIVE_LOG2);
    places_start(made.start + stacks_bytes() + live_bytes());
    python_start(made.start + stacks_bytes() + live_bytes() + places_bytes());
    modules_seen_start(made.start + stacks_bytes() + live_bytes() + places_bytes() +
                       python_bytes());
    second_report_frees();
    store(&sampled_on_fork, &begin_in_child, RELAXED);
    store(&tables, made.start, RELEASE);
    return true;
}

enum sample_error sample_start(uint64_t rate, uint64_t seed)
{
    uint32_t expected = SAMPLING_OFF;
    if (rate == 0 || rate > (uint64_t)1 << POISSON_RATE_LOG2_MAX)
        return SAMPLE_BAD_RATE;
    if (!compare_swap(&sample_state, &expected, SAMPLING_CHANGES, ACQUIRE, RELAXED))
        return SAMPLE_IS_ON;
    if (!have_tables()) {
        store(&sample_state, SAMPLING_OFF, RELEASE);
        return SAMPLE_NO_MEMORY;
    }
    store(&is_seeded, seed != 0, RELAXED);
    if (seed == 0)
        os_random(&seed, sizeof seed);
    store(&rate_bytes, rate, RELAXED);
    store(&seed_now, poisson_random(&seed), RELAXED);
    store(&threads_seen, 0, RELAXED);
    if (load(&first_start_ns, RELAXED) == 0)
        store(&first_start_ns, os_clock_real_ns(), RELAXED);
    store(&on_since_ms, os_clock_ms(), RELAXED);
    fetch_add(&starts, 1, RELEASE);
    uint32_t start = fetch_add(&sample_start_count, 1, RELEASE) + 1;
    store(&sample_state, SAMPLING_ON, RELEASE);
    site_count_all(true, start);
    return SAMPLE_FINE;
}

void sample_stop(void)
{
    uint32_t expected = SAMPLING_ON;
    if (!compare_swap(&sample_state, &expected, SAMPLING_CHANGES, ACQUIRE, RELAXED))
        return;
    site_count_all(false, 0);
    sampled_drop_own(); /* other threads keep their cached sampled blocks until they end or trim */
    fetch_add(&on_before_ms, os_clock_ms() - load(&on_since_ms, RELAXED), RELAXED);
    store(&sample_state, SAMPLING_OFF, RELEASE);
}

uint32_t sample_starts(void)
{
    return load(&starts, ACQUIRE);
}

void profile_visit(void (*visit)(const struct profile_stack *stack, void *context), void *context)
{
    stacks_visit(visit, context);
}

struct profile_facts profile_facts(void)
{
    bool is_on = sample_is_on();
    uint64_t on_ms = load(&on_before_ms, RELAXED) +
                     (is_on ? os_clock_ms() - load(&on_since_ms, RELAXED) : 0);
    return (struct profile_facts){
        .rate_bytes = load(&rate_bytes, RELAXED),
        .start_ns = load(&first_start_ns, RELAXED),
        .duration_ns = on_ms * 1000000,
        .samples = load(&samples, RELAXED),
        .samples_lost = load(&samples_lost, RELAXED),
        .samples_cut = stacks_cut(),
        .is_on = is_on,
    };
}

size_t sample_mapped_bytes(void)
{
    return load(&tables, ACQUIRE) == NULL ? 0 : table_bytes();
}

size_t sample_resident_bytes(void)
{
    char *start = load(&tables, ACQUIRE);
    return start == NULL ? 0 : os_resident_bytes(start, table_bytes());
}

const struct watch_fact sample_facts[] = {
    FACT_AT("sample.state", sample_state),
    FACT_NUMBER("sample.on", SAMPLING_ON),
    FACT_AT("sample.rate", rate_bytes),
    FACT_AT("sample.samples", samples),
    FACT_AT("sample.lost", samples_lost),
    FACT_AT("sample.start_ns", first_start_ns),
    FACT_AT("sample.on_before_ms", on_before_ms),
    FACT_AT("sample.tables", tables),
    FACT_AT("live.table", live.ways),
    FACT_NUMBER("live.ways", LIVE_WAYS),
    FACT_NUMBER("live.way_bytes", sizeof(struct follow_way)),
    FACT_NUMBER("live.block", offsetof(struct follow_way, block)),
    FACT_NUMBER("live.stack", offsetof(struct follow_way, word)),
    FACT_NUMBER("live.weight", offsetof(struct follow_way, estimate.weight)),
    FACTS_END,
};
