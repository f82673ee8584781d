/*
 * parts.h: the inside of the simulated executor, shared by its sources.
 */
#ifndef CALM_SIM_PARTS_H
#define CALM_SIM_PARTS_H

#include "engine.h"
#include "heap.h"
#include "ring.h"

#define NO_TASK UINT32_MAX

struct task {
    double arrival_ns;
    double service_ns;
    double deadline_ns; /* while it waits for a block */
    double hold_ns;     /* of its block; below 0: to be drawn */
    uint64_t key;
    uint32_t class;
    uint32_t next; /* in a queue, or among the unused */
    bool is_counted;
};

/* Tasks, oldest first. */
struct queue {
    uint32_t head, tail, count;
};

struct core {
    struct queue inbox;
    uint32_t running;    /* task, or NO_TASK */
    uint32_t on_the_way; /* tasks            */
    double begun_ns;
    double slow_factor;
    /* Blocks of each class: free, taken by a running task or kept after one, and freed by others.
     */
    uint32_t free[WATCH_CLASSES];
    uint32_t in_use[WATCH_CLASSES];
    uint32_t backlog[WATCH_CLASSES];
    uint32_t backlog_total;
    uint32_t blocks; /* of each class, in all */
    bool is_waking;  /* for what others freed while it was idle */
};

struct delivery {
    double at_ns;
    uint32_t core, task;
};

/* News of a core on its way to the dispatcher. */
struct notice {
    double at_ns;
    uint32_t core;
    bool has_left; /* a task */
    struct watch_line line;
};

struct engine_parts {
    struct traffic traffic;
    struct traffic_task next;
    bool has_next;
    double now_ns;
    struct core *cores;
    double *busy_until_ns;
    struct watch_line *lines;     /* as the cores know them                                    */
    struct watch_line *published; /* as the dispatcher sees them: the same when there is no delay */
    const struct policy *policy;
    void *state;
    struct task *tasks;
    uint32_t task_capacity, unused_task;
    struct queue held, waiting; /* at the dispatcher: by the policy's wish; for a block */
    struct heap completions, releases;
    struct ring deliveries, notices;
    uint64_t *idle; /* a bit a core */
    uint32_t idle_count, thief_from;
    /* Cores whose oldest waiting task is of the class; a bit a class that has any. */
    uint32_t heads[WATCH_CLASSES + 1];
    uint32_t has_heads;
    uint64_t free_total[WATCH_CLASSES];
    uint64_t block_total; /* of each class, over all cores */
    uint64_t since_drift;
    uint32_t slow_from;
    double summed_ns; /* until where task_ns goes */
};

ALWAYS_INLINE bool has_blocks(const struct engine *engine, uint32_t class)
{
    return class < WATCH_CLASSES && engine->options.blocks > 0;
}

/* loot.c: what `thief` may take: whether it is at a core, for the policy; and whether it is at none
 * at all. */
struct loot {
    const struct engine *engine;
    uint32_t thief;
};
struct loot loot_of(const struct engine *engine, uint32_t thief);
bool loot_is_at(const void *loot, uint32_t core);
bool loot_is_nowhere(const struct loot *loot);

/* engine_memory.c: everything there is memory for. */
bool parts_start(struct engine *engine);
void parts_stop(struct engine_parts *parts);
void set_slow_cores(struct engine *engine);

#endif
