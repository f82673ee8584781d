/*
 * bandit.h: linear Thompson sampling with nine features: what a choice costs is a weighted sum of
 * them, the weights are learned, and are drawn at random as far as they are not known.
 *
 * Source: Agrawal and Goyal, "Thompson sampling for contextual bandits with linear payoffs", ICML
 * 2013. Differences: one set of weights for all arms, because what tells cores apart is in the
 * features; old samples fade, because machines change; a ridge pulls towards weights known
 * beforehand, so that without samples the bandit is a sensible rule; and weights have bounds, so
 * that no noise can teach it that a longer queue is a better one, nor one traffic what is wrong in
 * all others.
 *
 * Single precision, no call, no memory of its own; the same samples give the same weights.
 * Owner: the thread that owns the state it is part of. Design: docs/design/policies.md
 */
#ifndef CALM_EXEC_BANDIT_H
#define CALM_EXEC_BANDIT_H

#include "base/attr.h"

enum {
    BANDIT_FEATURES = 9,
    BANDIT_SOLVE_EVERY = 32, /* samples between two solutions */
};

struct bandit_belief {
    float mean[BANDIT_FEATURES];  /* before any sample     */
    float floor[BANDIT_FEATURES]; /* no weight goes below  */
    float ridge;                  /* how many samples' worth the mean is */
    /* Weights of two features that are together at most that of a third; all 0: no such bound. */
    uint8_t whole, parts[2];
};

struct bandit {
    uint64_t random;
    struct bandit_belief belief;
    float gram[BANDIT_FEATURES][BANDIT_FEATURES]; /* faded sum of x x', lower half */
    float moment[BANDIT_FEATURES];                /* faded sum of x y              */
    float noise;                                  /* faded mean of squared errors  */
    uint32_t samples;
    uint32_t unsolved;

    /* Of the last solution: gram + ridge = lower diagonal lower'. */
    float lower[BANDIT_FEATURES][BANDIT_FEATURES];
    float diagonal[BANDIT_FEATURES];
    float mean[BANDIT_FEATURES];
    float drawn[BANDIT_FEATURES];
};

void bandit_start(struct bandit *bandit, const struct bandit_belief *belief, uint64_t seed);

/* The expected cost of features `x`, and the cost by the weights last drawn. 18 operations. */
ALWAYS_INLINE float bandit_sum(const float *weights, const float *x)
{
    float sum = 0;
#pragma GCC unroll 9
    for (unsigned i = 0; i < BANDIT_FEATURES; i++)
        sum += weights[i] * x[i];
    return sum;
}

/* Features `x` have cost `y`; what is no number is ignored. About 100 operations, and a solution of
 * about 1,000 in every 32nd call. */
void bandit_learn(struct bandit *bandit, const float *x, float y);

/* Solves for the mean weights from gram and moment. False, and nothing changes, when numbers are
 * not sound. */
bool bandit_solve(struct bandit *bandit);

/* Takes the mean for drawn, until the next draw. */
void bandit_settle(struct bandit *bandit);

/* Draws weights anew around their mean. About 150 operations. */
void bandit_draw(struct bandit *bandit);

/* The square root of x >= 0, to 1e-6 of it. */
float bandit_root(float x);

#endif
