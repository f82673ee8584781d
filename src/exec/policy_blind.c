/*
 * policy_blind.c: hash, rr and random: where a task goes does not depend on how busy cores are.
 *
 * hash keeps the tasks of a key together. While its core is infeasible the key goes to the next
 * feasible one in a row that starts at a second hash, so that the keys of a full core spread over
 * all the others.
 */
#include "exec/policy_parts.h"

struct blind {
    uint64_t random;
    uint32_t next;
};

static size_t blind_bytes(const struct policy_setup *setup)
{
    (void)setup;
    return sizeof(struct blind);
}

static void blind_start(void *state, const struct policy_setup *setup)
{
    *(struct blind *)state = (struct blind){.random = setup->seed};
}

static struct policy_choice hash_choose(void *state, const struct policy_view *view,
                                        const struct policy_task *task)
{
    (void)state;
    uint64_t hash = policy_mix(task->key + 0x9E3779B97F4A7C15);
    uint32_t core = policy_below((uint32_t)(hash >> 32), view->cores);
    if (likely(policy_feasible(view, task, core)))
        return policy_chose(core);
    return policy_chose(
        policy_next_feasible(view, task, policy_below((uint32_t)hash, view->cores)));
}

static struct policy_choice rr_choose(void *state, const struct policy_view *view,
                                      const struct policy_task *task)
{
    struct blind *blind = (struct blind *)state;
    uint32_t core = policy_next_feasible(view, task, blind->next);
    if (core != POLICY_REJECT)
        blind->next = core + 1 < view->cores ? core + 1 : 0;
    return policy_chose(core);
}

static struct policy_choice random_choose(void *state, const struct policy_view *view,
                                          const struct policy_task *task)
{
    struct blind *blind = (struct blind *)state;
    return policy_chose(policy_random_feasible(view, task, &blind->random));
}

const struct policy policy_hash = {
    .name = "hash", .state_bytes = blind_bytes, .start = blind_start, .choose = hash_choose};
const struct policy policy_rr = {
    .name = "rr", .state_bytes = blind_bytes, .start = blind_start, .choose = rr_choose};
const struct policy policy_random = {
    .name = "random", .state_bytes = blind_bytes, .start = blind_start, .choose = random_choose};
