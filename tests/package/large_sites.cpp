/*
 * large_sites.cpp: holds large blocks, a different number of different lengths from each function,
 * then says so and waits.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <new>

static void *kept[64];
static int used;

#define SITE(name, count, call)                                                                    \
    __attribute__((noinline)) static void name()                                                   \
    {                                                                                              \
        for (int i = 0; i < count; i++)                                                            \
            kept[used++] = call;                                                                   \
        __asm__ volatile("" ::: "memory");                                                         \
    }

enum { UNIT = 64 * 1024 };
static void *small_one;
static char *volatile growing;

/* The first to have the memory that by_malloc gets. */
__attribute__((noinline)) static void freed_before()
{
    void *blocks[8];
    for (void *&block : blocks)
        memset(block = malloc(3 * UNIT), 1, 3 * UNIT);
    for (void *block : blocks)
        free(block);
}

SITE(by_malloc, 4, malloc(3 * UNIT - 100))
SITE(by_calloc, 3, calloc(5, UNIT))
SITE(by_aligned, 2, aligned_alloc(4096, 7 * UNIT))
SITE(by_new, 5, ::operator new(2 * UNIT))
SITE(by_aligned_new, 1, ::operator new(9 * UNIT, std::align_val_t(64)))
SITE(by_realloc, 1, realloc(small_one, 11 * UNIT))
SITE(by_least, 6, malloc(32 * 1024 + 1))
SITE(by_huge, 1, malloc(40u << 20))

/* In place or not, the last to ask is the site. */
__attribute__((noinline)) static void by_growth()
{
    for (int units = 2; units <= 130; units += 8)
        growing = (char *)realloc(growing, (size_t)units * UNIT);
    kept[used++] = growing;
}

int main()
{
    small_one = malloc(100);
    growing = (char *)malloc(100);
    freed_before();
    by_malloc();
    by_calloc();
    by_aligned();
    by_new();
    by_aligned_new();
    by_realloc();
    by_least();
    by_huge();
    by_growth();
    (void)!write(1, "ready\n", 6);
    pause();
}
