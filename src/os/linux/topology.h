/*
 * topology.h: which CPUs share a last-level cache, from the kernel's files.
 */
#ifndef CALM_OS_LINUX_TOPOLOGY_H
#define CALM_OS_LINUX_TOPOLOGY_H

#include <stdint.h>

/* Like os_cache_groups, for the CPUs in the mask `usable`, with the tree below `root` instead of
 * /sys/devices/system/cpu. */
unsigned topology_read(const char *root, const uint64_t *usable, uint8_t *group_of_cpu,
                       unsigned cpus);

#endif
