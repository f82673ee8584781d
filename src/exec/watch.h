/*
 * watch.h: the one cache line by which a core tells dispatchers how it is.
 *
 * The core itself writes all of it but `load`, to which whoever submits adds before the task is in
 * the inbox and from which the core takes when the task is done, so that a burst of submissions
 * sees itself. Count and predicted work of what is in flight share that word: one atomic addition
 * for both.
 *
 * Readers are dispatchers on any core. Every word is read by itself; a set of them need not belong
 * to one moment, and a policy must bear that. Nothing here keeps a promise: a core that had a free
 * block may have none when the task begins. Protocol: docs/protocols/watch.md   Design:
 * docs/design/policies.md
 */
#ifndef CALM_EXEC_WATCH_H
#define CALM_EXEC_WATCH_H

#include "base/atomic.h"
#include "base/attr.h"
#include "calmalloc/exec.h"

enum {
    WATCH_CLASSES = 16, /* block classes of a pool that are published */
    WATCH_WORK_BITS = 43,
    WATCH_WORK_SHIFT = 8, /* predicted work is kept in units of 256 ns, rounded up */
    /* And is cut here, about a second, so that twice what an inbox may hold still fits. */
    WATCH_WORK_MAX_NS = 1 << 30,
    /* The smoothed service time moves by 1/2^6 of a sample's distance, its quick fellow by 1/2^4.
     */
    WATCH_SLOW_SHIFT = 6,
    WATCH_QUICK_SHIFT = 4,
    /* A sample counts as at most so many times the smoothed time: of sizes that differ by 500, the
     * average would tell what was last served instead of how fast the core is. */
    WATCH_SAMPLE_MAX = 4,
};

struct watch_line {
    /* Added to by who submits, taken from by the core: tasks in flight above WATCH_WORK_BITS, below
     * it the sum of their size hints. */
    _Atomic uint64_t load;

    /* Written by whoever makes a task the first that waits in the inbox, the core, a thief or a
     * submitter: when that was submitted. It may lag behind; used for ranking only, and only while
     * two are in flight. */
    _Atomic uint32_t oldest;

    /* Written by the core only. */
    _Atomic uint32_t begun;      /* when its running task began; see watch_age_ns() */
    _Atomic uint32_t service_ns; /* smoothed time of a task on this core; 0 before the first    */
    _Atomic int32_t drift_ns;    /* of service_ns: the quick average minus the slow one         */
    _Atomic uint32_t latency_ns; /* smoothed time from submission to end                        */
    _Atomic uint32_t remote_backlog; /* blocks freed by other cores and not yet taken back */
    _Atomic uint16_t free_blocks[WATCH_CLASSES]; /* what the core itself could allocate now */
};
_Static_assert(sizeof(struct watch_line) == CACHE_LINE_BYTES, "what a core says is one line");
_Static_assert(2ull * CALM_EXEC_INBOX_MAX * (WATCH_WORK_MAX_NS >> WATCH_WORK_SHIFT) <=
                   1ull << WATCH_WORK_BITS,
               "the work of all that may be in flight does not reach the count");
_Static_assert(2ull * CALM_EXEC_INBOX_MAX - 1 <= UINT64_MAX >> WATCH_WORK_BITS,
               "nor does the count leave the word");

ALWAYS_INLINE uint32_t load_count(uint64_t word)
{
    return (uint32_t)(word >> WATCH_WORK_BITS);
}

ALWAYS_INLINE uint64_t load_work_ns(uint64_t word)
{
    return (word & (((uint64_t)1 << WATCH_WORK_BITS) - 1)) << WATCH_WORK_SHIFT;
}

/* What one task adds to `load`. */
ALWAYS_INLINE uint64_t load_of(uint32_t hint_ns)
{
    uint64_t work = hint_ns < WATCH_WORK_MAX_NS ? hint_ns : (uint64_t)WATCH_WORK_MAX_NS;
    uint64_t round_up = ((uint64_t)1 << WATCH_WORK_SHIFT) - 1;
    return ((uint64_t)1 << WATCH_WORK_BITS) + ((work + round_up) >> WATCH_WORK_SHIFT);
}

