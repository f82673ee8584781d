/*
 * tail.h: times single calls and says how their times are spread.
 *
 * A call is timed by the cycle counter, fenced on both sides so that neither earlier nor later work
 * is counted. What an empty measurement costs is subtracted at the end; `empty_...` says what the
 * machine alone does to such a measurement, so a tail that is not above it is the machine's. Times
 * go into a histogram whose buckets are at most 1.6 % wide; it lies ready before the first call.
 *
 * Counters often advance in steps (`grain_ns`; 10 ns is not rare): a percentile near it is one or
 * two steps and no more; means see below it, as the calls fall anywhere within a step. Preemption
 * is counted: a maximum says as much about the machine as about the allocator. `trimmed` is the
 * mean of all but the slowest 1 in 10,000.
 */
#ifndef CALM_BENCH_TAIL_H
#define CALM_BENCH_TAIL_H

#include "workload.h"

/* Values below 2^FINE_BITS have buckets of their own; above, as many buckets for each doubling. */
enum { FINE_BITS = 6, TICKS_BITS = 42, BUCKETS = (TICKS_BITS - FINE_BITS + 1) << FINE_BITS };

struct tail {
    uint64_t count;
    uint64_t sum;
    uint64_t max;
    uint64_t calls_each; /* calls in one measurement; 0 means 1 */
    uint64_t buckets[BUCKETS];
};

static double ns_a_tick;
static double grain_ns, empty_p50_ticks, empty_trimmed_ticks;
static struct tail tail_of_empty;

static inline uint64_t ticks_before(void)
{
#if defined(__x86_64__)
    uint32_t low, high;
    __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
    uint64_t now;
    __asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(now) : : "memory");
    return now;
#else
#error "no cycle counter is known for this processor"
#endif
}

static inline uint64_t ticks_after(void)
{
#if defined(__x86_64__)
    uint32_t low, high, core;
    __asm__ volatile("rdtscp\n\tlfence" : "=a"(low), "=d"(high), "=c"(core) : : "memory");
    return (uint64_t)high << 32 | low;
#else
    return ticks_before();
#endif
}

static inline unsigned bucket_of(uint64_t ticks)
{
    if (ticks >> TICKS_BITS != 0)
        ticks = ((uint64_t)1 << TICKS_BITS) - 1;
    unsigned shift = ticks >> FINE_BITS == 0 ? 0
                                             : 63 - FINE_BITS - (unsigned)__builtin_clzll(ticks);
    return (shift << FINE_BITS) + (unsigned)(ticks >> shift);
}

/* The first value of a bucket; of bucket + 1, the first one behind it. */
static inline uint64_t bucket_start(unsigned bucket)
{
    unsigned shift = bucket >> (FINE_BITS + 1) == 0 ? 0 : (bucket >> FINE_BITS) - 1;
    return (uint64_t)(bucket - (shift << FINE_BITS)) << shift;
}

static inline void tail_add_ticks(struct tail *tail, uint64_t ticks)
{
    tail->count++;
    tail->sum += ticks;
    if (ticks > tail->max)
        tail->max = ticks;
    tail->buckets[bucket_of(ticks)]++;
}

/* Two cores' counters may differ by a little: a call that ends before it starts took no time. */
static inline void tail_add(struct tail *tail, uint64_t before, uint64_t after)
{
    tail_add_ticks(tail, after > before ? after - before : 0);
}

