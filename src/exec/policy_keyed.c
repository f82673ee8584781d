/*
 * policy_keyed.c: hash and affine: the tasks of one key go to one core.
 *
 * hash guarantees it: the key's core runs all its tasks, one at a time, in the order of acceptance.
 * While that core is full or lacks the block, the task waits or is refused. affine prefers it:
 * while the key's core is infeasible the task goes to the next feasible core from a second hash on,
 * which spreads the keys of a full core over all others.
 */
#include "exec/policy_parts.h"

static size_t keyed_bytes(const struct policy_setup *setup)
{
    (void)setup;
    return 0;
}

static void keyed_start(void *state, const struct policy_setup *setup)
{
    (void)state;
    (void)setup;
}

static uint64_t hash_of(const struct policy_task *task)
{
    return policy_mix(task->key + 0x9E3779B97F4A7C15);
}

static uint32_t core_of(const struct policy_view *view, uint64_t hash)
{
    return policy_below((uint32_t)(hash >> 32), view->cores);
}

static uint32_t hash_choose(void *state, const struct policy_view *view,
                            const struct policy_task *task)
{
    (void)state;
    return core_of(view, hash_of(task));
}

static uint32_t affine_choose(void *state, const struct policy_view *view,
                              const struct policy_task *task)
{
    (void)state;
    uint64_t hash = hash_of(task);
    uint32_t core = core_of(view, hash);
    if (likely(policy_feasible(view, task, core)))
        return core;
    return policy_next_feasible(view, task, policy_below((uint32_t)hash, view->cores));
}

const struct policy policy_hash = {.name = "hash",
                                   .is_binding = true,
                                   .state_bytes = keyed_bytes,
                                   .start = keyed_start,
                                   .choose = hash_choose};
const struct policy policy_affine = {
    .name = "affine", .state_bytes = keyed_bytes, .start = keyed_start, .choose = affine_choose};
