/*
 * bound.c: what a configuration comes to, before anything runs.
 *
 * Bytes are the plan's own; nothing else decides where blocks lie.
 */
#include "pool/plan.h"
#include "pool/pool.h"

EXPORT int calm_pool_bound(const struct calm_pool_config *config, struct calm_pool_limits *out)
{
    struct plan plan;
    if (out == NULL)
        return CALM_ENULL;
    int error = plan_make(config, &plan);
    if (error != 0)
        return error;
    *out = (struct calm_pool_limits){.bytes = plan.bytes, .meta_bytes = plan.meta_end};
    for (unsigned i = 0; i < plan.count; i++) {
        const struct plan_class *class = &plan.classes[i];
        out->stride_bytes[i] = class->stride;
        out->blocks[i] = class->blocks;
        out->usable_bytes += class->blocks * class->block_bytes;
    }
    out->lost_bytes = plan.bytes - out->usable_bytes;
    return CALM_OK;
}
