/*
 * ring.h: one way for blocks between two threads. A full ring takes nothing, an empty one gives
 * NULL. Needs RING, the blocks that it holds.
 */
#ifndef CALM_BENCH_RING_H
#define CALM_BENCH_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct ring {
    _Alignas(128) atomic_size_t filled;
    _Alignas(128) atomic_size_t taken;
    _Alignas(128) void *blocks[RING];
};

static bool ring_give(struct ring *ring, void *block)
{
    size_t filled = atomic_load_explicit(&ring->filled, memory_order_relaxed);
    if (filled - atomic_load_explicit(&ring->taken, memory_order_acquire) == RING)
        return false;
    ring->blocks[filled % RING] = block;
    atomic_store_explicit(&ring->filled, filled + 1, memory_order_release);
    return true;
}

static void *ring_take(struct ring *ring)
{
    size_t taken = atomic_load_explicit(&ring->taken, memory_order_relaxed);
    if (taken == atomic_load_explicit(&ring->filled, memory_order_acquire))
        return NULL;
    void *block = ring->blocks[taken % RING];
    atomic_store_explicit(&ring->taken, taken + 1, memory_order_release);
    return block;
}

#endif
