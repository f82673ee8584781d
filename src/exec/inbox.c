/*
 * inbox.c: moves slots between rings.
 *
 * I1: each slot is in one ring or belongs to one thread, so no ring ever overflows.
 *
 * Owner: any thread. Protocol: docs/protocols/ring.md
 */
#include "exec/inbox.h"

#include "os/os.h"

/* A ring's entry: the slot's number, and above it the slot's mark. */
enum { MARK_SHIFT = 32 };

enum { PAUSE_MS = 1 };

void inbox_start(struct inbox *inbox, void *memory, uint32_t capacity, size_t bytes)
{
    char *at = (char *)memory;
    uint32_t places = capacity * INBOX_LAPS;
    size_t ring_bytes = places * sizeof(struct ring_place);
    ring_start(&inbox->spare, (struct ring_place *)(void *)at, places);
    ring_start(&inbox->ready, (struct ring_place *)(void *)(at + ring_bytes), places);
    ring_start(&inbox->sent, (struct ring_place *)(void *)(at + 2 * ring_bytes), places);
    inbox->slots = at + INBOX_RINGS * ring_bytes;
    inbox->slot_bytes = inbox_slot_bytes(bytes);
    for (uint64_t number = 0; number < capacity; number++)
        ring_put(&inbox->spare, number);
}

static void *slot_of(const struct inbox *inbox, uint64_t number)
{
    return inbox->slots + (uint32_t)number * inbox->slot_bytes;
}

static uint64_t number_of(const struct inbox *inbox, const void *slot)
{
    return (uint64_t)((const char *)slot - inbox->slots) / inbox->slot_bytes;
}

void inbox_pause(unsigned tries)
{
    static _Atomic uint32_t nobody;
    if (tries < INBOX_RELAXES)
        cpu_relax();
    else
        os_wait(&nobody, 0, PAUSE_MS);
}

/* The ring has room, unless a thread stopped between its two steps a lap ago; then this waits for
 * it. */
static enum ring_result put_waiting(struct ring *ring, uint64_t number)
{
    enum ring_result result;
    for (unsigned tries = 0; (result = ring_put(ring, number)) == RING_FULL; tries++)
        inbox_pause(tries);
    return result;
}

void *inbox_reserve(struct inbox *inbox)
{
    uint64_t number;
    if (ring_is_closed(&inbox->ready) || ring_take(&inbox->spare, &number) != RING_DONE)
        return NULL;
    return slot_of(inbox, number);
}

static bool publish_in(struct inbox *inbox, struct ring *ring, void *slot, uint64_t mark)
{
    if (likely(put_waiting(ring, number_of(inbox, slot) | mark << MARK_SHIFT) == RING_DONE))
        return true;
    inbox_return(inbox, slot);
    return false;
}

bool inbox_publish(struct inbox *inbox, void *slot)
{
    return publish_in(inbox, &inbox->ready, slot, 0);
}

bool inbox_publish_marked(struct inbox *inbox, void *slot, uint32_t mark)
{
    return publish_in(inbox, &inbox->ready, slot, mark);
}

bool inbox_oldest_mark(const struct inbox *inbox, uint32_t *mark)
{
    uint64_t number;
    if (!ring_oldest(&inbox->ready, &number))
        return false;
    *mark = (uint32_t)(number >> MARK_SHIFT);
    return true;
}

bool inbox_send(struct inbox *inbox, void *slot)
{
    return publish_in(inbox, &inbox->sent, slot, 0);
}

static void *take_from(struct inbox *inbox, struct ring *ring)
{
    uint64_t number;
    return ring_take(ring, &number) == RING_DONE ? slot_of(inbox, number) : NULL;
}

void *inbox_take(struct inbox *inbox)
{
    return take_from(inbox, &inbox->ready);
}

void *inbox_take_sent(struct inbox *inbox)
{
    return take_from(inbox, &inbox->sent);
}

bool inbox_is_ready(const struct inbox *inbox)
{
    return ring_is_ready(&inbox->ready) || ring_is_ready(&inbox->sent);
}

void inbox_return(struct inbox *inbox, void *slot)
{
    put_waiting(&inbox->spare, number_of(inbox, slot));
}

void inbox_close(struct inbox *inbox)
{
    ring_close(&inbox->ready);
    ring_close(&inbox->sent);
}

static bool ring_is_over(const struct ring *ring)
{
    struct ring *readable = (struct ring *)(uintptr_t)ring;
    return load(&readable->tail, RELAXED) == (load(&readable->head, RELAXED) | RING_CLOSED);
}

bool inbox_is_over(const struct inbox *inbox)
{
    return ring_is_over(&inbox->ready) && ring_is_over(&inbox->sent);
}
