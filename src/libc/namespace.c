/*
 * namespace.c: unshare(2) and setns(2). The kernel refuses new user namespaces to a process with
 * several threads; ours must not be the second one.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <sched.h>

#include "base/attr.h"
#include "core/purge.h"
#include "os/linux/syscall.h"

EXPORT int unshare(int flags)
{
    purge_helper_stop();
    long result = system_call(SYS_unshare, flags, 0, 0, 0, 0, 0);
    if (result == 0)
        return 0;
    errno = (int)-result;
    return -1;
}

EXPORT int setns(int fd, int kind)
{
    purge_helper_stop();
    long result = system_call(SYS_setns, fd, kind, 0, 0, 0, 0);
    if (result == 0)
        return 0;
    errno = (int)-result;
    return -1;
}
