/*
 * own.h: pools by their own interface, as programs call them that use pools. CALM_POOL_OWN=1 in the
 * environment asks for it where a library of pools is loaded that has pool_malloc_own().
 */
#ifndef CALM_BENCH_OWN_H
#define CALM_BENCH_OWN_H

#include "workload.h"

struct own {
    void *pool; /* NULL: there is none */
    void *(*alloc)(void *, size_t);
    int (*free)(void *, void *);
};

/* Keep it in a local variable: programs call these by name, and need no load to find them. */
static struct own find_own(void)
{
    if (getenv("CALM_POOL_OWN") == NULL)
        return (struct own){0}; /* looking for a name that is not there would allocate */
    void *(*pool)(void) = (void *(*)(void))dlsym(RTLD_DEFAULT, "pool_malloc_own");
    if (pool == NULL)
        return (struct own){0};
    return (struct own){pool(), (void *(*)(void *, size_t))dlsym(RTLD_DEFAULT, "calm_pool_alloc"),
                        (int (*)(void *, void *))dlsym(RTLD_DEFAULT, "calm_pool_free")};
}

/* As allocate(). */
static inline void *allocate_own(struct own own, size_t bytes, unsigned char tag)
{
    unsigned char *block = own.alloc(own.pool, bytes);
    if (block == NULL)
        fail("calm_pool_alloc(%zu) returned NULL", bytes);
    *(volatile unsigned char *)block = tag;
    if (TOUCH_LAST && bytes > 1)
        *(volatile unsigned char *)(block + bytes - 1) = tag;
    return block;
}

/* As release(). */
static inline unsigned char release_own(struct own own, void *block)
{
    unsigned char tag = *(volatile unsigned char *)block;
    if (own.free(own.pool, block) != 0)
        fail("calm_pool_free refused a block");
    return tag;
}

#endif
