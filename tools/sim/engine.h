/*
 * engine.h: the simulated executor: cores with an inbox and a pool each, one dispatcher, discrete
 * events.
 *
 * A task arrives, a policy places it, the core runs its inbox in order. When a task begins it takes
 * a block of its class, and fails at once when there is none; the block is kept for a while after
 * the task and then freed, by the core itself or remotely. A core takes back remote frees when it
 * begins a task. Time is in ns, as a double. Everything follows from the options and the seed.
 * Design: docs/design/simulator.md
 */
#ifndef CALM_SIM_ENGINE_H
#define CALM_SIM_ENGINE_H

#include "base/bits.h"
#include "base/check.h"
#include "exec/policy.h"
#include "quantiles.h"
#include "traffic.h"

enum full_rule { FULL_REJECT, FULL_SHED, FULL_WAIT };

struct engine_options {
    const struct policy *policy;
    struct traffic_options traffic; /* the engine sets its rate */
    enum service_kind then;         /* the service times of the second half of the tasks */
    uint32_t cores;
    double load; /* of what all cores together can do */
    uint64_t tasks;
    uint64_t warmup; /* first tasks, that are not counted */
    uint32_t slow_cores;
    double slow_factor;
    uint64_t drift_tasks; /* after so many, other cores are slow; 0: never */
    uint32_t blocks;      /* of each class on a core; 0: without limit     */
    uint32_t tight_cores; /* the first so many have tight_blocks instead   */
    uint32_t tight_blocks;
    double delay_ns; /* from decision to inbox, from event to published line, and for a theft */
    double wake_ns;  /* until a core that was idle begins a task */
    uint32_t inbox_capacity;
    enum full_rule full;
    double deadline_ns;         /* of FULL_WAIT */
    uint64_t (*clock_ns)(void); /* to time decisions by; NULL: they are not timed */
};

struct engine_counts {
    uint64_t offered, done, rejected, shed, failed; /* failed: no block when it began */
    uint64_t decisions, steals;
    uint64_t stranded;     /* failed or rejected while another core had a free block of the class */
    double stranded_share; /* sum of the shares of the class's blocks that were free then         */
};

struct engine {
    struct engine_options options;
    struct engine_counts counts; /* of tasks after the warm-up */
    struct quantiles sojourn;    /* ns                         */
    struct quantiles slowdown;   /* thousandths of its service time on an ordinary core */
    double begun_ns, ended_ns;   /* of what is counted         */
    double task_ns;              /* integral of tasks in the system, from begun_ns on */
    uint64_t all_offered, all_left, in_system;
    uint64_t timed, timed_ns; /* decisions that the clock was read for, and what they took */
    uint64_t *done_by_core;
    struct engine_parts *parts;
};

/* False when there is no memory. */
bool engine_start(struct engine *engine, const struct engine_options *options);
void engine_stop(struct engine *engine);

/* Runs at most `events` events; false when nothing is left to do. */
bool engine_run(struct engine *engine, uint64_t events);

/* NULL, or the first invariant that does not hold:
 *   E1 every task offered is done, rejected, shed, failed or in the system
 *   E2 a line's count is what is queued, running or on its way; of each class as many tasks
 *      are the oldest of an inbox as are counted
 *   E3 a class's blocks are free, in use, kept or remotely freed, and as many as there were
 *   E4 a core has no more tasks than its inbox has places, and one that it stole */
verdict engine_verify(const struct engine *engine);

#endif
