/*
 * tagged_stack.h: a lock-free stack (Treiber's) of numbered items.
 *
 * One word holds the top's number, 0 for none, and a tag that every step changes, so that a number
 * that left and came back is not taken for one that stayed. Links are words of the items, which are
 * never unmapped: a thread that was stopped may follow a stale link; its compare-and-swap then
 * fails. A stopped thread holds up no other.
 *
 * Steps: docs/protocols/tagged-stack.md.
 */
#ifndef CALM_BASE_TAGGED_STACK_H
#define CALM_BASE_TAGGED_STACK_H

#include "base/atomic.h"
#include "base/attr.h"

struct tagged_stack {
    _Atomic uint64_t top; /* the number below, the tag above */
};

enum { TAGGED_TRIES_MAX = 16, TAGGED_NUMBER_BITS = 32 };

/* The word of item `number` that holds the number below it. */
typedef _Atomic uint32_t *(*tagged_link)(uint32_t number);

ALWAYS_INLINE uint64_t tagged_word(uint64_t before, uint32_t number)
{
    return ((before >> TAGGED_NUMBER_BITS) + 1) << TAGGED_NUMBER_BITS | number;
}

/* Pushes an item that the caller alone has; any thread may pop it then. */
ALWAYS_INLINE void tagged_push(struct tagged_stack *stack, uint32_t number, tagged_link link)
{
    uint64_t top = load(&stack->top, RELAXED);
    do /* each turn is another thread's progress */
        store(link(number), (uint32_t)top, RELAXED);
    while (!compare_swap(&stack->top, &top, tagged_word(top, number), RELEASE, RELAXED)); /* A1 */
}

/* Pops an item, which the caller alone has then. 0: empty, or other threads won every try. */
ALWAYS_INLINE uint32_t tagged_pop(struct tagged_stack *stack, tagged_link link)
{
    /* A2 acquire: the link, and what was written to the item before A1. */
    uint64_t top = load(&stack->top, ACQUIRE);
    for (unsigned tries = 0; tries < TAGGED_TRIES_MAX && (uint32_t)top != 0; tries++) {
        uint32_t below = load(link((uint32_t)top), RELAXED);
        uint64_t seen = top;
        if (compare_swap(&stack->top, &top, tagged_word(top, below), ACQUIRE, ACQUIRE)) /* A2 */
            return (uint32_t)seen;
    }
    return 0;
}

#endif
