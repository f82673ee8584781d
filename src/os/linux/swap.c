/*
 * swap.c: pages out on request, and reads which pages are in memory.
 *
 * Reads /proc/self/pagemap, where an ordinary process sees its own pages' presence. Without /proc,
 * uses mincore, which counts a page in the swap cache as present: that page then counts as touched,
 * so less is paged out.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "os/linux/auxiliary.h"
#include "os/linux/syscall.h"
#include "os/os.h"

#ifndef MADV_COLD
#define MADV_COLD 20
#endif
#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

enum { ENTRIES = 64, PRESENT_BIT = 63 };

int os_page_out(void *start, size_t size)
{
    return (int)system_call(SYS_madvise, (long)start, (long)size, MADV_PAGEOUT, 0, 0, 0);
}

int os_cool(void *start, size_t size)
{
    return (int)system_call(SYS_madvise, (long)start, (long)size, MADV_COLD, 0, 0, 0);
}

static int present_by_mincore(const void *start, size_t size, size_t pages, uint8_t *out)
{
    long error = system_call(SYS_mincore, (long)start, (long)size, (long)out, 0, 0, 0);
    for (size_t i = 0; error == 0 && i < pages; i++)
        out[i] &= 1;
    return (int)error;
}

/* False: the file cannot be read. */
static bool read_entries(long fd, size_t page, size_t count, uint8_t *out)
{
    uint64_t entries[ENTRIES];
    for (size_t done = 0; done < count; done += ENTRIES) {
        size_t part = size_min(count - done, ENTRIES), bytes = part * sizeof entries[0];
        long got = system_call(SYS_pread64, fd, (long)entries, (long)bytes,
                               (long)((page + done) * sizeof entries[0]), 0, 0);
        if (got != (long)bytes)
            return false;
        for (size_t i = 0; i < part; i++)
            out[done + i] = (uint8_t)(entries[i] >> PRESENT_BIT);
    }
    return true;
}

int os_present(const void *start, size_t size, uint8_t *out)
{
    size_t page = auxiliary_value(AT_PAGESZ), pages = size / page;
    long fd = system_call(SYS_openat, AT_FDCWD, (long)"/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0,
                          0, 0);
    bool is_read = fd >= 0 && read_entries(fd, (uintptr_t)start / page, pages, out);
    if (fd >= 0)
        system_call(SYS_close, fd, 0, 0, 0, 0, 0);
    return is_read ? 0 : present_by_mincore(start, size, pages, out);
}
