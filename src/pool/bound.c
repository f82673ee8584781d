/*
 * bound.c: computes the worst case of a configuration before anything runs.
 *
 * The bytes come from the plan, which alone places blocks. Instructions, lines and branches are
 * those of the longest path through the linked object code. tools/bound computes them once for each
 * set of features that a configuration can have, and writes them into the finished file, where it
 * finds `stamp` by its first bytes. The code of each feature is in functions of its own, which a
 * configuration without the feature never enters.
 *
 * Design: docs/design/pool-bound.md
 */
#include "pool/plan.h"
#include "pool/pool.h"

/* Features that lengthen the longest path of some operations. */
enum feature {
    HAS_SPILL = 1, /* an exhausted class asks the next class: lend()                */
    HAS_CODED = 2, /* four-bit counts: publish_coded()                              */
    HAS_LARGE = 4, /* sizes above the size table: alloc_large()                     */
    HAS_MANY = 8   /* several classes can share one granule: class_among()          */
};

enum {
    NAME_BYTES = 24,
    MAGIC_BYTES = 20,
    STAMP_VERSION = 1,
#define BOUND(operation, features) +1
    ROWS = 0
#include "pool/bound_rows.def"
#undef BOUND
};

/* tools/bound reads the names and features and writes the costs. */
struct cost_row {
    char operation[NAME_BYTES];
    uint32_t features;
    struct calm_pool_cost cost;
};

static volatile const struct {
    char magic[MAGIC_BYTES];
    uint32_t version;
    uint32_t is_written;
    uint32_t count;
    uint32_t row_bytes;
    struct cost_row rows[ROWS];
} stamp = {
    "calm-bound-stamp",
    STAMP_VERSION,
    0,
    ROWS,
    sizeof(struct cost_row),
    {
#define BOUND(operation, features) {#operation, features, {0, 0, 0}},
#include "pool/bound_rows.def"
#undef BOUND
    },
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

static bool is_called(const volatile char *name, const char *wanted)
{
    size_t i = 0;
    while (name[i] == wanted[i] && wanted[i] != '\0')
        i++;
    return name[i] == wanted[i];
}

/* The cost of an operation; of the features, only `varying` change it. */
static struct calm_pool_cost cost_with(const char *operation, unsigned varying, unsigned features)
{
    struct calm_pool_cost cost = {0, 0, 0}; /* the row exists: test bound.stamped */
    for (size_t i = 0; i < ROWS; i++) {
        const volatile struct cost_row *row = &stamp.rows[i];
        if (!is_called(row->operation, operation) || row->features != (features & varying))
            continue;
        cost.instructions = row->cost.instructions;
        cost.lines = row->cost.lines;
        cost.branches = row->cost.branches;
    }
    return cost;
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
        .cost_code = stamp.is_written != 0 ? CALM_OK : CALM_EUNCHECKED,
        .alloc = cost_with("pool_alloc", kinds | HAS_LARGE, features),
        .alloc_aligned = cost_with("pool_alloc_aligned", kinds, features),
        .free = cost_with("pool_free", HAS_CODED | HAS_MANY, features),
        .free_remote = cost_with("pool_free_remote", HAS_MANY, features),
        .drain = cost_with("pool_drain", HAS_CODED, features),
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
