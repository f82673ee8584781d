/*
 * forecast.h: how many blocks of a class a core will have one of its service times from now.
 *
 * A linear rule with one set of weights for all cores says by how much the free blocks will change,
 * from how many are in use, how many waiting tasks will want one, and how many were freed remotely.
 * Normalised least mean squares (Widrow and Hoff 1960; Haykin, "Adaptive Filter Theory") learns the
 * weights: a few forecasts are kept until they are due and compared with what is then so. Those
 * comparisons are the measured error, beside that of the forecast that nothing changes.
 *
 * Owner: the thread that owns the state it is part of. Bounded: 4 forecasts wait at most.
 * Design: docs/design/policies.md
 */
#ifndef CALM_EXEC_FORECAST_H
#define CALM_EXEC_FORECAST_H

#include "exec/policy.h"

enum {
    FORECAST_WEIGHTS = 4,
    FORECAST_PENDING_MAX = 4, /* so few that each is looked at soon after it is due */
    FORECAST_FREE_MAX = 4096, /* more free blocks count as so many: no shortage is near */
};

struct forecast_pending {
    uint64_t due_ns; /* 0: nothing waits here */
    uint32_t core;
    uint32_t class;
    float was;  /* free when the forecast was made */
    float said; /* free when due                   */
    float x[FORECAST_WEIGHTS];
};

struct forecast_error {
    uint64_t count;
    double absolute;       /* sum of |said - found|, in blocks              */
    double absolute_still; /* the same of the forecast that nothing changes */
    double bias;           /* sum of said - found                           */
};

struct forecast {
    float weights[FORECAST_WEIGHTS];
    struct forecast_error error;
    uint32_t next; /* of pending, the one looked at next */
    struct forecast_pending pending[FORECAST_PENDING_MAX];
};

void forecast_start(struct forecast *forecast);

/* The features of a core's class: `most` is the highest number of free blocks seen there, `demand`
 * the blocks of this class that tasks waiting there are expected to want. */
ALWAYS_INLINE void forecast_features(float *x, float free, float most, float demand, float backlog)
{
    x[0] = 1;
    x[1] = most - free;
    x[2] = demand;
    x[3] = backlog;
}

/* Free blocks one service time ahead: never below none, never above `most`. */
ALWAYS_INLINE float forecast_free(const struct forecast *forecast, const float *x, float free,
                                  float most)
{
    float ahead = free;
    for (unsigned i = 0; i < FORECAST_WEIGHTS; i++)
        ahead += forecast->weights[i] * x[i];
    ahead = ahead < most ? ahead : most;
    return ahead > 0 ? ahead : 0;
}

/* Keeps this forecast until `due_ns`, where there is room; else nothing. */
void forecast_keep(struct forecast *forecast, const struct forecast_pending *pending);

/* Looks at one forecast that waits: when it is due, learns from it. Call it once a decision. */
void forecast_check(struct forecast *forecast, const struct policy_view *view);

#endif
