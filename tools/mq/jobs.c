/*
 * jobs.c: open jobs, in blocks of the same pool as queues.
 *
 * J1: the list has the jobs that are taken, by due_ns.
 */
#include "jobs.h"

#include <string.h>

/* --- their bytes --- */

/* Where the next byte of a job is stored: in the job, then in its segments. */
struct job_place {
    struct job *job;
    struct segment *segment;
    size_t used; /* of the job's bytes or of the segment's */
};

static void put(struct job_place *place, struct word word)
{
    while (word.bytes > 0) {
        size_t capacity = place->segment == NULL ? (size_t)JOB_ROOM : (size_t)QUEUE_SEGMENT_BYTES;
        if (place->used == capacity) {
            place->segment = place->segment == NULL ? place->job->rest
                                                    : place->segment->next[QUEUE_NEWEST];
            place->used = 0;
            continue;
        }
        char *to = place->segment == NULL ? place->job->bytes : place->segment->bytes;
        size_t room = capacity - place->used;
        size_t part = word.bytes < room ? word.bytes : room;
        memcpy(to + place->used, word.start, part);
        place->used += part;
        word.start += part;
        word.bytes -= part;
    }
}

struct word job_key(const struct job *job)
{
    return (struct word){job->bytes, job->key_bytes};
}

void job_copy(const struct job *job, char *to)
{
    size_t left = job->payload_bytes, room = (size_t)JOB_ROOM - job->key_bytes;
    const char *from = job->bytes + job->key_bytes;
    const struct segment *next = job->rest;
    for (;;) {
        size_t part = left < room ? left : room;
        memcpy(to, from, part);
        to += part;
        left -= part;
        if (left == 0)
            return;
        from = next->bytes;
        room = QUEUE_SEGMENT_BYTES;
        next = next->next[QUEUE_NEWEST];
    }
}
_Static_assert((int)JOB_ROOM > (int)QUEUE_KEY_MAX, "a key lies in one piece, with a byte behind");

/* --- their life --- */

size_t job_blocks(size_t key_bytes, size_t payload_bytes)
{
    size_t bytes = key_bytes + payload_bytes;
    if (bytes <= (size_t)JOB_ROOM)
        return 2;
    return 2 + (bytes - JOB_ROOM + QUEUE_SEGMENT_BYTES - 1) / QUEUE_SEGMENT_BYTES;
}

static void free_job(struct queues *queues, struct job *job)
{
    while (job->rest != NULL) {
        struct segment *segment = job->rest;
        job->rest = segment->next[QUEUE_NEWEST];
        calm_pool_free(queues->pool, segment);
    }
    calm_pool_free(queues->pool, job);
}

bool job_open(struct queues *queues, struct queue *id, struct word key, struct word payload)
{
    struct job *job = calm_pool_alloc(queues->pool, sizeof *job);
    if (job == NULL)
        return false;
    memset(job, 0, offsetof(struct job, bytes));
    for (size_t blocks = job_blocks(key.bytes, payload.bytes); blocks > 2; blocks--) {
        struct segment *segment = calm_pool_alloc(queues->pool, sizeof *segment);
        if (segment == NULL) {
            free_job(queues, job);
            return false;
        }
        segment->next[QUEUE_NEWEST] = job->rest;
        job->rest = segment;
    }
    job->id = id;
    job->key_bytes = (uint32_t)key.bytes;
    job->payload_bytes = (uint32_t)payload.bytes;
    struct job_place place = {job, NULL, 0};
    put(&place, key);
    put(&place, payload);
    id->job = job;
    queues->open_jobs++;
    queues->job_blocks += job_blocks(key.bytes, payload.bytes);
    return true;
}

void job_close(struct queues *queues, struct queue *id)
{
    if (id->job == NULL)
        return;
    job_put_back(queues, id->job);
    queues->job_blocks -= job_blocks(id->job->key_bytes, id->job->payload_bytes);
    free_job(queues, id->job);
    id->job = NULL;
    queues->open_jobs--;
}

/* --- the list of those that are taken --- */

struct job *jobs_first(const struct queues *queues)
{
    return queues->first_taken;
}

void job_put_back(struct queues *queues, struct job *job)
{
    if (!job->is_taken)
        return;
    *(job->before == NULL ? &queues->first_taken : &job->before->next) = job->next;
    *(job->next == NULL ? &queues->last_taken : &job->next->before) = job->before;
    job->is_taken = false;
}

void job_take(struct queues *queues, struct queue *id, uint64_t due_ns)
{
    struct job *job = id->job;
    job_put_back(queues, job);
    job->is_taken = true;
    job->due_ns = due_ns;
    job->next = NULL;
    job->before = queues->last_taken;
    *(job->before == NULL ? &queues->first_taken : &job->before->next) = job;
    queues->last_taken = job;
}
