/*
 * trial.h: says who decides, the learned policy or the fixed one it falls back to, by comparing
 * both.
 *
 * Time is cut into epochs of some thousand decisions, and one of the two decides a whole epoch; the
 * first quarter of an epoch is not scored, since its queues are the other one's. At first they take
 * turns. Then the better one leads and the other gets an epoch now and then, seldom enough not to
 * show in the 99th percentile. Each such epoch is a new comparison. When the leader's own 99th
 * percentile has grown by half for two epochs, the world has changed: both start afresh and take
 * turns again.
 *
 * The learned one loses when its 99th percentile of time in the system lies two buckets above the
 * other's (a bucket is 6 to 12 % wide), or when more of its tasks failed. A failed task counts as
 * the longest of times.
 *
 * Owner: the thread that owns the state it is part of. Design: docs/design/policies.md
 */
#ifndef CALM_EXEC_TRIAL_H
#define CALM_EXEC_TRIAL_H

#include "base/attr.h"

enum {
    TRIAL_LEARNED = 0,
    TRIAL_FIXED = 1,
    TRIAL_ARMS = 2,
    TRIAL_BUCKETS = 256,    /* eight a doubling: from 1 ns to 4 s               */
    TRIAL_EPOCH_MIN = 2048, /* decisions */
    TRIAL_EPOCH_A_CORE = 32,
};

struct trial_score {
    uint32_t tasks;
    uint32_t failed;
    uint32_t times[TRIAL_BUCKETS];
};

struct trial {
    uint32_t epoch_decisions; /* an epoch's length */
    uint32_t decisions;       /* in this epoch     */
    uint32_t epoch;
    uint32_t turns; /* epochs still to be spent by turns */
    uint8_t arm;    /* who decides now                   */
    uint8_t leader;
    uint8_t alarms;        /* epochs in a row that looked wrong */
    uint32_t usual_bucket; /* of the leader's 99th percentile; 0 before it is known */
    uint32_t is_forced;    /* both comparisons and turns are off: `leader` decides  */
    uint64_t epochs_of[TRIAL_ARMS];
    struct trial_score score[TRIAL_ARMS];
    struct trial_score now; /* of the epoch alone, for the alarm */
};

void trial_start(struct trial *trial, uint32_t cores);

/* Lets `arm` decide for ever; for measuring one alone. */
void trial_force(struct trial *trial, unsigned arm);

/* The epoch is over: counts it and says who decides the next. Of trial_next(). */
void trial_end_epoch(struct trial *trial);

/* Call for each decision: who makes it. */
ALWAYS_INLINE unsigned trial_next(struct trial *trial)
{
    if (unlikely(trial->decisions >= trial->epoch_decisions) && trial->is_forced == 0)
        trial_end_epoch(trial);
    trial->decisions++;
    return trial->arm;
}

/* True when the task decided on now will count. */
ALWAYS_INLINE bool trial_is_scored(const struct trial *trial)
{
    return trial->decisions > trial->epoch_decisions / 4;
}

/* A task that `arm` placed in epoch `epoch` has ended. */
void trial_score(struct trial *trial, unsigned arm, uint32_t epoch, uint32_t sojourn_ns,
                 bool has_failed);

/* The 99th percentile's bucket, 0 without tasks; and the bucket of a time. */
uint32_t trial_tail(const struct trial_score *score);
uint32_t trial_bucket(uint32_t sojourn_ns);

#endif
