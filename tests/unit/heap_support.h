/*
 * heap_support.h: as support.h, for the headers of core, site and front, which use a name that C++
 * reserves.
 */
#pragma GCC system_header
#ifndef CALM_TESTS_UNIT_HEAP_SUPPORT_H
#define CALM_TESTS_UNIT_HEAP_SUPPORT_H

#include "support.h"

#define _Thread_local __thread
#define class class_number
extern "C" {
#include "calmalloc/adapter.h"
#include "core/batch.h"
#include "core/cache.h"
#include "core/class.h"
#include "core/compact.h"
#include "core/cores.h"
#include "core/depot.h"
#include "core/depot_parts.h"
#include "core/heap.h"
#include "core/home.h"
#include "core/large.h"
#include "core/misuse.h"
#include "core/misuse_search.h"
#include "core/purge.h"
#include "core/registry.h"
#include "core/rows.h"
#include "core/shard.h"
#include "core/large_cache.h"
#include "core/sampled.h"
#include "core/slab.h"
#include "core/thread.h"
#include "front/cohorts.h"
#include "front/front.h"
#include "front/options.h"
#include "front/stats.h"
#include "front/watch.h"
#include "site/follow.h"
#include "site/learned.h"
#include "site/learned_report.h"
#include "site/lifetime.h"
#include "mem/span.h"
#include "site/intern.h"
#include "site/poisson.h"
#include "site/remote.h"
#include "site/sample.h"
#include "site/seen.h"
#include "site/second.h"
#include "site/site.h"
#include "site/stacks.h"
}
#undef class
#undef _Thread_local

namespace calm_test
{

/* A block of `bytes` in the cohort of that number, whatever site asks; without errno. */
inline void *alloc_in_cohort(size_t bytes, unsigned cohort)
{
    uint32_t cohort_offset = (COHORT_FIRST + cohort) * COHORT_ENTRY_BYTES;
    void *block = heap_alloc_fast(bytes, cohort_offset);
    return block != nullptr ? block : heap_alloc_slow(bytes, cohort_offset);
}

} // namespace calm_test

/* Empties all of a depot's stacks, and its strays, into the bitmaps. Returns blocks moved. */
inline size_t depot_drain(struct depot *depot, bool is_patient)
{
    size_t moved = 0;
    for (unsigned shard = 0; shard < shard_count; shard++) {
        struct batch_stack *stack = depot_stack(depot, shard);
        moved += stack == nullptr ? 0 : depot_drain(depot, stack, is_patient);
    }
    for (size_t strays = 1; strays > 0; moved += strays)
        strays = depot_drain(depot, nullptr, is_patient);
    return moved;
}

#endif
