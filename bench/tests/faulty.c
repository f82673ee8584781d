/*
 * faulty: the C library's allocator with one fault, chosen at compile time, to see the runner catch
 * it.
 *
 *   FAULT 0  none
 *   FAULT 1  crashes after a few thousand calls
 *   FAULT 2  hands out a live block of 64 B twice, now and then
 *   FAULT 3  writes to the standard output of the perl row (which is known by its environment)
 *   FAULT 4  is slow: every malloc takes a hundred times longer
 *   FAULT 5  hangs after a few thousand calls, and so do its children
 */
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

extern void *__libc_malloc(size_t bytes);
extern void __libc_free(void *block);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);

static unsigned calls;

void *malloc(size_t bytes)
{
    static void *last;
    calls++;
    if (FAULT == 1 && calls > 3000)
        __builtin_trap();
    if (FAULT == 5 && calls > 3000) {
        if (calls == 3001 && fork() < 0)
            __builtin_trap();
        for (;;)
            pause();
    }
    if (FAULT == 2 && bytes == 64) {
        if (last == NULL || calls % 500 != 0)
            last = __libc_malloc(bytes);
        return last;
    }
    if (FAULT == 4)
        for (volatile unsigned i = 0; i < 1000; i++)
            ;
    return __libc_malloc(bytes);
}

void free(void *block)
{
    if (FAULT != 2)
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

__attribute__((constructor)) static void speak(void)
{
    if (FAULT == 3 && getenv("PERL_HASH_SEED") != NULL && write(1, "x", 1) != 1)
        __builtin_trap();
}
