/*
 * policy.h: which core a task goes to. One table of functions for each policy, one way to call
 * them.
 *
 * A policy sees the cores' watch lines, what the task says of itself, and a state in memory that
 * the caller gives. It allocates nothing, calls nothing, and looks at no clock: time comes with the
 * call. From the same seed and the same calls it decides the same. The executor and the simulator
 * link the same objects.
 *
 * A state belongs to one thread at a time; several dispatchers have a state each. Every loop is
 * bounded by the number of cores; the cost of each policy is in docs/dispatch.md. Design:
 * docs/design/executor.md
 */
#ifndef CALM_EXEC_POLICY_H
#define CALM_EXEC_POLICY_H

#include "exec/watch.h"

enum {
    POLICY_CORES_MAX = 1024,
    POLICY_STATE_ALIGN = CACHE_LINE_BYTES,
    POLICY_NO_CLASS = WATCH_CLASSES, /* the class of a task that needs no block */
};

/* In the place of a core: nothing is feasible, the caller applies its rule for that; and: keep the
 * task at the dispatcher and ask again when a core has finished one. */
#define POLICY_REJECT UINT32_MAX
#define POLICY_HOLD (UINT32_MAX - 1)
#define POLICY_NOBODY UINT32_MAX /* no core: nobody to steal from */

struct policy_setup {
    uint32_t cores; /* 1 to POLICY_CORES_MAX */
    uint32_t inbox_capacity;
    uint64_t seed;
    /* Simulator only, NULL elsewhere: when each core would be done with what it has. For the
     * oracle. */
    const double *busy_until_ns;
};

struct policy_view {
    const struct watch_line *lines; /* one a core */
    uint32_t cores;
    uint32_t inbox_capacity; /* tasks in flight that a core accepts */
    uint64_t now_ns;         /* never goes back */
    /* For thieves: whether the oldest task that waits at the core may be taken and the thief has a
     * block for it, by has_loot(loot, core); lines do not tell. NULL: all that waits may. */
    bool (*has_loot)(const void *loot, uint32_t core);
    const void *loot;
    bool has_no_loot; /* nobody has any, which spares a thief the looking; false: not known */
};

struct policy_task {
    uint64_t key;   /* what `hash` and `affine` keep together */
    uint32_t class; /* of the block the task will need; POLICY_NO_CLASS: none */
};

struct policy {
    const char *name;
    /* The core that it names is the only one that may run the task: no other is tried, and nobody
     * steals. */
    bool is_binding;
    /* Tasks in flight that a core has at most, with a free block for each; who finds none such
     * holds its task, in the order of submission. 0: as many as the inbox. */
    uint32_t bound;
    /* Bytes of state, aligned to POLICY_STATE_ALIGN; 0: it has none, and any threads may ask it at
     * once. */
    size_t (*state_bytes)(const struct policy_setup *setup);
    /* Sets the state up; the memory may hold anything before. */
    void (*start)(void *state, const struct policy_setup *setup);
    /* A core, POLICY_REJECT or POLICY_HOLD. */
    uint32_t (*choose)(void *state, const struct policy_view *view, const struct policy_task *task);
    /* From whom the idle `thief` takes the oldest waiting task, or POLICY_NOBODY. Called by
     * thieves: in the executor each has a state of its own. NULL: nobody steals. */
    uint32_t (*steal)(void *state, const struct policy_view *view, uint32_t thief);
};

/* NULL when no policy is called that. The simulator has others to compare with. */
const struct policy *policy_find(const char *name);

/* The n-th name, NULL past the last. */
const char *policy_name(unsigned index);

/* What runs where nobody chose: docs/decisions/dispatch.md says why. */
#define POLICY_DEFAULT "steal"

extern const struct policy policy_steal, policy_jsq, policy_jbsq1, policy_jbsq2;
extern const struct policy policy_hash, policy_affine;

#endif
