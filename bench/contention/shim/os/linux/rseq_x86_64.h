/*
 * rseq_x86_64.h of the simulated machine: the sequences as plain code, which the machine sees. A
 * core runs one thread, so nothing ever comes between.
 */
#ifndef CALM_OS_LINUX_RSEQ_X86_64_H
#define CALM_OS_LINUX_RSEQ_X86_64_H

#include "os/rseq.h"

enum { RSEQ_SLOT_BYTES = 8 };

struct rseq_stack {
    uint64_t first;
    uint32_t top;
    uint32_t limit;
};

ALWAYS_INLINE void *rseq_pop(struct rseq_area *area, struct rseq_slot *slots, size_t offset)
{
    char *base = *(char **)(void *)&slots[area->core].base;
    struct rseq_stack *stack = (struct rseq_stack *)(void *)(base + offset);
    uint32_t top = stack->top;
    void *block = *(void **)(void *)(base + top);
    if (block != NULL)
        stack->top = top - RSEQ_SLOT_BYTES;
    return block;
}

ALWAYS_INLINE bool rseq_push(struct rseq_area *area, struct rseq_slot *slots, size_t offset,
                             void *block)
{
    char *base = *(char **)(void *)&slots[area->core].base;
    struct rseq_stack *stack = (struct rseq_stack *)(void *)(base + offset);
    uint32_t top = stack->top + RSEQ_SLOT_BYTES;
    if (top > stack->limit)
        return false;
    *(void **)(void *)(base + top) = block;
    stack->top = top;
    return true;
}

ALWAYS_INLINE int rseq_swap(struct rseq_area *area, struct rseq_slot *slots, void *expected,
                            void *desired)
{
    void **slot = (void **)(void *)&slots[area->core].base;
    if (*slot != expected)
        return -1;
    *slot = desired;
    return (int)area->core;
}

#endif
