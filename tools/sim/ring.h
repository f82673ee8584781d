/*
 * ring.h: a queue in an array that doubles when it is full.
 *
 * What happens a constant time after its cause happens in the order of the causes, so this is all
 * that deliveries and notices need.
 */
#ifndef CALM_SIM_RING_H
#define CALM_SIM_RING_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct ring {
    void *items;
    uint64_t first, count, capacity; /* a power of two, or 0 */
};

static inline void *ring_at(const struct ring *ring, uint64_t index, size_t bytes)
{
    return (char *)ring->items + (index & (ring->capacity - 1)) * bytes;
}

/* The new last item, not set to anything. Ends the program when there is no memory: it is a tool.
 */
static inline void *ring_push(struct ring *ring, size_t bytes)
{
    if (ring->count == ring->capacity) {
        struct ring larger = {.capacity = ring->capacity > 0 ? 2 * ring->capacity : 1024};
        larger.items = malloc(larger.capacity * bytes);
        if (larger.items == NULL)
            abort();
        for (; larger.count < ring->count; larger.count++)
            memcpy(ring_at(&larger, larger.count, bytes),
                   ring_at(ring, ring->first + larger.count, bytes), bytes);
        free(ring->items);
        *ring = larger;
    }
    return ring_at(ring, ring->first + ring->count++, bytes);
}

/* Pre: count > 0. */
static inline void *ring_first(const struct ring *ring, size_t bytes)
{
    return ring_at(ring, ring->first, bytes);
}

static inline void ring_drop(struct ring *ring)
{
    ring->first++;
    ring->count--;
}

#endif
