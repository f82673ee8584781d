/*
 * told.h: system calls that take pages of blocks away, by way of the C library.
 *
 * Whoever remembers pages by their addresses, as caches of memory that a network card may read do,
 * puts its own functions in the place of these, and must be told. Calls that take nothing away go
 * to the kernel at once. All return 0 or -errno, and leave errno alone.
 *
 * A function that was put in their place may allocate and free, and so come here again, but not for
 * ever: inside TELLS of them the kernel is called at once.
 */
#ifndef CALM_OS_LINUX_TOLD_H
#define CALM_OS_LINUX_TOLD_H

#include <errno.h>
#include <sys/mman.h>

#include "base/attr.h"
#include "os/linux/syscall.h"

enum { TELLS = IS_SANITIZED ? 0 : 8 };

static _Thread_local unsigned tells_left = TELLS;

static inline int told_begin(void)
{
    tells_left--;
    return errno;
}

static inline int told_end(bool is_done, int errno_before)
{
    int error = is_done ? 0 : -errno;
    errno = errno_before;
    tells_left++;
    return error;
}

static inline int told_madvise(void *start, size_t size, int advice)
{
    if (tells_left == 0)
        return (int)system_call(SYS_madvise, (long)start, (long)size, advice, 0, 0, 0);
    int before = told_begin();
    return told_end(madvise(start, size, advice) == 0, before);
}

/* Where the result is to be `to`. */
static inline int told_at(long result, const void *to)
{
    return result == (long)to ? 0 : (int)result;
}

/* Over pages that are there. */
static inline int told_mmap(void *start, size_t size, int protection, int flags)
{
    if (tells_left == 0)
        return told_at(system_call(SYS_mmap, (long)start, (long)size, protection, flags, -1, 0),
                       start);
    int before = told_begin();
    return told_end(mmap(start, size, protection, flags, -1, 0) == start, before);
}

static inline int told_mremap(void *from, size_t size, size_t new_size, int flags, void *to)
{
    if (tells_left == 0)
        return told_at(
            system_call(SYS_mremap, (long)from, (long)size, (long)new_size, flags, (long)to, 0),
            to);
    int before = told_begin();
    return told_end(mremap(from, size, new_size, flags, to) == to, before);
}

#endif
