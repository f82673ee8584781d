/*
 * topology.h: which CPUs share a last-level cache, from the kernel's files.
 */
#ifndef CALM_OS_LINUX_TOPOLOGY_H
#define CALM_OS_LINUX_TOPOLOGY_H

#include <stdint.h>

/* As os_cache_groups, of the CPUs in the mask `usable`, with the tree below `root` in place of
 * /sys/devices/system/cpu. */
unsigned topology_read(const char *root, const uint64_t *usable, uint8_t *group_of_cpu,
                       unsigned cpus);

#endif
