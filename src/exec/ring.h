/*
 * ring.h: a bounded queue of numbers, filled and emptied by any thread, that can be closed.
 *
 * Each place has a turn: position p of the queue may be filled when the place's turn is p, and
 * emptied when it is p + 1, which makes the turn p + capacity, a lap later (Vyukov's bounded queue,
 * 2010). Once closed, nothing is put any more; what was is still taken.
 *
 * A thread that is stopped between a position's two steps holds up those behind it, which find the
 * ring full or empty. Nobody sleeps or spins here. Protocol: docs/protocols/ring.md
 */
#ifndef CALM_EXEC_RING_H
#define CALM_EXEC_RING_H

#include "base/atomic.h"
#include "base/attr.h"

#define RING_CLOSED ((uint64_t)1 << 63)

enum { RING_TRIES_MAX = 64 }; /* each lost one is another thread's success */

enum ring_result { RING_DONE, RING_FULL, RING_EMPTY, RING_IS_CLOSED };

struct ring_place {
    _Atomic uint64_t turn;
    _Atomic uint64_t number; /* the position's; ring_oldest() may read it while another writes */
};

struct ring {
    /* Constant. */
    struct ring_place *places;
    uint32_t capacity; /* a power of two */

    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t tail; /* the next to fill; RING_CLOSED */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t head; /* the next to empty             */
};

/* Sets up an empty ring on `capacity` places, aligned to a line. */
void ring_start(struct ring *ring, struct ring_place *places, uint32_t capacity);

/* Adds a number. RING_FULL also after RING_TRIES_MAX lost tries. */
enum ring_result ring_put(struct ring *ring, uint64_t number);

/* Takes the oldest number. RING_IS_CLOSED: closed, and all was taken. RING_EMPTY also after lost
 * tries. */
enum ring_result ring_take(struct ring *ring, uint64_t *number);

void ring_close(struct ring *ring);

/* The number that ring_take would find now, for whoever only looks: what is then taken may be
 * another one. True, with any number, also after lost tries. */
bool ring_oldest(const struct ring *ring, uint64_t *number);

/* Whether ring_take would find a number now. True also after lost tries. */
bool ring_is_ready(const struct ring *ring);

/* Numbers that were ever put. */
ALWAYS_INLINE uint64_t ring_total(const struct ring *ring)
{
    return load(&((struct ring *)(uintptr_t)ring)->tail, ACQUIRE) & ~RING_CLOSED;
}

ALWAYS_INLINE bool ring_is_closed(const struct ring *ring)
{
    return (load(&((struct ring *)(uintptr_t)ring)->tail, RELAXED) & RING_CLOSED) != 0;
}

#endif
