/*
 * auxiliary.c: the auxiliary vector, read once from /proc, or from the C library if /proc is not
 * mounted.
 *
 * Owner: any thread reads; all threads write the same values.
 */
#define _GNU_SOURCE

#include "os/linux/auxiliary.h"

#include "base/atomic.h"
#include "base/attr.h"
#include "os/linux/lines.h"

enum { TYPES = 64 }; /* more than the kernel has */

static _Atomic uintptr_t values[TYPES];
static _Atomic bool is_read;

struct entry {
    uintptr_t type, value;
};

static bool read_from_kernel(void)
{
    struct lines file;
    uintptr_t page_bytes = 0;
    if (lines_open(&file, "/proc/self/auxv") != 0)
        return false;
    long length = lines_refill(&file); /* whole file: some twenty entries */
    lines_close(&file);
    for (size_t at = 0; length > 0 && at + sizeof(struct entry) <= (size_t)length;
         at += sizeof(struct entry)) {
        struct entry entry;
        __builtin_memcpy(&entry, file.buffer + at, sizeof entry);
        if (entry.type < TYPES)
            store(&values[entry.type], entry.value, RELAXED);
        page_bytes = entry.type == AT_PAGESZ ? entry.value : page_bytes;
    }
    return page_bytes != 0;
}

static NOINLINE void read_all(void)
{
    if (!read_from_kernel())
        for (unsigned type = 0; type < TYPES; type++)
            store(&values[type], getauxval(type), RELAXED);
    store(&is_read, true, RELEASE);
}

uintptr_t auxiliary_value(unsigned type)
{
    if (unlikely(!load(&is_read, ACQUIRE)))
        read_all();
    return type < TYPES ? load(&values[type], RELAXED) : 0;
}
