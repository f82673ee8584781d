/*
 * session.h: one recorded process, from its first word to its end (collector.c), and the merging of
 * its threads' rings into one order.
 */
#ifndef CALM_RECORD_SESSION_H
#define CALM_RECORD_SESSION_H

#include "areas.h"
#include "blocks.h"
#include "shared.h"
#include "sites.h"

enum { RESIZES_AT_ONCE = 8 };

struct resize {
    uint64_t address;
    struct block_name name;
    bool is_large;
    uint64_t bytes, touched; /* of a large one */
};

/* A block of LARGE_TOUCH_BYTES or more. */
struct large {
    uint64_t address, bytes, touched;
};

struct reader {
    uint64_t tail, head;
    uint64_t told;  /* of tail, to the thread */
    uint64_t ahead; /* what was asked for before it is needed */
    uint64_t stamp; /* of the event at tail; all ones: there is none */
    uint64_t last;  /* stamp before it, which an event without one repeats */
    uint32_t thread;
    bool is_known;
    uint32_t resize_count;
    struct resize resizes[RESIZES_AT_ONCE]; /* begun; in more than one only a handler's */
};

struct session {
    struct session *next;
    char path[4096], program[40];
    int process, process_fd, pagemap_fd;
    struct shared *shared;
    struct encoder *encoder;
    struct blocks live;
    struct large *large; /* no gaps */
    size_t large_count, large_capacity;
    struct sites sites;
    struct areas areas;
    struct reader readers[RINGS_MAX];
    uint32_t ring_count; /* rings above were never used */
    uint32_t thread_count, active_count;
    uint32_t active[RINGS_MAX];
    uint64_t unknown, disorder, lost, page_bytes;
    uint64_t begun_ms, sample_due_ms, flush_due_ms, threads_due_ms;
    bool is_over, has_said_trouble;
};

/* Reads what the rings have; with `is_last`, all of it. Returns the words in the fullest. */
uint64_t session_drain(struct session *session, bool is_last);
void session_sample(struct session *session);
void session_reap_threads(struct session *session);

#endif
