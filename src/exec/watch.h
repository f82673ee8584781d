/*
 * watch.h: one cache line for each core, which tells dispatchers the core's load.
 *
 * The core writes all of it but `count` and `oldest`. A submitter adds to `count` before the task
 * is in the inbox; the core subtracts when the task is done. So a burst of submissions counts
 * itself, and no inbox is asked for more slots than it has.
 *
 * Dispatchers on any core read it. Each word is read by itself; several words need not be of one
 * moment, and policies must tolerate that. Nothing here is a promise: a core that had a free block
 * may have none when the task begins. Protocol: docs/protocols/watch.md   Design:
 * docs/design/executor.md
 */
#ifndef CALM_EXEC_WATCH_H
#define CALM_EXEC_WATCH_H

#include "base/atomic.h"
#include "base/attr.h"
#include "base/bits.h"
#include "calmalloc/exec.h"

enum {
    WATCH_CLASSES = 16,   /* published block classes of a pool */
    WATCH_STEP_SHIFT = 6, /* smoothing: a step is 1/2^6 of the distance to the sample */
    WATCH_TRIES_MAX = 64, /* for a place; each failed try is another thread's success */
    /* A sample is capped at this multiple of the smoothed time: with task times that differ
     * 500-fold, the average would show the last task, not the core's speed. */
    WATCH_SAMPLE_MAX = 4,
    /* In the first WATCH_FEW samples the average is capped at WATCH_FIRST_MAX times the last
     * sample, so that a long first task does not mark the core as slow for long. */
    WATCH_FEW = 8,
    WATCH_FIRST_MAX = 16,
};

struct watch_line {
    /* Places taken: by tasks that wait, run or are on their way here. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t count;

    /* When the oldest waiting task was submitted. Written by whichever thread makes a task the
     * first in the inbox: the core, a thief or a submitter. May be stale; used only to rank cores,
     * and only while two tasks are in flight. */
    _Atomic uint32_t oldest;

    /* Written by the core only. */
    _Atomic uint32_t service_ns; /* smoothed run time of a task; 0 before the first */
    _Atomic uint32_t latency_ns; /* smoothed time from submission to end                     */
    _Atomic uint32_t served;     /* samples in these times, up to 2^WATCH_STEP_SHIFT         */
    _Atomic uint16_t free_blocks[WATCH_CLASSES]; /* blocks that the core could allocate now */
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

/* W1 takes one of `capacity` places, before the task enters the inbox. Pairs with W2, so that a
 * thread with a place finds the slot freed with it. False: none is free, or WATCH_TRIES_MAX tries
 * failed. */
ALWAYS_INLINE bool watch_reserve(struct watch_line *line, uint32_t capacity)
{
    uint32_t count = load(&line->count, RELAXED);
    for (unsigned tries = 0; tries < WATCH_TRIES_MAX && count < capacity; tries++)
        if (compare_swap(&line->count, &count, count + 1, ACQUIRE, RELAXED))
            return true;
    return false;
}

/* W1 for a task that runs here without a slot of this inbox: a stolen or a held one. */
ALWAYS_INLINE void watch_arrived(struct watch_line *line)
{
    fetch_add(&line->count, 1, RELAXED);
}

/* W2 the task is done or stolen, and its slot was returned. */
ALWAYS_INLINE void watch_left(struct watch_line *line)
{
    fetch_sub(&line->count, 1, RELEASE);
}

/* Moments are in units of 16 ns, modulo 2^32, so ages up to 34 s can be told. */
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

/* W3 the longest waiting task was submitted at `submitted_ns`. */
ALWAYS_INLINE void watch_oldest(struct watch_line *line, uint64_t submitted_ns)
{
    store(&line->oldest, watch_moment(submitted_ns), RELAXED);
}

/* A fraction of `way`, rounded away from zero: truncation would stop the average up to 63 ns
 * short. */
ALWAYS_INLINE int64_t watch_step(int64_t way, unsigned shift)
{
    int64_t more = ((int64_t)1 << shift) - 1;
    return (way + (way > 0 ? more : -more)) / ((int64_t)1 << shift);
}

/*
 * W4 the core ran a task for `service_ns`, which ended `latency_ns` after its submission.
 * Additions, a comparison and shifts. Only the line's core calls it; `line` may also be a private
 * copy.
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
    unsigned shift = bit_highest(served); /* the first samples weigh more */
    service += watch_step((service_ns < most ? service_ns : most) - service, shift);
    latency += watch_step((int64_t)latency_ns - latency, shift);
    store(&line->service_ns, (uint32_t)(service > 0 ? service : 1), RELAXED);
    store(&line->latency_ns, (uint32_t)latency, RELAXED);
}

#endif