static inline void tail_merge(struct tail *into, const struct tail *from)
{
    into->count += from->count;
    into->sum += from->sum;
    if (from->max > into->max)
        into->max = from->max;
    for (unsigned i = 0; i < BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
}

/* Measured ticks as ns a call: without the cost of measuring, never below zero. */
static inline double tail_ns(const struct tail *tail, double ticks, double empty_ticks)
{
    double net = ticks > empty_ticks ? ticks - empty_ticks : 0;
    return net * ns_a_tick / (double)(tail->calls_each == 0 ? 1 : tail->calls_each);
}

static inline double bucket_middle(unsigned bucket)
{
    return (double)(bucket_start(bucket) + bucket_start(bucket + 1) - 1) / 2;
}

/* The ticks that `percent` of the measurements did not exceed: the middle of their bucket. */
static inline double tail_ticks_at(const struct tail *tail, double percent)
{
    uint64_t below = 0, wanted = (uint64_t)((double)tail->count * percent / 100 + 0.5);
    if (wanted >= tail->count)
        return (double)tail->max;
    for (unsigned i = 0; i < BUCKETS; i++) {
        below += tail->buckets[i];
        if (below >= wanted && below > 0)
            return bucket_middle(i) < (double)tail->max ? bucket_middle(i) : (double)tail->max;
    }
    return (double)tail->max;
}

static inline double tail_trimmed_ticks(const struct tail *tail)
{
    uint64_t left = tail->count - tail->count / 10000, wanted = left;
    double sum = 0;
    for (unsigned i = 0; i < BUCKETS && left > 0; i++) {
        uint64_t taken = tail->buckets[i] < left ? tail->buckets[i] : left;
        sum += (double)taken * bucket_middle(i);
        left -= taken;
    }
    return wanted == 0 ? 0 : sum / (double)wanted;
}

static inline double tail_percentile(const struct tail *tail, double percent)
{
    return tail_ns(tail, tail_ticks_at(tail, percent), empty_p50_ticks);
}

static inline double tail_trimmed(const struct tail *tail)
{
    return tail_ns(tail, tail_trimmed_ticks(tail), empty_trimmed_ticks);
}

static inline double tail_share_over(const struct tail *tail, double ns)
{
    uint64_t over = 0;
    for (unsigned i = 0; i < BUCKETS; i++)
        if (tail_ns(tail, (double)bucket_start(i), empty_p50_ticks) > ns)
            over += tail->buckets[i];
    return tail->count == 0 ? 0 : (double)over / (double)tail->count;
}

/* Adds NAME_p50_ns and so on, the shares above 100 ns, 1 us and 10 us, and the curve NAME_ns. */
static inline void tail_result(const char *name, const struct tail *tail)
{
    static const struct {
        const char *suffix;
        double percent;
    } numbers[] = {{"p50_ns", 50},    {"p90_ns", 90},      {"p99_ns", 99},
                   {"p999_ns", 99.9}, {"p9999_ns", 99.99}, {"max_ns", 100}};
    static const struct {
        const char *suffix;
        double ns;
    } shares[] = {{"over_100ns_share", 100}, {"over_1us_share", 1000}, {"over_10us_share", 10000}};
    static const double at[] = {0,     10,     20,    30,     40,     50,      60,    70,
                                80,    90,     95,    97.5,   99,     99.5,    99.75, 99.9,
                                99.95, 99.975, 99.99, 99.995, 99.999, 99.9999, 100};
    enum { POINTS = sizeof at / sizeof *at };
    double points[POINTS][2];
    char full[96];
    if (tail->count == 0)
        fail("no call of %s was timed", name);
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        snprintf(full, sizeof full, "%s_%s", name, numbers[i].suffix);
        result_number(full, tail_percentile(tail, numbers[i].percent));
    }
    snprintf(full, sizeof full, "%s_mean_ns", name);
    result_number(full,
                  tail_ns(tail, (double)tail->sum / (double)tail->count, empty_trimmed_ticks));
    snprintf(full, sizeof full, "%s_trimmed_ns", name);
    result_number(full, tail_trimmed(tail));
    for (unsigned i = 0; i < sizeof shares / sizeof *shares; i++) {
        snprintf(full, sizeof full, "%s_%s", name, shares[i].suffix);
        result_number(full, tail_share_over(tail, shares[i].ns));
    }
    for (unsigned i = 0; i < POINTS; i++) {
        points[i][0] = at[i];
        points[i][1] = tail_percentile(tail, at[i]);
    }
    snprintf(full, sizeof full, "%s_ns", name);
    result_series(full, points, POINTS);
}

/* Only to see the counter's steps: quick, and in no order with anything. */
static inline uint64_t ticks_unfenced(void)
{
#if defined(__x86_64__)
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
#else
    return ticks_before();
#endif
}

