/*
 * told.h: system calls that take pages away, by way of the C library.
 *
 * Whoever remembers pages by their addresses, as caches of memory that a network card may read do,
 * puts its own functions in the place of these, and must be told. Calls that take nothing away go
 * to the kernel at once. All return 0 or -errno, and leave errno alone.
 *
 * A function that was put in their place may allocate, and so come here again: the second time the
 * kernel is called at once.
 */
#ifndef CALM_OS_LINUX_TOLD_H
#define CALM_OS_LINUX_TOLD_H

#include <errno.h>
#include <sys/mman.h>

#include "base/attr.h"

static inline int told_result(bool is_done, int errno_before)
{
    int error = is_done ? 0 : -errno;
    errno = errno_before;
    return error;
}

static inline int told_munmap(void *start, size_t size)
{
    int before = errno;
    return told_result(munmap(start, size) == 0, before);
}

static inline int told_madvise(void *start, size_t size, int advice)
{
    int before = errno;
    return told_result(madvise(start, size, advice) == 0, before);
}

/* Over pages that are there. */
static inline int told_mmap(void *start, size_t size, int protection, int flags)
{
    int before = errno;
    return told_result(mmap(start, size, protection, flags, -1, 0) == start, before);
}

static inline int told_mremap(void *from, size_t size, size_t new_size, int flags, void *to)
{
    int before = errno;
    return told_result(mremap(from, size, new_size, flags, to) == to, before);
}

#endif
