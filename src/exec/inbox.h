/*
 * inbox.h: a bounded number of slots of one size, and the order in which filled ones are taken.
 *
 * A slot goes round: reserved from the spare ones, filled, published, taken, used where it is, and
 * given back to the spare ones, by whichever threads. So a thief runs it where it lies, without a
 * copy, and a slot that is in use for long holds up no other. What moves to another inbox, as held
 * tasks do, is copied again. A slot that cannot be published, since the inbox was closed meanwhile,
 * is not accepted.
 *
 * A slot is published for anybody, or sent to the inbox's owner: then it lies in a ring of its own,
 * where a thief, which takes from the other, never meets it. Protocol: docs/protocols/ring.md
 */
#ifndef CALM_EXEC_INBOX_H
#define CALM_EXEC_INBOX_H

#include "base/bits.h"
#include "exec/ring.h"

/* A ring has so many places for each slot: a thread that is stopped between its two steps holds up
 * a put only after the others went round with all slots. */
enum { INBOX_LAPS = 2, INBOX_RINGS = 3 };

struct inbox {
    /* Constant. */
    char *slots;
    size_t slot_bytes;

    struct ring spare; /* slots to fill       */
    struct ring ready; /* filled ones, in order, for whoever takes one */
    struct ring sent;  /* filled ones, in order, for the owner         */
};

/* A slot for `bytes`. */
ALWAYS_INLINE size_t inbox_slot_bytes(size_t bytes)
{
    return align_up(bytes, CACHE_LINE_BYTES);
}

/* What an inbox of `capacity` slots, a power of two, that carry `bytes` each needs. */
ALWAYS_INLINE size_t inbox_bytes(uint32_t capacity, size_t bytes)
{
    return capacity *
           (inbox_slot_bytes(bytes) + INBOX_RINGS * INBOX_LAPS * sizeof(struct ring_place));
}

/* Sets up an inbox on inbox_bytes() bytes at `memory`, aligned to a line. */
void inbox_start(struct inbox *inbox, void *memory, uint32_t capacity, size_t bytes);

/* A slot to fill and publish, aligned to a line; NULL: none is spare, or the inbox is closed. */
void *inbox_reserve(struct inbox *inbox);

/* Lets a filled slot be taken, by inbox_take() or by inbox_take_sent(). False: the inbox was
 * closed; the slot is spare again. */
bool inbox_publish(struct inbox *inbox, void *slot);
bool inbox_send(struct inbox *inbox, void *slot);

/* As inbox_publish(), with a mark that others can see before they take the slot. */
bool inbox_publish_marked(struct inbox *inbox, void *slot, uint32_t mark);

/* The mark of the slot that inbox_take() would find now, 0 where it has none. False: none is there.
 * A look only: another thread may take it first. */
bool inbox_oldest_mark(const struct inbox *inbox, uint32_t *mark);

/* The slot that was published, or sent, first, to be given back by inbox_return(); NULL: none is
 * there. */
void *inbox_take(struct inbox *inbox);
void *inbox_take_sent(struct inbox *inbox);
void inbox_return(struct inbox *inbox, void *slot);

/* Whether either would find one now. */
bool inbox_is_ready(const struct inbox *inbox);

/* Slots that were ever published or sent. */
ALWAYS_INLINE uint64_t inbox_total(const struct inbox *inbox)
{
    return ring_total(&inbox->ready) + ring_total(&inbox->sent);
}

/* Accepts nothing from now on. inbox_is_over: closed, and all was taken. */
void inbox_close(struct inbox *inbox);
bool inbox_is_over(const struct inbox *inbox);

#endif
