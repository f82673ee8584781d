/*
 * queue.h: a core's queues by key, in blocks of its pool, all of one size.
 *
 * A queue is a block with its key and a chain of segments, through which its items run as one
 * stream: a length, then the bytes, across the ends of segments. So any free block serves any
 * queue and any item, and what is free can be used to the last block. An item enters at the newest
 * end and leaves at the oldest.
 *
 * Owner: the core. Design: docs/mq.md
 */
#ifndef CALM_MQ_QUEUE_H
#define CALM_MQ_QUEUE_H

#include <calmalloc/pool.h>

#include "parse.h"

enum {
    QUEUE_BLOCK_BYTES = 512,
    QUEUE_SEGMENT_BYTES = QUEUE_BLOCK_BYTES - (int)sizeof(void *),
    QUEUE_KEY_MAX = 400,
};

struct segment {
    struct segment *newer;
    char bytes[QUEUE_SEGMENT_BYTES];
};

struct waiter; /* session.h */

struct queue {
    struct queue *next; /* in its bucket */
    uint64_t hash;
    struct segment *oldest, *newest; /* NULL while nothing was ever put */
    uint64_t count;
    size_t spare;               /* bytes behind write_at: of `newest` and of segments after it */
    uint32_t read_at, write_at; /* in the oldest segment, and in the newest */
    struct waiter *first_waiter, *last_waiter; /* who waits for an item, in order */
    uint32_t key_bytes;
    bool is_open_job; /* a job that nobody has answered: it stays although it is empty */
    char key[QUEUE_KEY_MAX];
};
_Static_assert(sizeof(struct queue) <= QUEUE_BLOCK_BYTES, "a queue takes one block");
_Static_assert(sizeof(struct segment) == QUEUE_BLOCK_BYTES, "so does a segment");

struct queues {
    calm_pool *pool;
    struct queue **buckets;
    uint64_t bucket_mask;
    uint64_t seed; /* of hashes, drawn at each start, so that nobody can choose keys that collide */
    uint64_t items, keys, open_jobs;
};

uint64_t queue_hash(uint64_t seed, struct word key);

/* The queue of a key, or NULL. */
struct queue *queues_find(const struct queues *queues, uint64_t hash, struct word key);

/* The same; makes an empty one where there is none. NULL: no block is free. */
struct queue *queues_get(struct queues *queues, uint64_t hash, struct word key);

/* Gives an empty queue that nobody waits for back to the pool; others stay. */
void queues_drop_if_idle(struct queues *queues, struct queue *queue);

/* Makes room for items of so many bytes each. False: too few blocks are free; nothing is kept. */
size_t queue_item_bytes(size_t bytes);
bool queue_reserve(struct queues *queues, struct queue *queue, size_t bytes);

/* Puts an item made of two pieces behind the newest one, into room that was reserved. */
void queue_put(struct queues *queues, struct queue *queue, struct word head, struct word body);

/* The length of the oldest item, and taking it; the queue has one. It may be empty afterwards. */
size_t queue_oldest_bytes(const struct queue *queue);
void queue_take(struct queues *queues, struct queue *queue, char *to);

/* Forgets all items, an open job too. */
void queue_clear(struct queues *queues, struct queue *queue);

void queue_open_job(struct queues *queues, struct queue *queue);
void queue_close_job(struct queues *queues, struct queue *queue);

/* Calls `each` for all items, the oldest first, piece by piece. */
void queue_walk(const struct queue *queue,
                void (*each)(void *context, const char *piece, size_t bytes, size_t left),
                void *context);

#endif
