/*
 * peers.h: published policies that the executor has not, for comparison with those that it has.
 *
 * They exist in the simulator only: on no traffic and no machine of the study is one of them best.
 */
#ifndef CALM_SIM_PEERS_H
#define CALM_SIM_PEERS_H

#include "exec/policy_parts.h"

/* Two choices, Prequal's rule, and the oracle that knows what all cores will really need. */
extern const struct policy policy_p2c, policy_prequal, policy_least_work;

/* A policy of the executor or of these; NULL when none is called that. */
const struct policy *peer_find(const char *name);

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

#endif
