/*
 * policy_parts.h: what the policies share: their random numbers, and which cores are feasible.
 *
 * A core is feasible for a task when its inbox has room and its pool has a free block of the task's
 * class, as far as its watch line says.
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

/* A number below `limit` from 32 random bits: the high part of a product (Lemire 2019); the bias,
 * below 2^-22 for as many cores as there can be, is left in. */
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

/* The first feasible core from `from` on, all around, or POLICY_REJECT. */
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

enum { RANDOM_TRIES = 4 };

/* A random feasible core: a few draws, then the next one around, so that the loop is bounded. */
static inline uint32_t policy_random_feasible(const struct policy_view *view,
                                              const struct policy_task *task, uint64_t *random)
{
    uint32_t core = 0;
    for (unsigned i = 0; i < RANDOM_TRIES; i++) {
        core = policy_below((uint32_t)policy_draw(random), view->cores);
        if (likely(policy_feasible(view, task, core)))
            return core;
    }
    return policy_next_feasible(view, task, core);
}

/* How long the oldest task in the core's inbox has waited, in ns and one more; 0 when none waits
 * behind `running` others. */
ALWAYS_INLINE uint64_t policy_waited(const struct policy_view *view, uint32_t core,
                                     uint32_t running)
{
    const struct watch_line *line = &view->lines[core];
    if (watch_count(line) <= running)
        return 0;
    return watch_age_ns(load(&line->oldest, RELAXED), view->now_ns) + 1;
}

/* Cores that a thief looks at: one that has work of its own, and one that has none. */
enum { STEAL_LOOKS_BUSY = 2, STEAL_LOOKS_IDLE = 64 };

/* Whom a thief may rob at all; NULL: anybody. */
typedef bool policy_may_rob(const struct policy_view *view, uint32_t victim, uint32_t thief);

ALWAYS_INLINE bool policy_has_loot(const struct policy_view *view, uint32_t core)
{
    return view->has_loot == NULL || view->has_loot(view->loot, core);
}

/*
 * The core whose oldest task has waited longest, of as many as a thief looks at from a random one
 * on, or POLICY_NOBODY. A thief that has work of its own takes another's only when that has waited
 * a service time longer; one that has none looks on until it finds somebody.
 */
ALWAYS_INLINE uint32_t policy_victim(const struct policy_view *view, uint32_t thief, uint64_t bits,
                                     policy_may_rob *may_rob)
{
    if (view->has_no_loot)
        return POLICY_NOBODY;
    uint64_t longest = policy_waited(view, thief, 0);
    bool has_work = longest > 0;
    if (has_work)
        longest += load(&view->lines[thief].service_ns, RELAXED);
    uint32_t core = policy_below((uint32_t)bits, view->cores);
    uint32_t victim = POLICY_NOBODY;
    for (uint32_t seen = 1; seen <= view->cores; seen++) {
        while (!has_work && victim == POLICY_NOBODY && seen < view->cores &&
               watch_count(&view->lines[core]) <= 1) { /* most looks: nothing waits there */
            core = core + 1 < view->cores ? core + 1 : 0;
            seen++;
        }
        uint64_t waited = policy_waited(view, core, 1);
        if (waited > longest && core != thief && (may_rob == NULL || may_rob(view, core, thief)) &&
            policy_has_loot(view, core)) {
            longest = waited;
            victim = core;
        }
        if (has_work ? seen >= STEAL_LOOKS_BUSY
                     : seen >= STEAL_LOOKS_IDLE && victim != POLICY_NOBODY)
            break;
        core = core + 1 < view->cores ? core + 1 : 0;
    }
    return victim;
}

ALWAYS_INLINE struct policy_choice policy_chose(uint32_t core)
{
    return (struct policy_choice){.core = core};
}

#endif
