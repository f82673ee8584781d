/*
 * inbox.h: a bounded number of slots of one size, and the order in which filled slots are taken.
 *
 * A slot's cycle: reserved, filled, published, taken, used in place, returned. Each step may be
 * another thread's. A task runs in its slot without a copy, and a slot long in use delays no other.
 * A task that moves to another inbox is copied. If the inbox closes before a slot is published, the
 * slot is refused.
 *
 * A slot is published for any thread, or sent to the inbox's owner. Sent slots have a ring of their
 * own, which thieves never read. Protocol: docs/protocols/ring.md
 */
#ifndef CALM_EXEC_INBOX_H
#define CALM_EXEC_INBOX_H

#include "base/bits.h"
#include "exec/ring.h"

/* Places in a ring for each slot: with 2, a thread that stops between its two steps blocks a put
 * only after the other threads have used all slots once more. */
enum { INBOX_LAPS = 2, INBOX_RINGS = 3 };

struct inbox {
    /* Constant. */
    char *slots;
    size_t slot_bytes;

    struct ring spare; /* empty slots         */
    struct ring ready; /* filled slots, in order, for any thread */
    struct ring sent;  /* filled slots, in order, for the owner        */
};

/* Waits between tries for a thread that is between two steps: at first shortly, from INBOX_RELAXES
 * on a millisecond. */
enum { INBOX_RELAXES = 1000 };
void inbox_pause(unsigned tries);

/* Bytes of a slot that carries `bytes`. */
ALWAYS_INLINE size_t inbox_slot_bytes(size_t bytes)
{
    return align_up(bytes, CACHE_LINE_BYTES);
}

/* Bytes of an inbox of `capacity` slots, a power of two, that carry `bytes` each. */
ALWAYS_INLINE size_t inbox_bytes(uint32_t capacity, size_t bytes)
{
    return capacity *
           (inbox_slot_bytes(bytes) + INBOX_RINGS * INBOX_LAPS * sizeof(struct ring_place));
}

/* Sets up an inbox in inbox_bytes() bytes at `memory`, aligned to a cache line. */
void inbox_start(struct inbox *inbox, void *memory, uint32_t capacity, size_t bytes);

/* Returns an empty slot, aligned to a cache line. NULL: none, or the inbox is closed. */
void *inbox_reserve(struct inbox *inbox);

/* Make a filled slot available, to inbox_take() or to inbox_take_sent(). False: the inbox is
 * closed; the slot is empty again. */
bool inbox_publish(struct inbox *inbox, void *slot);
bool inbox_send(struct inbox *inbox, void *slot);

/* inbox_publish() with a mark that other threads can read before they take the slot. */
bool inbox_publish_marked(struct inbox *inbox, void *slot, uint32_t mark);

/* Reads the mark of the slot that inbox_take() would return now; 0 for a slot without a mark.
 * False: no slot. Another thread may take the slot first. */
bool inbox_oldest_mark(const struct inbox *inbox, uint32_t *mark);

/* Take the oldest slot that was published, or sent; return it with inbox_return(). NULL: none. */
void *inbox_take(struct inbox *inbox);
void *inbox_take_sent(struct inbox *inbox);
void inbox_return(struct inbox *inbox, void *slot);

/* Whether a published or sent slot is available now. */
bool inbox_is_ready(const struct inbox *inbox);

/* Slots ever published or sent. */
ALWAYS_INLINE uint64_t inbox_total(const struct inbox *inbox)
{
    return ring_total(&inbox->ready) + ring_total(&inbox->sent);
}

/* Refuses slots from now on. inbox_is_over: closed, and all slots were taken. */
void inbox_close(struct inbox *inbox);
bool inbox_is_over(const struct inbox *inbox);

#endif
