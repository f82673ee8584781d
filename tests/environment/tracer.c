/*
 * tracer.c: a library to be preloaded before libcalmalloc that counts calls and hands them on, as
 * profilers do. It finds the next malloc with dlsym, inside its first malloc; dlsym may allocate
 * itself and then comes back in here, where a small static buffer serves it. Blocks of that buffer
 * may reach the next free as foreign pointers.
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *block, size_t size);
void free(void *block);
size_t tracer_calls(void);

static atomic_size_t calls;
static _Alignas(16) char buffer[65536];
static size_t buffer_used;
/* Volatile: by its declaration dlsym never comes back into this file, but it does. */
static _Thread_local volatile int is_looking;

static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static void (*next_free)(void *);

size_t tracer_calls(void)
{
    return atomic_load(&calls);
}

static void look(void)
{
    is_looking = 1;
    *(void **)&next_calloc = dlsym(RTLD_NEXT, "calloc");
    *(void **)&next_realloc = dlsym(RTLD_NEXT, "realloc");
    *(void **)&next_free = dlsym(RTLD_NEXT, "free");
    dlsym(RTLD_NEXT, "a name that does not exist, so that dlsym allocates its complaint");
    dlerror();
    *(void **)&next_malloc = dlsym(RTLD_NEXT, "malloc");
    is_looking = 0;
    if (next_malloc == NULL || next_calloc == NULL || next_realloc == NULL || next_free == NULL)
        abort();
}

static void *from_buffer(size_t size)
{
    size_t at = buffer_used;
    buffer_used += (size + 15) / 16 * 16;
    return buffer_used <= sizeof buffer ? buffer + at : NULL;
}

void *malloc(size_t size)
{
    atomic_fetch_add(&calls, 1);
    if (is_looking)
        return from_buffer(size);
    if (next_malloc == NULL)
        look();
    return next_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    atomic_fetch_add(&calls, 1);
    if (is_looking)
        return from_buffer(count * size);
    if (next_malloc == NULL)
        look();
    return next_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    atomic_fetch_add(&calls, 1);
    if (is_looking)
        return from_buffer(size);
    if (next_malloc == NULL)
        look();
    return next_realloc(block, size);
}

void free(void *block)
{
    atomic_fetch_add(&calls, 1);
    if (is_looking)
        return;
    if (next_malloc == NULL)
        look();
    next_free(block);
}