ALWAYS_INLINE uint32_t watch_count(const struct watch_line *line)
{
    return load_count(load(&line->load, RELAXED));
}

ALWAYS_INLINE uint32_t watch_free(const struct watch_line *line, unsigned class)
{
    return load(&line->free_blocks[class], RELAXED);
}

/* W1 a task is on its way to the core, and W2 it is no longer there: done, shed or stolen. */
ALWAYS_INLINE void watch_submitted(struct watch_line *line, uint32_t hint_ns)
{
    fetch_add(&line->load, load_of(hint_ns), RELAXED);
}

ALWAYS_INLINE void watch_left(struct watch_line *line, uint32_t hint_ns)
{
    fetch_sub(&line->load, load_of(hint_ns), RELAXED);
}

/* Moments are kept in units of 16 ns, modulo 2^32: ages up to a minute can be told. */
enum { WATCH_MOMENT_SHIFT = 4 };

ALWAYS_INLINE uint32_t watch_moment(uint64_t ns)
{
    return (uint32_t)(ns >> WATCH_MOMENT_SHIFT);
}

ALWAYS_INLINE uint64_t watch_age_ns(uint32_t moment, uint64_t now_ns)
{
    int32_t age = (int32_t)(watch_moment(now_ns) - moment);
    return age > 0 ? (uint64_t)age << WATCH_MOMENT_SHIFT : 0;
}

/* W3 the core begins a task. */
ALWAYS_INLINE void watch_began(struct watch_line *line, uint64_t now_ns)
{
    store(&line->begun, watch_moment(now_ns), RELAXED);
}

/* W4 the task that now waits longest was submitted at `submitted_ns`. */
ALWAYS_INLINE void watch_oldest(struct watch_line *line, uint64_t submitted_ns)
{
    store(&line->oldest, watch_moment(submitted_ns), RELAXED);
}

/* A part of the way, rounded away from zero: else an average would stop 63 ns before where it goes.
 */
ALWAYS_INLINE int64_t watch_step(int64_t way, unsigned shift)
{
    int64_t more = ((int64_t)1 << shift) - 1;
    return (way + (way > 0 ? more : -more)) / ((int64_t)1 << shift);
}

/*
 * W5 the core has run a task for `service_ns`, `latency_ns` after its submission. Two additions, a
 * comparison and shifts; called by the line's core only. `line` may also be a private copy.
 */
static inline void watch_served(struct watch_line *line, uint32_t service_ns, uint32_t latency_ns)
{
    uint32_t slow = load(&line->service_ns, RELAXED);
    if (unlikely(slow == 0)) {
        store(&line->service_ns, service_ns | 1, RELAXED);
        store(&line->latency_ns, latency_ns, RELAXED);
        return;
    }
    uint64_t most = (uint64_t)slow * WATCH_SAMPLE_MAX;
    int64_t sample = service_ns < most ? (int64_t)service_ns : (int64_t)most;
    int64_t quick = (int64_t)slow + load(&line->drift_ns, RELAXED);
    quick += watch_step(sample - quick, WATCH_QUICK_SHIFT);
    int64_t next = (int64_t)slow + watch_step(sample - (int64_t)slow, WATCH_SLOW_SHIFT);
    int64_t latency = load(&line->latency_ns, RELAXED);
    latency += watch_step((int64_t)latency_ns - latency, WATCH_SLOW_SHIFT);
    store(&line->service_ns, (uint32_t)(next > 0 ? next : 1), RELAXED);
    store(&line->drift_ns, (int32_t)(quick - next), RELAXED);
    store(&line->latency_ns, (uint32_t)latency, RELAXED);
}

#endif
