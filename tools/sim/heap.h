/*
 * heap.h: a binary heap of events by time, in an array of fixed capacity.
 */
#ifndef CALM_SIM_HEAP_H
#define CALM_SIM_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct event {
    double at_ns;
    uint32_t core;
    uint32_t what; /* a class and a mark, for a release */
};

struct heap {
    struct event *events;
    uint64_t count, capacity;
};

/* Pre: count < capacity. */
static inline void heap_push(struct heap *heap, struct event event)
{
    uint64_t at = heap->count++;
    while (at > 0 && heap->events[(at - 1) / 2].at_ns > event.at_ns) {
        heap->events[at] = heap->events[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->events[at] = event;
}

/* Pre: count > 0. */
static inline struct event heap_pop(struct heap *heap)
{
    struct event top = heap->events[0], last = heap->events[--heap->count];
    uint64_t at = 0, child;
    while ((child = 2 * at + 1) < heap->count) {
        if (child + 1 < heap->count && heap->events[child + 1].at_ns < heap->events[child].at_ns)
            child++;
        if (heap->events[child].at_ns >= last.at_ns)
            break;
        heap->events[at] = heap->events[child];
        at = child;
    }
    heap->events[at] = last;
    return top;
}

#endif
