/*
 * pair.c: one block made and freed between breakpoints, from C: what the adapters are compared to.
 * Argument 1: rounds until the pair that is traced; argument 2: free, sized, aligned or checked,
 * which function frees.
 */
#include "calmalloc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 48, ALIGNMENT = 16 };

static void breakpoint_if(bool is_traced)
{
    if (is_traced)
        __asm__ volatile("int3");
}

/* The compiler must keep each pair, in its order, and know nothing of the block. */
static void seen(void *block)
{
    __asm__ volatile("" : : "r"(block) : "memory");
}

enum way { FREE, SIZED, ALIGNED, CHECKED, WAYS };

static inline void release(void *block, enum way way)
{
    switch (way) {
    case SIZED: calm_free_sized(block, BYTES); break;
    case ALIGNED: calm_free_aligned_sized(block, ALIGNMENT, BYTES); break;
    case CHECKED: calm_adapter_free_checked(block, BYTES, ALIGNMENT); break;
    case FREE:
    case WAYS: calm_free(block); break;
    }
}

/* Inlined with a known `way`, so that nothing is decided between the breakpoints. */
static inline __attribute__((always_inline)) void run(long rounds, enum way way)
{
    for (long round = 0; round <= rounds; round++) {
        breakpoint_if(round == rounds);
        void *block = calm_malloc(BYTES);
        seen(block);
        breakpoint_if(round == rounds);
        release(block, way);
        breakpoint_if(round == rounds);
    }
}

static enum way way_named(const char *name)
{
    static const char *const names[WAYS] = {"free", "sized", "aligned", "checked"};
    int way = 0;
    while (way < WAYS && strcmp(names[way], name) != 0)
        way++;
    return (enum way)way;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    long rounds = strtol(argv[1], NULL, 10);
    switch (way_named(argv[2])) {
    case FREE: run(rounds, FREE); return 0;
    case SIZED: run(rounds, SIZED); return 0;
    case ALIGNED: run(rounds, ALIGNED); return 0;
    case CHECKED: run(rounds, CHECKED); return 0;
    case WAYS: break;
    }
    return 2;
}
