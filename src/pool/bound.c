/*
 * bound.c: what a configuration comes to, before anything runs.
 *
 * Bytes are the plan's own; nothing else decides where blocks lie. Instructions, lines and branches
 * are those of the longest path through the object code, which tools/bound computed, once for each
 * set of features that a configuration can have: what it does without stands in functions that are
 * then never entered.
 *
 * Design: docs/design/pool-bound.md
 */
#include "pool/plan.h"
#include "pool/pool.h"

enum machine { MACHINE_aarch64, MACHINE_x86_64 };

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
    OPERATION_bounded_free
};

/* What lengthens the ways of some operations. */
enum feature {
    HAS_SPILL = 1, /* an exhausted class asks the next: lend()                      */
    HAS_CODED = 2, /* counts in four bits: publish_coded()                          */
    HAS_LARGE = 4, /* sizes that the table does not have: alloc_large()             */
    HAS_MANY = 8   /* classes that one part of the blocks can share: class_among()  */
};

static const struct cost_row {
    enum machine machine;
    enum operation operation;
    unsigned features;
    struct calm_pool_cost cost;
} costs[] = {
#define BOUND(machine, operation, features, instructions, lines, branches)                         \
    {MACHINE_##machine, OPERATION_##operation, features, {instructions, lines, branches}},
#include "pool/bound_tables.def"
#undef BOUND
};

static unsigned features_of(const struct calm_pool_config *config, const struct plan *plan)
{
    unsigned features = plan->count > 1 ? HAS_MANY : 0;
    if (plan->count > 1 && (config->flags & CALM_POOL_SPILL) != 0)
        features |= HAS_SPILL;
    if (plan->count > POOL_EXACT_MAX)
        features |= HAS_CODED;
    if (plan->classes[plan->count - 1].block_bytes > POOL_TABLE_BYTES)
        features |= HAS_LARGE;
    return features;
}

/* The row of an operation that only `varying` of the features change. */
static struct calm_pool_cost cost_with(enum operation operation, unsigned varying,
                                       unsigned features)
{
    const enum machine ours = MACHINE_IS_X86_64 ? MACHINE_x86_64 : MACHINE_aarch64;
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++)
        if (costs[i].machine == ours && costs[i].operation == operation &&
            costs[i].features == (features & varying))
            return costs[i].cost;
    return (struct calm_pool_cost){.instructions = 0}; /* never: test bound.table */
}

EXPORT int calm_pool_bound(const struct calm_pool_config *config, struct calm_pool_limits *out)
{
    struct plan plan;
    if (out == NULL)
        return CALM_ENULL;
    int error = plan_make(config, &plan);
    if (error != 0)
        return error;
    unsigned features = features_of(config, &plan), kinds = HAS_SPILL | HAS_CODED;
    *out = (struct calm_pool_limits){
        .bytes = plan.bytes,
        .meta_bytes = plan.meta_end,
        .alloc = cost_with(OPERATION_pool_alloc, kinds | HAS_LARGE, features),
        .alloc_aligned = cost_with(OPERATION_pool_alloc_aligned, kinds, features),
        .free = cost_with(OPERATION_pool_free, HAS_CODED | HAS_MANY, features),
        .free_remote = cost_with(OPERATION_pool_free_remote, HAS_MANY, features),
        .drain = cost_with(OPERATION_pool_drain, HAS_CODED, features),
    };
    for (unsigned i = 0; i < plan.count; i++) {
        const struct plan_class *class = &plan.classes[i];
        out->stride_bytes[i] = class->stride;
        out->blocks[i] = class->blocks;
        size_t words = class->words, nears = words_for(words);
        out->remote_calls[i] = (uint32_t)(words + nears + words_for(nears) + 1);
        out->usable_bytes += class->blocks * class->block_bytes;
    }
    out->lost_bytes = plan.bytes - out->usable_bytes;
    return CALM_OK;
}
