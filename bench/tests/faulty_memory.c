/*
 * faulty_memory: the C library's allocator with one fault, chosen at compile time, to see the
 * memory workloads fail. Faults of FAULT 1 to 4 change memory that is in use or deny it.
 *
 *   FAULT 0  none
 *   FAULT 1  hands out a live block twice, now and then
 *   FAULT 2  gives a page of a live block of 8192 B back to the kernel, now and then
 *   FAULT 3  changes the last byte of a live block, once
 *   FAULT 4  has no memory any more
 *   FAULT 5  none, but it can be asked to give back, and stops the program if that does not follow
 *            ten seconds without a call
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

extern void *__libc_malloc(size_t bytes);
extern void __libc_free(void *block);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);

enum { CALLS_BEFORE = 300, PAGE = 4096 };

static unsigned calls;
static time_t last_call;

/* A block of two pages or more that is live: forgotten when it is freed. */
static unsigned char *victim;

static time_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

static void drop_page_of_victim(void)
{
    uintptr_t page = ((uintptr_t)victim + PAGE - 1) & -(uintptr_t)PAGE;
    if (madvise((void *)page, PAGE, MADV_DONTNEED) != 0)
        __builtin_trap();
}

void *malloc(size_t bytes)
{
    static void *last;
    static size_t last_bytes;
    calls++;
    last_call = now();
    if (FAULT == 1 && calls > CALLS_BEFORE && calls % 500 == 0 && last_bytes >= bytes)
        return last;
    if (FAULT == 4 && calls > CALLS_BEFORE)
        return NULL;
    unsigned char *block = __libc_malloc(bytes);
    if (FAULT == 2 && bytes == 2 * PAGE && victim == NULL)
        victim = block;
    if (FAULT == 2 && calls % 20 == 0 && victim != NULL)
        drop_page_of_victim();
    if (FAULT == 3 && calls == CALLS_BEFORE)
        ((unsigned char *)last)[last_bytes - 1] ^= 1;
    last = block;
    last_bytes = bytes;
    return block;
}

void free(void *block)
{
    last_call = now();
    if (block == victim)
        victim = NULL;
    if (FAULT != 1)
        __libc_free(block);
}

void *calloc(size_t count, size_t bytes)
{
    return __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes)
{
    return __libc_realloc(block, bytes);
}

#if FAULT == 5
int malloc_trim(size_t pad)
{
    (void)pad;
    if (now() - last_call < 10)
        __builtin_trap();
    return 1;
}
#endif
