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
    CLIENT_NAME_BYTES = 64,
    SLOT_BITS = 12, /* of a key's slot; slots are shared out among the cores */
    JOB_RUN_MAX = 32,
    JOB_ID_MAX = JOB_RUN_MAX + 32,
};

/* A place in the row of those who wait for an item of one key. The row is a ring that begins with
 * who waits longest. */
struct waiter {
    struct waiter *next, *before;
    struct waiter *next_row; /* of the row's first: the first of another row of the bucket */
    struct session *session;
    uint64_t hash;
    struct word key; /* its bytes lie at the end of the session's reply */
};

/* What becomes of the item that a session waits for. */
struct wait {
    uint64_t ms; /* 0: no limit */
    enum queue_end from;
    bool is_move; /* to the last of the words, which is no key that it waits for */
    enum queue_end to;
};

enum client_name { CLIENT_NAME, CLIENT_LIB_NAME, CLIENT_LIB_VERSION, CLIENT_NAMES };

struct session {
    char *input;
    char *reply;
    size_t input_bytes; /* that whoever runs it may read */
    size_t consumed;    /* of them, run                  */
    size_t reply_bytes;
    size_t reply_capacity;
    uint64_t id;
    uint32_t home;  /* the core that has its socket      */
    uint32_t owner; /* SESSION_AWAY: the core to go to   */
    uint32_t step;  /* words of the request that are dealt with, where keys are many */
    uint64_t found; /* of them                                                       */
    bool is_resp3;

    /* Home's: written by commands that run there, as their entries say. */
    char names[CLIENT_NAMES][CLIENT_NAME_BYTES];

    /* While it waits for an item. */
    uint32_t waiting;                        /* keys; 0: it does not wait   */
    struct session *next_here, *before_here; /* who wait in the same shard  */
    uint64_t deadline_ns;                    /* UINT64_MAX: none            */
    uint32_t heap_at;                        /* where the shard's heap has it, from 1; 0: nowhere */
    struct wait wait;
    struct word target; /* of a move; its bytes lie behind the keys */
    struct waiter waiters[WAIT_KEYS_MAX];
};

enum session_result {
    SESSION_MORE,  /* all whole requests were run                          */
    SESSION_FLUSH, /* its replies must be sent before it can go on         */
    SESSION_AWAY,  /* the next request is another core's                   */
    SESSION_WAITS, /* for an item: the shard will hand it on               */
    SESSION_CLOSE, /* its replies are its last                             */
};

/* The version of redis-server whose replies are given. */
#define REDIS_VERSION "7.0.15"

struct shard;

/* What a shard needs of whoever serves it. */
struct shard_host {
    void (*resume)(struct shard *shard, struct session *session); /* its wait is over */
    void (*stop)(void *context);                                  /* SHUTDOWN         */
    size_t (*info)(void *context, char *to, size_t bytes);
    /* The clients whose home this core is, one after the other; and a line about one, at most
     * REPLY_SMALL bytes. */
    struct session *(*next_client)(struct shard *shard, struct session *session);
    size_t (*describe)(struct shard *shard, struct session *session, char line[REPLY_SMALL]);
    void *context;
};

struct shard {
    struct queues queues;
    struct shard_host host;
    uint32_t core, cores;
    size_t message_bytes;      /* of a request, at most */
    char job_run[JOB_RUN_MAX]; /* in the ids of this run's jobs: drawn at random, no other run's */
    uint64_t jobs;             /* numbers given out */
    uint64_t job_blocks_max;   /* of open ones, so that they leave memory for items */
    uint64_t redeliver_ns;     /* that a worker has for a job */
    uint64_t retry_ns;         /* before it no job is put back: there was no block for one */
    bool is_stopping;          /* accepts nothing new */
    bool drops_late_jobs;      /* a job whose time is over is dropped, not put back */
    char *payload;             /* room for one, with what a file may have more */
    uint64_t now_ns;

    /* Who waits: wait.c. */
    struct session *first_waiting;
    struct waiter **rows; /* buckets, by the hash of the key */
    uint64_t row_mask;
    struct session **heap; /* with a limit, the nearest first; places for all connections */
    uint32_t heap_count;
    struct queue *first_ready, *last_ready; /* whose items may go to who waits */

    /* Written by the core, read by all. */
    _Atomic uint64_t requests, refused, items, keys, open_jobs, waiters;
    _Atomic uint64_t redelivered, dropped_jobs;

    struct request request; /* the one that is run */
};

/* When the next wait ends. UINT64_MAX: none does. */
uint64_t shard_deadline_ns(const struct shard *shard);

/* Runs requests from where it stands. */
enum session_result session_run(struct shard *shard, struct session *session);

/* Ends its wait without an item. False: it did not wait. */
bool session_cancel(struct shard *shard, struct session *session);

/* Ends the waits that are over; later ones, with `all`. */
void shard_sweep(struct shard *shard, bool all);

/* New items go to who waits for them, the longest first. */
void shard_hand_out(struct shard *shard, struct queue *queue);

/* Writes down the counters that all may read. */
void shard_publish(struct shard *shard);

/* The core that has a key. Of one with {...} in it what lies between the first such braces decides,
 * if that is not nothing: so keys can be put together, as with Redis Cluster. */
uint32_t shard_owner(const struct shard *shard, struct word key);
uint32_t shard_slot(const struct shard *shard, struct word key);

/* --- session_jobs.c --- */

/* A name for a job of a queue. It has the queue's slot in it, so that queue and job are one core's,
 * however many there are. */
struct word shard_name_job(struct shard *shard, struct word key, char name[JOB_ID_MAX]);

/* Whether a key looks like a job's id, and the slot in it. */
bool job_slot(struct word key, uint32_t *slot);

/* An item was handed to a client: if it is an open job's, its time begins. */
void shard_job_taken(struct shard *shard, struct word item);

/* An item was moved: if it is an open job's, its time begins; back in its queue it waits. */
void shard_job_moved(struct shard *shard, struct word item, const struct queue *target);

/* All items of a queue are about to be dropped: jobs that were submitted to it, too. */
void shard_forget_jobs(struct shard *shard, struct queue *queue);

/* When shard_redeliver has something to do; UINT64_MAX: never. */
uint64_t shard_redeliver_ns(const struct shard *shard);

/* Puts the jobs back whose time is over. Looks at no other job. */
void shard_redeliver(struct shard *shard);

#endif
