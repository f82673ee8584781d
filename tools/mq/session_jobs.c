/*
 * session_jobs.c: names of jobs, and what happens to a job that a worker took and does not answer.
 *
 * An item `ID PAYLOAD` is a job's if a job with this id is open here. From its delivery on the
 * worker has redeliver_ns; then the item is put into its queue once more, at the newest end. So a
 * job is delivered at least once, and more often where a worker is slow or dead. A move into
 * another queue is a delivery: what lies there is the worker's copy.
 *
 * Owner: the core that has the shard. Design: docs/mq.md
 */
#include "jobs.h"
#include "session.h"

#include <stdio.h>
#include <string.h>

enum { SLOT_AT = 4, SLOT_DIGITS = SLOT_BITS / 4 };

#define RETRY_NS ((uint64_t)1000000000)

/* --- names --- */

struct word shard_name_job(struct shard *shard, struct word key, char name[JOB_ID_MAX])
{
    struct word word = {name, 0};
    word.bytes = (size_t)snprintf(name, JOB_ID_MAX, "job:%0*x-%s%llx", (int)SLOT_DIGITS,
                                  shard_slot(shard, key), shard->job_run,
                                  (unsigned long long)shard->jobs++);
    return word;
}

/* A digit's value, or one that is too large. Only what shard_name_job writes counts. */
static uint32_t digit_of(char letter)
{
    static const char digits[] = "0123456789abcdef";
    const char *found = letter == '\0' ? NULL : strchr(digits, letter);
    return found == NULL ? (uint32_t)sizeof digits : (uint32_t)(found - digits);
}

bool job_slot(struct word key, uint32_t *slot)
{
    uint32_t sum = 0;
    if (key.bytes <= SLOT_AT + SLOT_DIGITS || memcmp(key.start, "job:", SLOT_AT) != 0 ||
        key.start[SLOT_AT + SLOT_DIGITS] != '-')
        return false;
    for (unsigned i = 0; i < SLOT_DIGITS; i++) {
        uint32_t digit = digit_of(key.start[SLOT_AT + i]);
        if (digit > 15)
            return false;
        sum = sum * 16 + digit;
    }
    *slot = sum;
    return true;
}

/* The queue of the open job that an item is of, or NULL. */
static struct queue *job_of(struct shard *shard, struct word item)
{
    uint32_t slot;
    size_t most = item.bytes < JOB_ID_MAX ? item.bytes : (size_t)JOB_ID_MAX;
    const char *space = most == 0 ? NULL : memchr(item.start, ' ', most);
    if (space == NULL)
        return NULL;
    struct word id = {item.start, (size_t)(space - item.start)};
    if (!job_slot(id, &slot))
        return NULL;
    struct queue *queue = queues_find(&shard->queues, queue_hash(shard->queues.seed, id), id);
    return queue != NULL && queue->job != NULL ? queue : NULL;
}

/* --- taken, forgotten --- */

void shard_job_taken(struct shard *shard, struct word item)
{
    struct queue *id = job_of(shard, item);
    if (id != NULL)
        job_take(&shard->queues, id, shard->now_ns + shard->redeliver_ns);
}

static bool was_submitted_to(const struct job *job, const struct queue *queue)
{
    struct word key = job_key(job);
    return key.bytes == queue->key_bytes && memcmp(key.start, queue->key, key.bytes) == 0;
}

void shard_job_moved(struct shard *shard, struct word item, const struct queue *target)
{
    struct queue *id = job_of(shard, item);
    if (id != NULL && was_submitted_to(id->job, target))
        job_put_back(&shard->queues, id->job);
    else if (id != NULL)
        job_take(&shard->queues, id, shard->now_ns + shard->redeliver_ns);
}

/* The begin of an item, put together from its pieces. */
struct begin {
    struct shard *shard;
    const struct queue *queue;
    size_t bytes, left;
    char start[JOB_ID_MAX];
};

static void forget_job(void *context, const char *piece, size_t bytes, size_t left)
{
    struct begin *begin = context;
    if (begin->left == 0)
        begin->bytes = 0;
    size_t room = sizeof begin->start - begin->bytes;
    size_t part = bytes < room ? bytes : room;
    memcpy(begin->start + begin->bytes, piece, part);
    begin->bytes += part;
    begin->left = left - bytes;
    if (begin->left > 0)
        return;
    struct queue *id = job_of(begin->shard, (struct word){begin->start, begin->bytes});
    if (id == NULL || !was_submitted_to(id->job, begin->queue))
        return;
    job_close(&begin->shard->queues, id);
    queues_drop_if_idle(&begin->shard->queues, id);
}

void shard_forget_jobs(struct shard *shard, struct queue *queue)
{
    struct begin begin = {.shard = shard, .queue = queue};
    if (shard->queues.open_jobs > 0)
        queue_walk(queue, forget_job, &begin);
}

/* --- put back --- */

uint64_t shard_redeliver_ns(const struct shard *shard)
{
    const struct job *job = jobs_first(&shard->queues);
    if (job == NULL)
        return UINT64_MAX;
    return job->due_ns > shard->retry_ns ? job->due_ns : shard->retry_ns;
}

static void count_one(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, *counter + 1, memory_order_relaxed);
}

static void drop(struct shard *shard, struct job *job)
{
    struct queue *id = job->id;
    job_close(&shard->queues, id);
    queues_drop_if_idle(&shard->queues, id);
    count_one(&shard->dropped_jobs);
}

/* The item once more. False: no block is free. */
static bool put_back(struct shard *shard, struct job *job)
{
    struct queues *queues = &shard->queues;
    char name[JOB_ID_MAX + 1];
    struct word key = job_key(job), head = {name, job->id->key_bytes + 1};
    struct word body = {shard->payload, job->payload_bytes};
    struct queue *queue = queues_get(queues, queue_hash(queues->seed, key), key);
    if (queue == NULL)
        return false;
    size_t bytes = queue_item_bytes(head.bytes + body.bytes);
    if (!queue_reserve(queues, queue, QUEUE_NEWEST, bytes)) {
        queues_drop_if_idle(queues, queue);
        return false;
    }
    memcpy(name, job->id->key, job->id->key_bytes);
    name[job->id->key_bytes] = ' ';
    job_copy(job, shard->payload);
    job_put_back(queues, job);
    queue_put(queues, queue, QUEUE_NEWEST, head, body);
    count_one(&shard->redelivered);
    shard_hand_out(shard, queue);
    return true;
}

void shard_redeliver(struct shard *shard)
{
    struct job *job;
    while ((job = jobs_first(&shard->queues)) != NULL && job->due_ns <= shard->now_ns) {
        if (shard->drops_late_jobs) {
            drop(shard, job);
        } else if (!put_back(shard, job)) {
            shard->retry_ns = shard->now_ns + RETRY_NS;
            break;
        }
    }
    shard_publish(shard);
}
