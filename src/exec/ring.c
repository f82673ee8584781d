/*
 * ring.c: puts and takes numbers, each in two steps: claim a position, then write or read its
 * place.
 *
 * Owner: any thread. Protocol: docs/protocols/ring.md
 */
#include "exec/ring.h"

static struct ring_place *place_at(const struct ring *ring, uint64_t position)
{
    return &ring->places[position & (ring->capacity - 1)];
}

void ring_start(struct ring *ring, struct ring_place *places, uint32_t capacity)
{
    ring->places = places;
    ring->capacity = capacity;
    for (uint64_t position = 0; position < capacity; position++)
        store(&place_at(ring, position)->turn, position, RELAXED);
    store(&ring->head, 0, RELAXED);
    store(&ring->tail, 0, RELEASE);
}

enum ring_result ring_put(struct ring *ring, uint64_t number)
{
    uint64_t tail = load(&ring->tail, RELAXED);
    for (unsigned tries = 0; tries < RING_TRIES_MAX; tries++) {
        if (unlikely((tail & RING_CLOSED) != 0))
            return RING_IS_CLOSED;
        struct ring_place *place = place_at(ring, tail);
        uint64_t turn = load(&place->turn, ACQUIRE); /* pairs with N4 */
        if (turn < tail)
            return RING_FULL;
        if (turn != tail) {
            tail = load(&ring->tail, RELAXED);
        } else if (compare_swap(&ring->tail, &tail, tail + 1, RELAXED, RELAXED)) { /* N1 */
            store(&place->number, number, RELAXED);
            store(&place->turn, tail + 1, RELEASE); /* N2 */
            return RING_DONE;
        }
    }
    return RING_FULL;
}

enum ring_result ring_take(struct ring *ring, uint64_t *number)
{
    uint64_t head = load(&ring->head, RELAXED);
    for (unsigned tries = 0; tries < RING_TRIES_MAX; tries++) {
        struct ring_place *place = place_at(ring, head);
        uint64_t turn = load(&place->turn, ACQUIRE); /* pairs with N2 */
        if (turn < head + 1)
            return load(&ring->tail, RELAXED) == (head | RING_CLOSED) ? RING_IS_CLOSED : RING_EMPTY;
        if (turn != head + 1) {
            head = load(&ring->head, RELAXED);
        } else if (compare_swap(&ring->head, &head, head + 1, RELAXED, RELAXED)) { /* N3 */
            *number = load(&place->number, RELAXED);
            store(&place->turn, head + ring->capacity, RELEASE); /* N4 */
            return RING_DONE;
        }
    }
    return RING_EMPTY;
}

bool ring_oldest(const struct ring *ring, uint64_t *number)
{
    struct ring *readable = (struct ring *)(uintptr_t)ring;
    uint64_t head = load(&readable->head, RELAXED);
    *number = 0;
    for (unsigned tries = 0; tries < RING_TRIES_MAX; tries++) {
        struct ring_place *place = place_at(ring, head);
        if (load(&place->turn, ACQUIRE) == head + 1) { /* pairs with N2 and N4 */
            *number = load(&place->number, RELAXED);
            return true;
        }
        uint64_t now = load(&readable->head, RELAXED);
        if (now == head)
            return false;
        head = now; /* another thread took that place; the next may have a number */
    }
    *number = UINT64_MAX;
    return true; /* contended: a false "ready" costs less than a missed number */
}

bool ring_is_ready(const struct ring *ring)
{
    uint64_t number;
    return ring_oldest(ring, &number);
}

void ring_close(struct ring *ring)
{
    atomic_fetch_or_explicit(&ring->tail, RING_CLOSED, RELAXED); /* N5 */
}
