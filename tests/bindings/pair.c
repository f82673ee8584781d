/*
 * pair.c: one block made and freed between breakpoints, from C: what the adapters are compared to.
 * Argument 1: rounds until the pair that is traced; argument 2, when it is there: sized frees.
 */
#include "calmalloc.h"

#include <stdbool.h>
#include <stdlib.h>

enum { BYTES = 48 };

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

static void run(long rounds)
{
    for (long round = 0; round <= rounds; round++) {
        breakpoint_if(round == rounds);
        void *block = calm_malloc(BYTES);
        seen(block);
        breakpoint_if(round == rounds);
        calm_free(block);
        breakpoint_if(round == rounds);
    }
}

static void run_sized(long rounds)
{
    for (long round = 0; round <= rounds; round++) {
        breakpoint_if(round == rounds);
        void *block = calm_malloc(BYTES);
        seen(block);
        breakpoint_if(round == rounds);
        calm_free_sized(block, BYTES);
        breakpoint_if(round == rounds);
    }
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    if (argc > 2)
        run_sized(rounds);
    else
        run(rounds);
    return 0;
}
