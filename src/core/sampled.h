/*
 * sampled.h: blocks whose free is told to whoever samples requests, at no cost to other frees.
 *
 * Small ones are of a cohort that caches have no arrays for: a free finds no room and takes the
 * slow path, where the bin says why. Large ones are marked in their span's tag, and in the map as
 * blocks that no cache would hold. Design: docs/design/profiler.md
 */
#ifndef CALM_CORE_SAMPLED_H
#define CALM_CORE_SAMPLED_H

#include "core/heap.h"
#include "core/sampled_small.h"

/*
 * Allocates a block whose free is told: `bytes` <= PTRDIFF_MAX, aligned, zeroed if wanted. Where
 * cohorts are apart it is of the cohort at the offset, and a large one. NULL: no memory; an
 * ordinary block may still be had.
 */
void *sampled_alloc(size_t bytes, size_t align, bool is_zeroed, uint32_t cohort_offset);

/* Whether the free of a live block would be told. */
bool sampled_is(const void *block);

#endif
