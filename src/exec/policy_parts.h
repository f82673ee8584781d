/*
 * policy_parts.h: functions that the policies share: random numbers, and feasible cores.
 *
 * A core is feasible for a task when, by its watch line, its inbox has room and its pool has a free
 * block of the task's class.
 */
#ifndef CALM_EXEC_POLICY_PARTS_H
#define CALM_EXEC_POLICY_PARTS_H

#include "exec/policy.h"

/* SplitMix64 (Steele, Lea, Flood 2014). */
ALWAYS_INLINE uint64_t policy_mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
    x = (x ^ x >> 27) * 0x94D049BB133111EB;
    return x ^ x >> 31;
}

ALWAYS_INLINE uint64_t policy_draw(uint64_t *random)
{
    return policy_mix(*random += 0x9E3779B97F4A7C15);
}

/* A number below `limit` from 32 random bits: the high part of a product (Lemire 2019). The bias,
 * below 2^-22 for POLICY_CORES_MAX, is not corrected. */
ALWAYS_INLINE uint32_t policy_below(uint32_t bits, uint32_t limit)
{
    return (uint32_t)((uint64_t)bits * limit >> 32);
}

ALWAYS_INLINE bool policy_feasible(const struct policy_view *view, const struct policy_task *task,
                                   uint32_t core)
{
    const struct watch_line *line = &view->lines[core];
    return watch_count(line) < view->inbox_capacity &&
           (task->class >= WATCH_CLASSES || watch_free(line, task->class) != 0);
}

/* Whether the core has more than `count` free blocks of the class: one is left for another task. */
ALWAYS_INLINE bool policy_has_room(const struct watch_line *line, uint32_t class, uint32_t count)
{
    return class >= WATCH_CLASSES || watch_free(line, class) > count;
}

/* The first feasible core from `from` on, wrapping around, or POLICY_REJECT. */
static inline uint32_t policy_next_feasible(const struct policy_view *view,
                                            const struct policy_task *task, uint32_t from)
{
    uint32_t core = from;
    for (uint32_t seen = 0; seen < view->cores; seen++) {
        if (likely(policy_feasible(view, task, core)))
            return core;
        core = core + 1 < view->cores ? core + 1 : 0;
    }
    return POLICY_REJECT;
}

/* Waiting time of the oldest task in the core's inbox, in ns, plus 1. 0: none waits behind
 * `running` others. */
ALWAYS_INLINE uint64_t policy_waited(const struct policy_view *view, uint32_t core,
                                     uint32_t running)
{
    const struct watch_line *line = &view->lines[core];
    if (watch_count(line) <= running)
        return 0;
    return watch_age_ns(load(&line->oldest, RELAXED), view->now_ns) + 1;
}

#endif
