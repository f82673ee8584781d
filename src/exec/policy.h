/*
 * policy.h: the interface of policies, which choose a task's core: one table of functions each.
 *
 * A policy reads the cores' watch lines, the task's own data, and a state in memory that the caller
 * gives. It allocates nothing, calls nothing and reads no clock: the caller passes the time. Equal
 * seeds and equal calls give equal decisions. The executor and the simulator link the same objects.
 *
 * A state belongs to one thread at a time; each dispatcher has its own. Every loop is bounded by
 * the number of cores; docs/dispatch.md has the cost of each policy. Design:
 * docs/design/executor.md
 */
#ifndef CALM_EXEC_POLICY_H
#define CALM_EXEC_POLICY_H

#include "exec/watch.h"

enum {
    POLICY_CORES_MAX = 1024,
    POLICY_STATE_ALIGN = CACHE_LINE_BYTES,
    POLICY_NO_CLASS = WATCH_CLASSES, /* class of a task without a block */
};

/* In place of a core. REJECT: no core is feasible; the caller applies its rule. HOLD: keep the task
 * and ask again when a core has finished one. */
#define POLICY_REJECT UINT32_MAX
#define POLICY_HOLD (UINT32_MAX - 1)
#define POLICY_NOBODY UINT32_MAX /* no victim */

struct policy_setup {
    uint32_t cores; /* 1 to POLICY_CORES_MAX */
    uint32_t inbox_capacity;
    uint64_t seed;
    /* Simulator only, else NULL: when each core finishes its present tasks. For the oracle. */
    const double *busy_until_ns;
};

struct policy_view {
    const struct watch_line *lines; /* one for each core */
    uint32_t cores;
    uint32_t inbox_capacity; /* most tasks in flight on a core */
    uint64_t now_ns;         /* monotonic */
    /* For thieves: has_loot(loot, core) says whether the oldest waiting task of the core may be
     * stolen and the thief has a block for it, which watch lines do not tell. NULL: any waiting
     * task may be stolen. */
    bool (*has_loot)(const void *loot, uint32_t core);
    const void *loot;
    bool has_no_loot; /* no core has loot, so a thief need not look; false: unknown */
};

struct policy_task {
    uint64_t key;   /* `hash` and `affine` keep equal keys together */
    uint32_t class; /* of the block that the task needs; POLICY_NO_CLASS: none */
};

struct policy {
    const char *name;
    /* Only the chosen core may run the task: no other is tried, and no thief takes it. */
    bool is_binding;
    /* Most tasks in flight on a core, each with a free block. If no core qualifies the executor
     * holds the task, in order of submission. 0: the inbox's capacity. */
    uint32_t bound;
    /* Bytes of state, aligned to POLICY_STATE_ALIGN. 0: no state; any threads may call at once. */
    size_t (*state_bytes)(const struct policy_setup *setup);
    /* Initialises the state in memory of any contents. */
    void (*start)(void *state, const struct policy_setup *setup);
    /* Returns a core, POLICY_REJECT or POLICY_HOLD. */
    uint32_t (*choose)(void *state, const struct policy_view *view, const struct policy_task *task);
    /* Returns the core whose oldest waiting task `thief` takes, or POLICY_NOBODY. Each thief of the
     * executor has its own state. NULL: no stealing. */
    uint32_t (*steal)(void *state, const struct policy_view *view, uint32_t thief);
};

/* NULL: no policy has this name. The simulator has further policies, to compare with. */
const struct policy *policy_find(const char *name);

/* The name at `index`; NULL past the last. */
const char *policy_name(unsigned index);

/* The default policy: docs/decisions/dispatch.md says why. */
#define POLICY_DEFAULT "steal"

extern const struct policy policy_steal, policy_jsq, policy_jbsq1, policy_jbsq2;
extern const struct policy policy_hash, policy_affine;

#endif
