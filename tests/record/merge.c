/*
 * merge.c: the order of two rings, one of whose threads was held between its stamp and its event:
 * what another thread did after that stamp waits until the event is there.
 */
#define _GNU_SOURCE
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOCK = 0x10000 };

static void publish(struct ring *ring, uint64_t stamp, unsigned kind, uint64_t block)
{
    uint64_t head = ring->head;
    ring->words[head++ % RING_WORDS] = block | (uint64_t)kind << RAW_KIND_SHIFT | RAW_STAMPED;
    ring->words[head++ % RING_WORDS] = stamp;
    if (kind == RAW_MALLOC)
        ring->words[head++ % RING_WORDS] = 0x1234 | UINT64_C(24) << RAW_SIZE_SHIFT;
    ring->last = stamp;
    ring->head = head;
}

static void expect(const struct session *session, uint64_t events, const char *when)
{
    if (session->encoder->events == events && session->unknown == 0 && session->disorder == 0)
        return;
    fprintf(stderr, "%s: %llu events, %llu unknown, %llu in disorder; %llu events are right\n",
            when, (unsigned long long)session->encoder->events,
            (unsigned long long)session->unknown, (unsigned long long)session->disorder,
            (unsigned long long)events);
    exit(1);
}

int main(void)
{
    struct session *session = calloc(1, sizeof *session);
    struct record_head head = {.magic = RECORD_MAGIC, .version = RECORD_VERSION};
    if (session == NULL || (session->encoder = calloc(1, sizeof *session->encoder)) == NULL ||
        (session->shared = calloc(1, sizeof *session->shared)) == NULL ||
        !blocks_open(&session->live) || !areas_open(&session->areas) ||
        !sites_open(&session->sites, getpid(), 0) ||
        !encode_open(session->encoder, "/dev/null", &head))
        return 77;
    session->page_bytes = 4096;
    struct ring *held = &session->shared->rings[0], *other = &session->shared->rings[1];
    held->thread = 1;
    other->thread = 2;

    publish(other, 3, RAW_MALLOC, BLOCK);
    publish(other, 8, RAW_FREE, BLOCK);
    held->last = 5;
    held->is_writing = 1; /* stamped 7, not published */
    session_drain(session, false);
    expect(session, 1, "while a thread is held");

    publish(other, 10, RAW_FREE, 2 * BLOCK);
    publish(held, 7, RAW_MALLOC, 2 * BLOCK);
    held->is_writing = 0;
    session_drain(session, false);
    expect(session, 4, "after it went on");

    /* An event without a stamp counts as of the one before it. */
    publish(held, 11, RAW_MALLOC, 3 * BLOCK);
    held->words[held->head++ % RING_WORDS] = 3 * BLOCK | (uint64_t)RAW_FREE << RAW_KIND_SHIFT;
    publish(other, 12, RAW_MALLOC, 3 * BLOCK);
    session_drain(session, false);
    expect(session, 7, "after an event without a stamp");

    publish(held, 13, RAW_MALLOC, BLOCK);
    held->is_writing = 1; /* and its process ends: what is published counts */
    session_drain(session, true);
    expect(session, 8, "at the end");
    return 0;
}
