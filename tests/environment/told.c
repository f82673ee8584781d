/*
 * told.c: a program that has functions of its own in the place of `munmap`, `madvise`, `mremap` and
 * `mmap`, as caches of registered memory have, is told of pages that a freed block loses. It may
 * allocate inside them.
 *
 * Seen to fail with system calls of our own.
 */
#define _GNU_SOURCE

#include "check.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096 };

static char *watched;
static size_t watched_bytes;
static unsigned char told[512 * 1024 * 1024 / PAGE];
static unsigned depth, depth_max;

static void note(const void *start, size_t size)
{
    depth++;
    depth_max = depth > depth_max ? depth : depth_max;
    for (size_t at = 0; at < size; at += PAGE) {
        size_t offset = (size_t)((uintptr_t)start + at - (uintptr_t)watched);
        if (offset < watched_bytes)
            told[offset / PAGE] = 1;
    }
    free(hidden(malloc(1000)));
    free(hidden(malloc(3 * MIB)));
    depth--;
}

int munmap(void *start, size_t size)
{
    note(start, size);
    return (int)syscall(SYS_munmap, start, size);
}

int madvise(void *start, size_t size, int advice)
{
    note(start, advice == MADV_DONTNEED || advice == MADV_FREE ? size : 0);
    return (int)syscall(SYS_madvise, start, size, advice);
}

void *mremap(void *start, size_t size, size_t new_size, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    void *to = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
    va_end(more);
    note(start, size);
    return (void *)syscall(SYS_mremap, start, size, new_size, flags, to);
}

void *mmap(void *start, size_t size, int protection, int flags, int file, off_t offset)
{
    note(start, flags & MAP_FIXED ? size : 0);
    return (void *)syscall(SYS_mmap, start, size, protection, flags, file, offset);
}

static void watch(void *block, size_t size)
{
    watched = block;
    watched_bytes = size;
    memset(told, 0, sizeof told);
}

/* Whole pages of what is watched that nobody told of. */
static size_t untold(void)
{
    size_t first = (PAGE - (uintptr_t)watched % PAGE) % PAGE, count = 0;
    for (size_t at = first; at + PAGE <= watched_bytes; at += PAGE)
        count += told[at / PAGE] == 0;
    return count;
}

int main(void)
{
    check_is_calmalloc();
    check_time_limit(60);
    for (size_t size = 64 * MIB; size <= 256 * MIB; size *= 2) {
        char *block = malloc(size), *fence = malloc(size);
        CHECK(block != NULL && fence != NULL, "no memory");
        memset(block, 1, size);
        watch(block, size);
        free(block);
        malloc_trim(0);
        CHECK(untold() == 0, "nobody told of %zu pages of a freed block", untold());
        block = malloc(size);
        char *behind = malloc(MIB);
        CHECK(block != NULL && behind != NULL, "no memory");
        memset(block, 1, size);
        watch(block, size);
        char *moved = realloc(block, size + 100 * MIB);
        CHECK(moved != NULL && moved[size - 1] == 1, "realloc");
        if (moved != watched) {
            malloc_trim(0);
            CHECK(untold() == 0, "nobody told of %zu pages of a block that moved", untold());
        }
        free(moved);
        free(behind);
        free(fence);
    }
    CHECK(depth_max < 10, "one inside the other %u times", depth_max);
    check_heap();
    return 0;
}
