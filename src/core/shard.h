/*
 * shard.h: groups of CPUs that share a last-level cache; each has its own stacks of batches.
 *
 * What is freed in a group lies in that group's cache, and is handed out there first; and the words
 * that batches go by are written by one group's cores, not by all. A machine with one last-level
 * cache, or few CPUs, has one shard and does not pay for more. Design: docs/design/depots.md
 */
#ifndef CALM_CORE_SHARD_H
#define CALM_CORE_SHARD_H

#include "base/attr.h"

struct rseq_area;

enum {
    SHARDS_MAX = 16,
    SHARD_CPUS_MIN = 4, /* of those the process may use, for each shard */
    SHARD_CPUS_MAPPED = 1024,
};

/* Constant once the heap has started, at least 1. */
extern HIDDEN unsigned shard_count;

/* The calling thread's area if it ever asked for one (core/cores.h), whether it works with it or
 * not: it tells the CPU. */
extern HIDDEN _Thread_local struct rseq_area *area_joined;

/* Decides how many there are: `wanted`, by a CPU's number modulo that; or, where it is 0, as the
 * machine is built. While the heap starts. */
void shard_start(unsigned wanted, unsigned cpu_count);

/* The calling thread's, as far as it is known; another by the time it is used, perhaps. */
unsigned shard_here(void);

/* The shard `steps` < shard_count after one, round about. */
ALWAYS_INLINE unsigned shard_after(unsigned shard, unsigned steps)
{
    unsigned next = shard + steps;
    return next < shard_count ? next : next - shard_count;
}

#endif
