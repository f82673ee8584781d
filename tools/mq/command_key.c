/*
 * command_key.c: looks at queues and forgets them.
 */
#include "command.h"

int run_llen(struct shard *shard, struct session *session)
{
    struct queue *queue = find(shard, shard->request.words[1]);
    reply_header(session, ':', queue == NULL ? 0 : queue->count);
    return DONE;
}

/* Which items are asked for, by Redis' rules: both ends belong to them, below 0 counts from the
 * oldest. Returns how many. */
static uint64_t clip(int64_t first, int64_t last, uint64_t count, uint64_t *from)
{
    int64_t items = (int64_t)count;
    first = first < 0 ? first + items : first;
    last = last < 0 ? last + items : last;
    first = first < 0 ? 0 : first;
    last = last >= items ? items - 1 : last;
    *from = (uint64_t)first;
    return first > last ? 0 : (uint64_t)(last - first + 1);
}

/* The bytes of a reply with so many items, or more than it holds. */
static size_t measure(const struct session *session, struct place place, uint64_t items)
{
    size_t bytes = REPLY_EXTRA;
    for (; items > 0 && bytes <= session->reply_capacity; items--)
        bytes += queue_pass(&place, QUEUE_NEWEST) + NUMBER_BYTES_MAX;
    return bytes;
}

int run_lrange(struct shard *shard, struct session *session)
{
    const struct request *request = &shard->request;
    int64_t first, last;
    if (!parse_integer(request->words[2], &first) || !parse_integer(request->words[3], &last)) {
        reply(session, "-ERR value is not an integer or out of range\r\n");
        return DONE;
    }
    struct queue *queue = find(shard, request->words[1]);
    uint64_t from, items = queue == NULL ? 0 : clip(first, last, queue->count, &from);
    if (items == 0) {
        reply(session, "*0\r\n");
        return DONE;
    }
    struct place place = queue_place(queue, from);
    size_t bytes = measure(session, place, items);
    if (bytes > session->reply_capacity) {
        reply(session, "-ERR the reply would be longer than --message allows; ask for fewer\r\n");
        return DONE;
    }
    if (!has_room(session, bytes))
        return SESSION_FLUSH;
    for (reply_header(session, '*', items); items > 0; items--) {
        struct place next = place;
        bytes = queue_pass(&next, QUEUE_NEWEST);
        reply_header(session, '$', bytes);
        queue_read(&place, session->reply + session->reply_bytes);
        session->reply_bytes += bytes;
        reply(session, "\r\n");
    }
    return DONE;
}

static bool is_there(const struct queue *queue)
{
    return queue != NULL && (queue->count > 0 || queue->job != NULL);
}

/* Key by key: the session goes round the cores that have them. */
static int go_round(struct shard *shard, struct session *session, bool is_del)
{
    const struct request *request = &shard->request;
    while (session->step + 1 < request->count) {
        struct word key = request->words[session->step + 1];
        session->owner = shard_owner(shard, key);
        if (session->owner != shard->core)
            return SESSION_AWAY;
        struct queue *queue = find(shard, key);
        session->step++;
        session->found += is_there(queue);
        if (queue == NULL || !is_del)
            continue;
        shard_forget_jobs(shard, queue);
        queue_clear(&shard->queues, queue);
        queues_drop_if_idle(&shard->queues, queue);
    }
    reply_header(session, ':', session->found);
    return DONE;
}

int run_del(struct shard *shard, struct session *session)
{
    return go_round(shard, session, true);
}

int run_exists(struct shard *shard, struct session *session)
{
    return go_round(shard, session, false);
}

int run_type(struct shard *shard, struct session *session)
{
    struct queue *queue = find(shard, shard->request.words[1]);
    reply(session, is_there(queue) ? "+list\r\n" : "+none\r\n");
    return DONE;
}
