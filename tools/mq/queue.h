/*
 * queue.h: a core's queues by key, in blocks of its pool, all of one size.
 *
 * A queue is a block with its key and a chain of segments, through which its items run as one
 * stream: a length, the bytes, and the length again, across the ends of segments. So any free block
 * serves any queue and any item, what is free can be used to the last block, and an item can be
 * found from either end. LPUSH puts at the newest end and RPOP takes at the oldest.
 *
 * Owner: the core. Design: docs/mq.md
 */
#ifndef CALM_MQ_QUEUE_H
#define CALM_MQ_QUEUE_H

#include <calmalloc/pool.h>

#include "parse.h"

enum {
    QUEUE_BLOCK_BYTES = 512,
    QUEUE_SEGMENT_BYTES = QUEUE_BLOCK_BYTES - 2 * (int)sizeof(void *),
    QUEUE_KEY_MAX = 400,
};

struct job; /* jobs.h */

enum queue_end { QUEUE_OLDEST, QUEUE_NEWEST };

struct segment {
    struct segment *next[2]; /* towards each end */
    char bytes[QUEUE_SEGMENT_BYTES];
};

/* A place in a queue's stream. */
struct place {
    struct segment *segment;
    uint32_t at;
};

struct queue {
    struct queue *next; /* in its bucket */
    uint64_t hash;
    struct place ends[2]; /* no segment while nothing was ever put */
    uint64_t count;
    struct queue *next_ready; /* of those whose items go to who waits: wait.c */
    struct job *job;          /* that nobody has answered: it stays although it is empty */
    uint32_t key_bytes;
    bool is_ready; /* it is in that list */
    char key[QUEUE_KEY_MAX];
};
_Static_assert(sizeof(struct queue) <= QUEUE_BLOCK_BYTES, "a queue takes one block");
_Static_assert(sizeof(struct segment) == QUEUE_BLOCK_BYTES, "so does a segment");

struct queues {
    calm_pool *pool;
    struct queue **buckets;
    uint64_t bucket_mask;
    uint64_t seed; /* of hashes, drawn at random, so that nobody can choose keys that collide */
    uint64_t items, keys, open_jobs;
    uint64_t job_blocks;                  /* that open jobs take, their ids' queues among them */
    struct job *first_taken, *last_taken; /* jobs.h: J1 */
};

uint64_t queue_hash(uint64_t seed, struct word key);

/* The queue of a key, or NULL. */
struct queue *queues_find(const struct queues *queues, uint64_t hash, struct word key);

/* The same; makes an empty one where there is none. NULL: no block is free. */
struct queue *queues_get(struct queues *queues, uint64_t hash, struct word key);

/* Gives an empty queue back to the pool; others stay. */
void queues_drop_if_idle(struct queues *queues, struct queue *queue);

/* Makes room at an end for items of so many bytes, which are put there at once. False: too few
 * blocks are free; nothing is kept. */
size_t queue_item_bytes(size_t bytes);
bool queue_reserve(struct queues *queues, struct queue *queue, enum queue_end end, size_t bytes);

/* Puts an item made of two pieces at an end, into room that was reserved. */
void queue_put(struct queues *queues, struct queue *queue, enum queue_end end, struct word head,
               struct word body);

/* Takes the item at an end; the queue has one. It may be empty afterwards. */
void queue_take(struct queues *queues, struct queue *queue, enum queue_end end, char *to);

/* The length of the item at an end. */
size_t queue_end_bytes(const struct queue *queue, enum queue_end end);

/* Passes the item at a place, coming from an end. Returns its length. */
size_t queue_pass(struct place *place, enum queue_end from);

/* The place of the item with an index, 0 being the newest, for who comes from the newest end. Cost:
 * the items between it and the nearer end are passed. */
struct place queue_place(const struct queue *queue, uint64_t index);

/* Reads the item at a place and passes it, coming from the newest end. */
void queue_read(struct place *place, char *to);

/* Forgets all items, an open job too. */
void queue_clear(struct queues *queues, struct queue *queue);

/* Calls `each` for all items, the oldest first, piece by piece. */
void queue_walk(const struct queue *queue,
                void (*each)(void *context, const char *piece, size_t bytes, size_t left),
                void *context);

#endif
