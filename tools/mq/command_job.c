/*
 * command_job.c: jobs: an item with a name, under which its answer is put once.
 */
#include "command.h"
#include "jobs.h"

static const char too_many_jobs[] = "-OOM open jobs take at most half of the blocks of this "
                                    "queue's core; answer some, or start with "
                                    "more --memory\r\n";

int run_submit(struct shard *shard, struct session *session)
{
    char name[JOB_ID_MAX + 1];
    struct queues *queues = &shard->queues;
    struct word key = shard->request.words[1], payload = shard->request.words[2];
    if (shard->is_stopping)
        return refuse(shard, session, stopping);
    if (queues->job_blocks + job_blocks(key.bytes, payload.bytes) > shard->job_blocks_max)
        return refuse(shard, session, too_many_jobs);
    struct word id = shard_name_job(shard, key, name);
    struct queue *job = room_for(shard, id, QUEUE_NEWEST, 0);
    if (job == NULL)
        return refuse(shard, session, out_of_memory);
    name[id.bytes] = ' ';
    struct word head = {name, id.bytes + 1};
    struct queue *queue = NULL;
    if (job_open(queues, job, key, payload))
        queue = room_for(shard, key, QUEUE_NEWEST, queue_item_bytes(head.bytes + payload.bytes));
    if (queue == NULL) {
        job_close(queues, job);
        queues_drop_if_idle(queues, job);
        return refuse(shard, session, out_of_memory);
    }
    queue_put(queues, queue, QUEUE_NEWEST, head, payload);
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
    job_close(&shard->queues, job);
    reply(session, "+OK\r\n");
    shard_hand_out(shard, job);
    return DONE;
}

int run_result(struct shard *shard, struct session *session)
{
    const struct request *request = &shard->request;
    struct queue *job = find(shard, request->words[1]);
    bool is_open = job != NULL && job->job != NULL;
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
