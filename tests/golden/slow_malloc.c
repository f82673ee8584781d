/*
 * slow_malloc.c: the control for the fast-path test. A malloc that breaks law L2 in the way SLOW
 * says, and one that breaks nothing when SLOW is 0.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/syscall.h>

#define EXPORT __attribute__((visibility("default")))

static char arena[1 << 20];
static size_t used;
static unsigned long word;

EXPORT void *malloc(size_t size);
EXPORT size_t malloc_usable_size(void *block);
EXPORT void free(void *block);
EXPORT void *calloc(size_t count, size_t size);
EXPORT void *realloc(void *block, size_t size);

static __attribute__((noinline)) void called(void)
{
    __asm__ volatile("");
}

static inline __attribute__((always_inline)) void be_slow(void)
{
    if (SLOW == 1)
        __asm__ volatile("lock addq $1, %0" : "+m"(word));
    if (SLOW == 2)
        __asm__ volatile("xchg %%rax, %0" : "+m"(word) : : "rax");
    if (SLOW == 3)
        called();
    if (SLOW == 4) {
        long result = SYS_getpid;
        __asm__ volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
    }
    if (SLOW == 5)
        for (int i = 0; i < 200; i++)
            __asm__ volatile("");
}

/* One block is handed out again and again once the arena is used up: enough for the tracer. */
void *malloc(size_t size)
{
    be_slow();
    size_t start = used;
    if (used + size <= sizeof arena / 2)
        used = (used + size + 15) & ~(size_t)15;
    return arena + start;
}

size_t malloc_usable_size(void *block)
{
    be_slow();
    return block != NULL ? 16 : 0;
}

void free(void *block)
{
    (void)block;
    be_slow();
}

void *calloc(size_t count, size_t size)
{
    return malloc(count * size);
}

void *realloc(void *block, size_t size)
{
    (void)block;
    return malloc(size);
}
