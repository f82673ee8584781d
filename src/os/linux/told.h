/*
 * told.h: system calls that remove pages of blocks, made through the C library.
 *
 * Programs that cache facts about pages by address, such as memory registered with a network card,
 * interpose these functions and must be informed. Calls that remove nothing go to the kernel
 * directly. All return 0 or -errno, and preserve errno.
 *
 * An interposed function may allocate and free, and so call these again. The depth is bounded: at
 * depth TELLS the kernel is called directly. os_is_telling() says whether a call is unfinished.
 */
#ifndef CALM_OS_LINUX_TOLD_H
#define CALM_OS_LINUX_TOLD_H

#include <errno.h>
#include <sys/mman.h>

#include "base/attr.h"
#include "os/linux/syscall.h"

enum { TELLS = 8 };

extern HIDDEN _Thread_local unsigned told_depth; /* unfinished calls of this thread */

/* Sanitizers' own functions must not see the heap's calls. */
static inline bool told_directly(void)
{
    return IS_SANITIZED || told_depth >= TELLS;
}

static inline int told_begin(void)
{
    told_depth++;
    return errno;
}

static inline int told_end(bool is_done, int errno_before)
{
    int error = is_done ? 0 : -errno;
    errno = errno_before;
    told_depth--;
    return error;
}

static inline int told_madvise(void *start, size_t size, int advice)
{
    if (told_directly())
        return (int)system_call(SYS_madvise, (long)start, (long)size, advice, 0, 0, 0);
    int before = told_begin();
    return told_end(madvise(start, size, advice) == 0, before);
}

/* 0 if the result is `to`. */
static inline int told_at(long result, const void *to)
{
    return result == (long)to ? 0 : (int)result;
}

/* Maps over existing pages. */
static inline int told_mmap(void *start, size_t size, int protection, int flags)
{
    if (told_directly())
        return told_at(system_call(SYS_mmap, (long)start, (long)size, protection, flags, -1, 0),
                       start);
    int before = told_begin();
    return told_end(mmap(start, size, protection, flags, -1, 0) == start, before);
}

static inline int told_mremap(void *from, size_t size, size_t new_size, int flags, void *to)
{
    if (told_directly())
        return told_at(
            system_call(SYS_mremap, (long)from, (long)size, (long)new_size, flags, (long)to, 0),
            to);
    int before = told_begin();
    return told_end(mremap(from, size, new_size, flags, to) == to, before);
}

#endif
