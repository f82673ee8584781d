/*
 * bound.c: what a configuration comes to, before anything runs.
 *
 * Bytes are the plan's own; nothing else decides where blocks lie. Instructions, lines and branches
 * are those of the longest path through the object code, which tools/bound computed: whatever the
 * configuration, as no path depends on more than comparisons with it.
 *
 * Design: docs/design/pool-bound.md
 */
#include "pool/plan.h"
#include "pool/pool.h"

enum machine { MACHINE_aarch64, MACHINE_x86_64, MACHINES };

enum operation {
    OPERATION_pool_alloc,
    OPERATION_pool_alloc_aligned,
    OPERATION_pool_free,
    OPERATION_pool_free_remote,
    OPERATION_pool_drain,
    OPERATION_pool_owns,
    OPERATION_pool_usable_size,
    OPERATION_region_alloc,
    OPERATION_region_release,
    OPERATION_bounded_alloc,
    OPERATION_bounded_free,
    OPERATIONS
};

static const struct calm_pool_cost costs[MACHINES][OPERATIONS] = {
#define BOUND(machine, operation, instructions, lines, branches)                                   \
    [MACHINE_##machine][OPERATION_##operation] = {instructions, lines, branches},
#include "pool/bound_tables.def"
#undef BOUND
};

EXPORT int calm_pool_bound(const struct calm_pool_config *config, struct calm_pool_limits *out)
{
    struct plan plan;
    if (out == NULL)
        return CALM_ENULL;
    int error = plan_make(config, &plan);
    if (error != 0)
        return error;
    const struct calm_pool_cost *cost = costs[MACHINE_IS_X86_64 ? MACHINE_x86_64 : MACHINE_aarch64];
    *out = (struct calm_pool_limits){
        .bytes = plan.bytes,
        .meta_bytes = plan.meta_end,
        .alloc = cost[OPERATION_pool_alloc],
        .alloc_aligned = cost[OPERATION_pool_alloc_aligned],
        .free = cost[OPERATION_pool_free],
        .free_remote = cost[OPERATION_pool_free_remote],
        .drain = cost[OPERATION_pool_drain],
    };
    for (unsigned i = 0; i < plan.count; i++) {
        const struct plan_class *class = &plan.classes[i];
        out->stride_bytes[i] = class->stride;
        out->blocks[i] = class->blocks;
        out->usable_bytes += class->blocks * class->block_bytes;
    }
    out->lost_bytes = plan.bytes - out->usable_bytes;
    return CALM_OK;
}
