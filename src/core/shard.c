/*
 * shard.c: the number of shards, and each CPU's shard.
 *
 * Owner: heap start writes both; constant afterwards.
 */
#include "core/shard.h"

#include "base/bits.h"
#include "os/os.h"
#include "os/rseq.h"

_Static_assert(SHARDS_MAX <= UINT8_MAX, "a shard's number is a byte");

unsigned shard_count = 1;
_Thread_local struct rseq_area *area_joined;
static uint8_t shard_of[SHARD_CPUS_MAPPED];

/* Maps CPUs to shards: merges neighbouring cache groups until each shard has SHARD_CPUS_MIN usable
 * CPUs on average. Returns the number of shards. */
static unsigned map_cpus(unsigned cpu_count)
{
    size_t most = size_min(cpu_count / SHARD_CPUS_MIN, SHARDS_MAX);
    if (most < 2)
        return 1;
    unsigned groups = os_cache_groups(shard_of, SHARD_CPUS_MAPPED);
    unsigned shards = (unsigned)size_min(groups, most);
    for (unsigned cpu = 0; cpu < SHARD_CPUS_MAPPED; cpu++)
        shard_of[cpu] = (uint8_t)(shard_of[cpu] * shards / groups);
    return shards;
}

void shard_start(unsigned wanted, unsigned cpu_count)
{
    if (wanted == 0) {
        shard_count = map_cpus(cpu_count);
        return;
    }
    shard_count = (unsigned)size_min(wanted, SHARDS_MAX);
    for (unsigned cpu = 0; cpu < SHARD_CPUS_MAPPED && shard_count > 1; cpu++)
        shard_of[cpu] = (uint8_t)(cpu % shard_count);
}

unsigned shard_here(void)
{
    const struct rseq_area *area = area_joined;
    unsigned cpu = area != NULL ? area->cpu_id : os_cpu();
    return cpu < SHARD_CPUS_MAPPED ? shard_of[cpu] : 0;
}
