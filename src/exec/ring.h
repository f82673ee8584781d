/*
 * ring.h: a bounded queue of numbers, filled and emptied by any thread, that can be closed.
 *
 * Each place has a turn. Position p may be filled when its place's turn is p, and emptied when the
 * turn is p + 1; emptying sets the turn to p + capacity, for the next lap (Vyukov's bounded queue,
 * 2010). A closed ring refuses numbers; those in it can still be taken.
 *
 * A thread that stops between a position's two steps blocks the positions behind, whose threads see
 * a full or empty ring. No thread sleeps or spins here. Protocol: docs/protocols/ring.md
 */
#ifndef CALM_EXEC_RING_H
#define CALM_EXEC_RING_H

#include "base/atomic.h"
#include "base/attr.h"

#define RING_CLOSED ((uint64_t)1 << 63)

enum { RING_TRIES_MAX = 64 }; /* each failed try is another thread's success */

enum ring_result { RING_DONE, RING_FULL, RING_EMPTY, RING_IS_CLOSED };

struct ring_place {
    _Atomic uint64_t turn;
    _Atomic uint64_t number; /* ring_oldest() may read it while another thread writes */
};

struct ring {
    /* Constant. */
    struct ring_place *places;
    uint32_t capacity; /* a power of two */

    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t tail; /* next position to fill; RING_CLOSED */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t head; /* next position to empty        */
};

/* Sets up an empty ring on `capacity` places, aligned to a cache line. */
void ring_start(struct ring *ring, struct ring_place *places, uint32_t capacity);

/* Adds a number. RING_FULL also after RING_TRIES_MAX failed tries. */
enum ring_result ring_put(struct ring *ring, uint64_t number);

/* Takes the oldest number. RING_IS_CLOSED: closed, and all was taken. RING_EMPTY also after
 * RING_TRIES_MAX failed tries. */
enum ring_result ring_take(struct ring *ring, uint64_t *number);

void ring_close(struct ring *ring);

/* Reads the number that ring_take would take now; another thread may take it first. After
 * RING_TRIES_MAX failed tries: true, and an arbitrary number. */
bool ring_oldest(const struct ring *ring, uint64_t *number);

/* Whether ring_take would find a number now. True also after RING_TRIES_MAX failed tries. */
bool ring_is_ready(const struct ring *ring);

/* Numbers ever put. */
ALWAYS_INLINE uint64_t ring_total(const struct ring *ring)
{
    return load(&((struct ring *)(uintptr_t)ring)->tail, ACQUIRE) & ~RING_CLOSED;
}

ALWAYS_INLINE bool ring_is_closed(const struct ring *ring)
{
    return (load(&((struct ring *)(uintptr_t)ring)->tail, RELAXED) & RING_CLOSED) != 0;
}

#endif
