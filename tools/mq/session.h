/*
 * session.h: what of a connection travels to the core that owns a key: requests not yet run, and
 * replies not yet sent. And that core's side of it, a shard.
 *
 * A session is in one core's hands at a time: whoever has it may run it. Running it touches no
 * socket: requests are read from `input`, replies written to `reply`, until something stops that,
 * and the result says what.
 *
 * Owner: the core that has the session; of a shard its core, counters may be read by all. Design:
 * docs/mq.md
 */
#ifndef CALM_MQ_SESSION_H
#define CALM_MQ_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>

#include "parse.h"
#include "queue.h"

enum {
    REPLY_SMALL = 512,  /* room that any reply but an item and INFO fits in */
    WAIT_KEYS_MAX = 32, /* of one BRPOP */
    REPLY_EXTRA = 1024, /* of a reply with an item, beside the item; a key and lengths */
};

/* A place in the row of those who wait for an item of one queue. */
struct waiter {
    struct waiter *next, *before;
    struct queue *queue;
    struct session *session;
};

struct session {
    char *input;
    char *reply;
    size_t input_bytes; /* that whoever runs it may read */
    size_t consumed;    /* of them, run                  */
    size_t reply_bytes;
    size_t reply_capacity;
    uint32_t home;  /* the core that has its socket      */
    uint32_t owner; /* SESSION_AWAY: the core to go to   */
    uint32_t step;  /* words of the request that are dealt with, where keys are many */
    uint64_t found; /* of them                                                       */

    /* While it waits for an item. */
    uint32_t waiting;                        /* queues; 0: it does not wait */
    struct session *next_here, *before_here; /* who wait in the same shard  */
    uint64_t deadline_ns;                    /* UINT64_MAX: none            */
    struct waiter waiters[WAIT_KEYS_MAX];
};

enum session_result {
    SESSION_MORE,  /* all whole requests were run                          */
    SESSION_FLUSH, /* its replies must be sent before it can go on         */
    SESSION_AWAY,  /* the next request is another core's                   */
    SESSION_WAITS, /* for an item: the shard will hand it on               */
    SESSION_CLOSE, /* its replies are its last                             */
};

struct shard;

/* What a shard needs of whoever serves it. */
struct shard_host {
    void (*resume)(struct shard *shard, struct session *session); /* its wait is over */
    void (*stop)(void *context);                                  /* SHUTDOWN         */
    size_t (*info)(void *context, char *to, size_t bytes);
    void *context;
};

struct shard {
    struct queues queues;
    struct shard_host host;
    uint32_t core, cores;
    size_t message_bytes; /* of a request, at most */
    char job_prefix[32];  /* of this run's jobs */
    uint64_t jobs;        /* numbers given out */
    bool is_stopping;     /* accepts nothing new */
    struct session *first_waiting;
    uint64_t now_ns;
    uint64_t deadline_ns; /* no waiter's is before it */

    /* Written by the core, read by all. */
    _Atomic uint64_t requests, refused, items, keys, open_jobs, waiters;

    struct request request; /* the one that is run */
};

/* Runs requests from where it stands. */
enum session_result session_run(struct shard *shard, struct session *session);

/* Ends its wait without an item. False: it did not wait. */
bool session_cancel(struct shard *shard, struct session *session);

/* Ends the waits that are over; later ones, with `all`. */
void shard_sweep(struct shard *shard, bool all);

/* The core that has a key. Of one with {...} in it what lies between the first such braces decides,
 * if that is not nothing: so keys can be put together, as with Redis Cluster. */
uint32_t shard_owner(const struct shard *shard, struct word key);

#endif
