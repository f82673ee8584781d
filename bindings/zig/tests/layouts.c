/*
 * layouts.c: where C's compiler puts the fields that src/c.zig declares again, and the numbers that
 * it repeats. layouts_test.zig compares.
 */
#include <stddef.h>

#include "calmalloc.h"

struct layout {
    const char *type;
    const char *field; /* NULL: the type as a whole */
    size_t offset;
    size_t bytes;
};

#define WHOLE(type) {#type, NULL, 0, sizeof(struct type)}
#define FIELD(type, field)                                                                         \
    {#type, #field, offsetof(struct type, field), sizeof(((struct type *)0)->field)}

const struct layout calm_zig_layouts[] = {
    WHOLE(calm_stats),
    FIELD(calm_stats, allocated_bytes),
    FIELD(calm_stats, cached_bytes),
    FIELD(calm_stats, cached_limit_bytes),
    FIELD(calm_stats, active_bytes),
    FIELD(calm_stats, mapped_bytes),
    FIELD(calm_stats, reserved_bytes),
    FIELD(calm_stats, resident_bytes),
    FIELD(calm_stats, metadata_bytes),
    FIELD(calm_stats, dirty_bytes),
    FIELD(calm_stats, purged_bytes),
    FIELD(calm_stats, foreign_frees),
    FIELD(calm_stats, misuses),
    FIELD(calm_stats, failed_calls),
    FIELD(calm_stats, failed_os_calls),
    FIELD(calm_stats, threads),
    FIELD(calm_stats, cohorts),
    FIELD(calm_stats, profile_on),
    FIELD(calm_stats, profile_samples),
    FIELD(calm_stats, profile_samples_lost),
    FIELD(calm_stats, interned_sites),
    FIELD(calm_stats, retired_sites),
    FIELD(calm_stats, overflow_sites),
    FIELD(calm_stats, owned_bytes),
    WHOLE(calm_pool_config),
    FIELD(calm_pool_config, block_bytes),
    FIELD(calm_pool_config, percent),
    FIELD(calm_pool_config, classes),
    FIELD(calm_pool_config, bytes),
    FIELD(calm_pool_config, flags),
    FIELD(calm_pool_config, memory),
    FIELD(calm_pool_config, blocks),
    WHOLE(calm_pool_cost),
    FIELD(calm_pool_cost, instructions),
    FIELD(calm_pool_cost, lines),
    FIELD(calm_pool_cost, branches),
    WHOLE(calm_pool_limits),
    FIELD(calm_pool_limits, bytes),
    FIELD(calm_pool_limits, usable_bytes),
    FIELD(calm_pool_limits, lost_bytes),
    FIELD(calm_pool_limits, meta_bytes),
    FIELD(calm_pool_limits, stride_bytes),
    FIELD(calm_pool_limits, blocks),
    FIELD(calm_pool_limits, remote_calls),
    FIELD(calm_pool_limits, cost_code),
    FIELD(calm_pool_limits, alloc),
    FIELD(calm_pool_limits, alloc_aligned),
    FIELD(calm_pool_limits, free),
    FIELD(calm_pool_limits, free_remote),
    FIELD(calm_pool_limits, drain),
    WHOLE(calm_pool_class_stats),
    FIELD(calm_pool_class_stats, block_bytes),
    FIELD(calm_pool_class_stats, stride_bytes),
    FIELD(calm_pool_class_stats, blocks),
    FIELD(calm_pool_class_stats, free_blocks),
    FIELD(calm_pool_class_stats, least_free),
    FIELD(calm_pool_class_stats, allocs),
    FIELD(calm_pool_class_stats, remote_frees),
    WHOLE(calm_pool_stats),
    FIELD(calm_pool_stats, classes),
    FIELD(calm_pool_stats, failed),
    FIELD(calm_pool_stats, misuses),
    FIELD(calm_pool_stats, spills),
    FIELD(calm_pool_stats, by_class),
    WHOLE(calm_region),
    FIELD(calm_region, start),
    FIELD(calm_region, bytes),
    FIELD(calm_region, used_bytes),
    FIELD(calm_region, most_bytes),
};
const size_t calm_zig_layout_count = sizeof calm_zig_layouts / sizeof *calm_zig_layouts;

const int calm_zig_classes_max = CALM_POOL_CLASSES_MAX;
const int calm_zig_bounded_unit = CALM_BOUNDED_UNIT;
const int calm_zig_ok = CALM_OK;
const int calm_zig_no_memory = CALM_ENOMEM;
const int calm_zig_mark = CALM_EMARK;
