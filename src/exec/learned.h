/*
 * learned.h: the learned policy's state, and what only it can do: be saved, be asked what it would
 * have done, and say what it knows.
 *
 * What it weighs for a core, in units of a typical service time:
 *   0 one   1 the task's own time there   2 the time of what is ahead of it   3 tasks ahead of it
 *   4 shortage of blocks now   5 shortage forecast   6 remote backlog   7 drift of the service time
 *   8 how long its running task has been running
 *
 * Owner: one dispatcher's thread. Bounded: 78,096 bytes and 32 a core.
 * Design: docs/design/policies.md
 */
#ifndef CALM_EXEC_LEARNED_H
#define CALM_EXEC_LEARNED_H

#include "exec/bandit.h"
#include "exec/forecast.h"
#include "exec/policy.h"
#include "exec/trial.h"

enum {
    LEARNED_CANDIDATES = 4, /* cores that a decision looks at; all when there are no more */
    LEARNED_REMEMBERED = 2, /* of them: the best of the decision before                   */
    LEARNED_TICKETS = 1024, /* samples under way, a power of two                          */
};

/* What a core was like when it was looked at for a task. Features are made of it where they are
 * wanted: of a sample at its task's end. */
struct learned_look {
    uint64_t load; /* the line's word */
    uint64_t now_ns;
    uint32_t begun;
    uint32_t service_ns;
    int32_t drift_ns;
    uint32_t hint_ns;
    bool is_plenty; /* or the task wants no block; then the rest says nothing */
    /* Of the class, in blocks. */
    uint16_t free, most;
    uint32_t demand; /* of tasks that wait there */
    uint32_t backlog;
};

/* A sampled task that has not ended. */
struct learned_sample {
    struct learned_look look;
    float scale;     /* one over the typical service time when it was placed */
    uint32_t ticket; /* 0: free */
    uint32_t epoch;
    uint16_t laps; /* times that its place was wanted for another */
    uint8_t arm;
    bool is_scored;
};

struct learned {
    struct bandit bandit;
    struct trial trial;
    struct forecast forecast;
    uint64_t random;
    uint32_t cores;
    uint32_t tickets; /* given so far */
    float typical_ns; /* smoothed service time over all cores that were looked at */
    float scale;      /* one over it */
    float
        least_pace; /* of the quickest core, 1 being typical; rises slowly until it is seen again */
    bool is_frozen; /* does not learn */
    uint32_t remembered[LEARNED_REMEMBERED];
    uint32_t placed_count, refused_count;
    uint64_t placed[POLICY_CORES_MAX]; /* classes of a core's last tasks, the youngest lowest */
    struct learned_sample samples[LEARNED_TICKETS];
    uint64_t fixed_state[8];             /* of the policy to fall back to */
    uint16_t most_free[][WATCH_CLASSES]; /* the highest count seen, a core and class */
};
_Static_assert(sizeof(struct learned) == 78096, "the bound above, without what cores add");

/* Stops or resumes learning; decisions and comparisons go on. */
void learned_freeze(struct learned *learned, bool is_frozen);

/*
 * Counterfactual: another policy has placed `task` on `core`. Returns the core that the learned one
 * would have taken; `regret_ns` gets by how much it expects the task to take longer than there,
 * never below 0. `ticket` gets what `finished` wants to be told, so that it learns from the other's
 * decisions. Call before the task is added to the core's load.
 */
uint32_t learned_compare(struct learned *learned, const struct policy_view *view,
                         const struct policy_task *task, uint32_t core, float *regret_ns,
                         uint32_t *ticket);

enum { LEARNED_SNAPSHOT_BYTES = 512 };

/* Writes what was learned as LEARNED_SNAPSHOT_BYTES bytes: version 1, little-endian, with a
 * checksum. */
void learned_save(const struct learned *learned, uint8_t *bytes);

/* Takes over what was saved. False, and nothing changes, when the bytes are no sound snapshot of
 * this version. */
bool learned_load(struct learned *learned, const uint8_t *bytes, size_t size);

#endif
