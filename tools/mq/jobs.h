/*
 * jobs.h: what a core knows of jobs that nobody has answered: payloads, and until when a worker
 * that took one has it.
 *
 * The queue whose key is the job's id points at the job. A job waits in its queue, or it is taken:
 * then it is in the list of taken jobs, in the order in which they were taken, which is that of
 * their ends, as all have the same time. So the ones whose time is over are the first of the list.
 *
 * Owner: the core. Design: docs/mq.md
 */
#ifndef CALM_MQ_JOBS_H
#define CALM_MQ_JOBS_H

#include "queue.h"

enum { JOB_ROOM = QUEUE_BLOCK_BYTES - 5 * (int)sizeof(void *) - 4 * (int)sizeof(uint32_t) };

struct job {
    struct segment *rest; /* of the bytes, behind `bytes` */
    struct queue *id;     /* the queue that points here   */
    struct job *next, *before;
    uint64_t due_ns; /* if it is taken */
    uint32_t key_bytes, payload_bytes;
    uint32_t is_taken, unused;
    char bytes[JOB_ROOM]; /* the key of the queue that it was submitted to, then the payload */
};
_Static_assert(sizeof(struct job) == QUEUE_BLOCK_BYTES, "a job takes one block");

/* Blocks that an open job takes: the queue of its id, and what it was submitted with. */
size_t job_blocks(size_t key_bytes, size_t payload_bytes);

/* Makes an empty queue an open job, with a copy of what was submitted. False: no block is free. */
bool job_open(struct queues *queues, struct queue *id, struct word key, struct word payload);

/* Ends a job, if the queue is one. */
void job_close(struct queues *queues, struct queue *id);

/* A worker has the job until due_ns; a later call gives it more time. Calls come in order of time.
 */
void job_take(struct queues *queues, struct queue *id, uint64_t due_ns);

/* The first job that is taken, or NULL: no other's time is over before its. */
struct job *jobs_first(const struct queues *queues);

/* It waits in its queue again. */
void job_put_back(struct queues *queues, struct job *job);

/* The key of the queue it was submitted to, and its payload. */
struct word job_key(const struct job *job);
void job_copy(const struct job *job, char *to);

#endif
