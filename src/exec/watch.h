/*
 * watch.h: the one cache line by which a core tells dispatchers how it is.
 *
 * The core itself writes all of it but `count` and `oldest`. Whoever submits takes a place by
 * adding to `count` before the task is in the inbox, and the core gives it back when the task is
 * done, so that a burst of submissions sees itself, and no inbox is asked for more slots than it
 * has.
 *
 * Readers are dispatchers on any core. Every word is read by itself; a set of them need not belong
 * to one moment, and a policy must bear that. Nothing here keeps a promise: a core that had a free
 * block may have none when the task begins. Protocol: docs/protocols/watch.md   Design:
 * docs/design/executor.md
 */
#ifndef CALM_EXEC_WATCH_H
#define CALM_EXEC_WATCH_H

#include "base/atomic.h"
#include "base/attr.h"
#include "base/bits.h"
#include "calmalloc/exec.h"

enum {
    WATCH_CLASSES = 16,   /* block classes of a pool that are published */
    WATCH_STEP_SHIFT = 6, /* a smoothed time moves by 1/2^6 of a sample's distance */
    WATCH_TRIES_MAX = 64, /* for a place; each lost one is another thread's success */
    /* A sample counts as at most so many times the smoothed time: of sizes that differ by 500, the
     * average would tell what was last served instead of how fast the core is. */
    WATCH_SAMPLE_MAX = 4,
    /* Of so few the average is at most so many times the last, or a long first task would mark the
     * core for long. */
    WATCH_FEW = 8,
    WATCH_FIRST_MAX = 16,
};

struct watch_line {
    /* Places that are taken: of tasks that wait here, run here, or are on their way. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t count;

    /* Written by whoever makes a task the first that waits in the inbox, the core, a thief or a
     * submitter: when that was submitted. It may lag behind; used for ranking only, and only while
     * two are in flight. */
    _Atomic uint32_t oldest;

    /* Written by the core only. */
    _Atomic uint32_t service_ns; /* smoothed time of a task on this core; 0 before the first */
    _Atomic uint32_t latency_ns; /* smoothed time from submission to end                     */
    _Atomic uint32_t served;     /* tasks that these times are of, up to 2^WATCH_STEP_SHIFT  */
    _Atomic uint16_t free_blocks[WATCH_CLASSES]; /* what the core itself could allocate now */
};
_Static_assert(sizeof(struct watch_line) == CACHE_LINE_BYTES, "what a core says is one line");

ALWAYS_INLINE uint32_t watch_count(const struct watch_line *line)
{
    return load(&line->count, RELAXED);
}

ALWAYS_INLINE uint32_t watch_free(const struct watch_line *line, unsigned class)
{
    return load(&line->free_blocks[class], RELAXED);
}

/* W1 takes a place among `capacity`, before the task enters the inbox: pairs with W2, so that who
 * takes a place finds the slot that went with it. False: all are taken. */
ALWAYS_INLINE bool watch_reserve(struct watch_line *line, uint32_t capacity)
{
    uint32_t count = load(&line->count, RELAXED);
    for (unsigned tries = 0; tries < WATCH_TRIES_MAX && count < capacity; tries++)
        if (compare_swap(&line->count, &count, count + 1, ACQUIRE, RELAXED))
            return true;
    return false;
}

/* W1 for a task that runs here without a slot of this inbox: a stolen one, or one that was held. */
ALWAYS_INLINE void watch_arrived(struct watch_line *line)
{
    fetch_add(&line->count, 1, RELAXED);
}

/* W2 the task is no longer there: done or stolen, and its slot given back. */
ALWAYS_INLINE void watch_left(struct watch_line *line)
{
    fetch_sub(&line->count, 1, RELEASE);
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

/* W3 the task that now waits longest was submitted at `submitted_ns`. */
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
 * W4 the core has run a task for `service_ns`, `latency_ns` after its submission. Additions, a
 * comparison and shifts; called by the line's core only. `line` may also be a private copy.
 */
static inline void watch_served(struct watch_line *line, uint32_t service_ns, uint32_t latency_ns)
{
    int64_t service = load(&line->service_ns, RELAXED), latency = load(&line->latency_ns, RELAXED);
    uint32_t served = load(&line->served, RELAXED);
    int64_t most = served == 0 ? UINT32_MAX : service * WATCH_SAMPLE_MAX;
    if (unlikely(served < 1u << WATCH_STEP_SHIFT)) {
        if (served < WATCH_FEW && service > (int64_t)service_ns * WATCH_FIRST_MAX)
            service = (int64_t)service_ns * WATCH_FIRST_MAX;
        store(&line->served, ++served, RELAXED);
    }
    unsigned shift = bit_highest(served); /* the first few move it more */
    service += watch_step((service_ns < most ? service_ns : most) - service, shift);
    latency += watch_step((int64_t)latency_ns - latency, shift);
    store(&line->service_ns, (uint32_t)(service > 0 ? service : 1), RELAXED);
    store(&line->latency_ns, (uint32_t)latency, RELAXED);
}

#endif
