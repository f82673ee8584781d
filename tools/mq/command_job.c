/*
 * command_job.c: jobs: an item with a name, under which its answer is put once.
 */
#include "command.h"

#include <stdio.h>

static const char too_many_jobs[] =
    "-OOM open jobs have half of the blocks of this queue's core already; answer some, or start "
    "with more --memory\r\n";

/* A name for a job that this core has, so that submitting and answering happen in one place. */
static struct word name_job(struct shard *shard, char name[NUMBER_BYTES_MAX * 2])
{
    struct word word = {name, 0};
    do {
        word.bytes = (size_t)snprintf(name, NUMBER_BYTES_MAX * 2, "%s%llx", shard->job_prefix,
                                      (unsigned long long)shard->jobs++);
    } while (shard_owner(shard, word) != shard->core);
    return word;
}

int run_submit(struct shard *shard, struct session *session)
{
    char name[NUMBER_BYTES_MAX * 2 + 1];
    const struct request *request = &shard->request;
    if (shard->is_stopping)
        return refuse(shard, session, stopping);
    if (shard->queues.open_jobs >= shard->jobs_max)
        return refuse(shard, session, too_many_jobs);
    struct word id = name_job(shard, name);
    struct queue *job = room_for(shard, id, QUEUE_NEWEST, 0);
    if (job == NULL)
        return refuse(shard, session, out_of_memory);
    name[id.bytes] = ' ';
    struct word head = {name, id.bytes + 1};
    struct queue *queue = room_for(shard, request->words[1], QUEUE_NEWEST,
                                   queue_item_bytes(head.bytes + request->words[2].bytes));
    if (queue == NULL) {
        queues_drop_if_idle(&shard->queues, job);
        return refuse(shard, session, out_of_memory);
    }
    queue_open_job(&shard->queues, job);
    queue_put(&shard->queues, queue, QUEUE_NEWEST, head, request->words[2]);
    reply_word(session, id);
    shard_hand_out(shard, queue);
    return DONE;
}

static int answer_job(struct shard *shard, struct session *session, struct queue *job)
{
    struct word value = shard->request.words[2];
    if (!queue_reserve(&shard->queues, job, QUEUE_NEWEST, queue_item_bytes(value.bytes)))
        return refuse(shard, session, out_of_memory);
    queue_put(&shard->queues, job, QUEUE_NEWEST, nothing, value);
    queue_close_job(&shard->queues, job);
    reply(session, "+OK\r\n");
    shard_hand_out(shard, job);
    return DONE;
}

int run_result(struct shard *shard, struct session *session)
{
    const struct request *request = &shard->request;
    struct queue *job = find(shard, request->words[1]);
    bool is_open = job != NULL && job->is_open_job;
    if (request->count == 3 && is_open)
        return answer_job(shard, session, job);
    if (request->count == 2 && is_open) {
        reply_null(session);
        return DONE;
    }
    if (request->count == 2 && job != NULL && job->count > 0)
        return run_rpop(shard, session);
    reply(session, "-NOJOB no open job has this id\r\n");
    return DONE;
}