/* Calibrates the counter against the clock, and measures nothing half a million times. */
static inline void tail_begin(void)
{
    enum { EMPTY_CALLS = 500000, STEPS = 2000 };
    double start = read_clocks().wall, now;
    uint64_t first = ticks_before();
    while ((now = read_clocks().wall) - start < 0.02)
        ;
    ns_a_tick = (now - start) * 1e9 / (double)(ticks_after() - first);
    for (unsigned i = 0; i < EMPTY_CALLS; i++) {
        uint64_t before = ticks_before(), after = ticks_after();
        tail_add(&tail_of_empty, before, after);
    }
    uint64_t grain = UINT64_MAX, last = ticks_unfenced();
    for (unsigned i = 0; i < STEPS; i++) {
        uint64_t next = ticks_unfenced();
        if (next > last && next - last < grain)
            grain = next - last;
        last = next;
    }
    grain_ns = tail_ns(&tail_of_empty, (double)grain, 0);
    empty_p50_ticks = tail_ticks_at(&tail_of_empty, 50);
    empty_trimmed_ticks = tail_trimmed_ticks(&tail_of_empty);
}

/*
 * Waits that take as long as the calls in a tail, by the counter alone: what the machine does to as
 * much time that is not spent in an allocator. A call that takes twice as long as nothing is hit by
 * twice as many interrupts, so it is these that a share of long calls is held against.
 */
struct waits {
    struct tail tail;
    double shortest_ticks; /* a wait for no time at all */
    uint64_t ticks;
};

static inline void timed_wait(struct waits *waits)
{
    uint64_t before = ticks_before();
    while (ticks_unfenced() - before < waits->ticks)
        ;
    tail_add(&waits->tail, before, ticks_after());
}

static inline void waits_begin(struct waits *waits)
{
    enum { SHORTEST_CALLS = 10000 };
    for (unsigned i = 0; i < SHORTEST_CALLS; i++)
        timed_wait(waits);
    waits->shortest_ticks = tail_trimmed_ticks(&waits->tail);
    waits->tail = (struct tail){0};
}

/* One wait, as long as `calls` were on average: looked up from time to time, often at first. */
static inline void timed_wait_like(struct waits *waits, const struct tail *calls)
{
    enum { CALLS_EACH = 4096 };
    if (calls->count % CALLS_EACH == 0 || (calls->count & (calls->count - 1)) == 0) {
        double longer = tail_trimmed_ticks(calls) - waits->shortest_ticks;
        waits->ticks = longer > 0 ? (uint64_t)longer : 0;
    }
    timed_wait(waits);
}

/* What was subtracted, and what half a million empty measurements show beyond it. */
static inline void tail_result_empty(void)
{
    result_number("grain_ns", grain_ns);
    result_number("empty_ns", empty_trimmed_ticks * ns_a_tick);
    result_number("empty_p999_ns", tail_percentile(&tail_of_empty, 99.9));
    result_number("empty_p9999_ns", tail_percentile(&tail_of_empty, 99.99));
    result_number("empty_max_ns", tail_percentile(&tail_of_empty, 100));
}

/* --- stamps: the first and the last eight bytes of a block say whose it is --- */

static inline void stamp_put(void *block, size_t bytes, uint64_t stamp)
{
    memcpy(block, &stamp, sizeof stamp);
    memcpy((char *)block + bytes - sizeof stamp, &stamp, sizeof stamp);
    __asm__ volatile("" : : "r"(block) : "memory");
}

static inline void stamp_verify(const void *block, size_t bytes, uint64_t stamp)
{
    uint64_t first, last;
    memcpy(&first, block, sizeof first);
    memcpy(&last, (const char *)block + bytes - sizeof last, sizeof last);
    if (first != stamp || last != stamp)
        fail("a live block of %zu bytes was written to by someone else", bytes);
}

/* One malloc into `tail`, stamped outside the measurement. */
static inline void *timed_malloc(struct tail *tail, size_t bytes, uint64_t stamp)
{
    uint64_t before = ticks_before();
    void *block = malloc(bytes);
    uint64_t after = ticks_after();
    if (block == NULL)
        fail("malloc(%zu) returned NULL", bytes);
    tail_add(tail, before, after);
    stamp_put(block, bytes, stamp);
    return block;
}

/* One free into `tail`, its stamp read outside the measurement. */
static inline void timed_free(struct tail *tail, void *block, size_t bytes, uint64_t stamp)
{
    stamp_verify(block, bytes, stamp);
    uint64_t before = ticks_before();
    free(block);
    uint64_t after = ticks_after();
    tail_add(tail, before, after);
}

#endif
