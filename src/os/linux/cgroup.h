/*
 * cgroup.h: the limits of a process's control groups, versions 1 and 2, with nothing but the
 * kernel.
 */
#ifndef CALM_OS_LINUX_CGROUP_H
#define CALM_OS_LINUX_CGROUP_H

#include "os/os.h"

/* As os_limits_read(), with the list of the process's groups at `groups` and the file system of
 * groups at `root`. */
bool cgroup_read(const char *groups, const char *root, enum os_limits_use use,
                 struct os_limits *out);

#endif
