/*
 * sampled.h: blocks whose free calls sampled_on_free(), at no cost to other frees.
 *
 * Small ones belong to a cohort that caches have no arrays for: a free finds no room and takes the
 * slow path, which reads the cohort from the bin. Large ones are marked in their span's tag, which
 * a free of a large block reads anyway. Design: docs/design/profiler.md
 */
#ifndef CALM_CORE_SAMPLED_H
#define CALM_CORE_SAMPLED_H

#include "core/heap.h"
#include "core/sampled_small.h"

/*
 * Allocates a sampled block: `bytes` <= PTRDIFF_MAX, aligned, zeroed if wanted. Where cohorts are
 * separate the block is a large one of the cohort at the offset. NULL: no memory; an ordinary
 * request may still succeed.
 */
void *sampled_alloc(size_t bytes, size_t align, bool is_zeroed, uint32_t cohort_offset);

/* Whether a live block is sampled. */
bool sampled_is(const void *block);

#endif
