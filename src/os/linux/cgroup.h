/*
 * cgroup.h: the limits of a process's control groups, versions 1 and 2, with system calls only.
 */
#ifndef CALM_OS_LINUX_CGROUP_H
#define CALM_OS_LINUX_CGROUP_H

#include "os/os.h"

/* Like os_limits_read(), with the process's group list at `groups` and the group file system at
 * `root`. */
bool cgroup_read(const char *groups, const char *root, enum os_limits_use use,
                 struct os_limits *out);

#endif
