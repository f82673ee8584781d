/*
 * rseq.c: the simulated kernel has no restartable sequences: caches are the threads' own.
 */
#include "os/rseq.h"

#include <errno.h>

int os_rseq_start(void)
{
    return -ENOSYS;
}

struct rseq_area *os_rseq_join(void)
{
    return NULL;
}

void os_rseq_leave(struct rseq_area *area)
{
    (void)area;
}

int os_rseq_fence(void)
{
    return -ENOSYS;
}
