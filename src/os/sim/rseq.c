/*
 * rseq.c: the simulated kernel has no restartable sequences: caches are per thread.
 */
#include "os/rseq.h"

#include <errno.h>

int os_rseq_start(void)
{
    return -ENOSYS;
}

struct rseq_area *os_rseq_join(void (*on_leave)(void))
{
    (void)on_leave;
    return NULL;
}

int os_rseq_fence(void)
{
    return -ENOSYS;
}
