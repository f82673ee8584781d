/*
 * shard.h: groups of CPUs that share a last-level cache; each has its own stacks of batches.
 *
 * Blocks freed in a group lie in its cache and are reused there first, and mostly the group's cores
 * write to its stacks' words. A machine with one last-level cache or few CPUs has one shard, at no
 * cost. Design: docs/design/depots.md
 */
#ifndef CALM_CORE_SHARD_H
#define CALM_CORE_SHARD_H

#include "base/attr.h"

struct rseq_area;

enum {
    SHARDS_MAX = 16,
    SHARD_CPUS_MIN = 4, /* usable CPUs for each shard */
    SHARD_CPUS_MAPPED = 1024,
};

/* At least 1; constant once the heap has started. */
extern HIDDEN unsigned shard_count;

/* The calling thread's rseq area if it ever joined one (core/cores.h), in use or not: names the
 * CPU. */
extern HIDDEN _Thread_local struct rseq_area *area_joined;

/* Sets the number of shards: `wanted`, with CPUs dealt modulo that; 0: by the machine's caches.
 * During heap start. */
void shard_start(unsigned wanted, unsigned cpu_count);

/* The calling thread's shard; 0 if unknown. The thread may move to another CPU at any time. */
unsigned shard_here(void);

/* The shard `steps` < shard_count after `shard`, cyclically. */
ALWAYS_INLINE unsigned shard_after(unsigned shard, unsigned steps)
{
    unsigned next = shard + steps;
    return next < shard_count ? next : next - shard_count;
}

#endif
