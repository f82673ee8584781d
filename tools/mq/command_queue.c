/*
 * command_queue.c: puts items, takes them, moves them, and waits for them.
 *
 * As with Redis a list's left end is where LPUSH puts: the newest items of a queue that is fed by
 * LPUSH and emptied by RPOP.
 */
#include "command.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { TIMEOUT_BYTES_MAX = 512, ITEM_EXTRA = NUMBER_BYTES_MAX };

const struct word nothing = {"", 0};

struct queue *find(struct shard *shard, struct word key)
{
    return queues_find(&shard->queues, queue_hash(shard->queues.seed, key), key);
}

struct queue *room_for(struct shard *shard, struct word key, enum queue_end end, size_t bytes)
{
    struct queues *queues = &shard->queues;
    struct queue *queue = queues_get(queues, queue_hash(queues->seed, key), key);
    if (queue == NULL || bytes == 0 || queue_reserve(queues, queue, end, bytes))
        return queue;
    queues_drop_if_idle(queues, queue);
    return NULL;
}

/* --- putting --- */

static int push(struct shard *shard, struct session *session, enum queue_end end)
{
    const struct request *request = &shard->request;
    size_t bytes = 0;
    if (shard->is_stopping)
        return refuse(shard, session, stopping);
    for (size_t i = 2; i < request->count; i++)
        bytes += queue_item_bytes(request->words[i].bytes);
    struct queue *queue = room_for(shard, request->words[1], end, bytes);
    if (queue == NULL)
        return refuse(shard, session, out_of_memory);
    for (size_t i = 2; i < request->count; i++)
        queue_put(&shard->queues, queue, end, nothing, request->words[i]);
    reply_header(session, ':', queue->count);
    shard_hand_out(shard, queue);
    return DONE;
}

int run_lpush(struct shard *shard, struct session *session)
{
    return push(shard, session, QUEUE_NEWEST);
}

int run_rpush(struct shard *shard, struct session *session)
{
    return push(shard, session, QUEUE_OLDEST);
}

/* --- taking --- */

void reply_item(struct shard *shard, struct session *session, struct queue *queue,
                enum queue_end end)
{
    size_t bytes = queue_end_bytes(queue, end);
    reply_header(session, '$', bytes);
    struct word item = {session->reply + session->reply_bytes, bytes};
    queue_take(&shard->queues, queue, end, session->reply + session->reply_bytes);
    shard_job_taken(shard, item);
    session->reply_bytes += bytes;
    reply(session, "\r\n");
}

/* How many items from an end, at most `most`, a reply holds that nothing is before; and the bytes
 * that they take there. */
static uint64_t count_fitting(const struct session *session, const struct queue *queue,
                              enum queue_end end, uint64_t most, size_t *bytes)
{
    struct place place = queue->ends[end];
    uint64_t items = 0;
    for (*bytes = REPLY_EXTRA; items < most && items < queue->count; items++) {
        size_t more = queue_pass(&place, end) + ITEM_EXTRA;
        if (*bytes + more > session->reply_capacity)
            break;
        *bytes += more;
    }
    return items;
}

static int pop_list(struct shard *shard, struct session *session, struct queue *queue,
                    enum queue_end end, uint64_t most)
{
    size_t bytes;
    uint64_t items = count_fitting(session, queue, end, most, &bytes);
    if (!has_room(session, bytes))
        return SESSION_FLUSH;
    reply_header(session, '*', items);
    for (; items > 0; items--)
        reply_item(shard, session, queue, end);
    queues_drop_if_idle(&shard->queues, queue);
    return DONE;
}

static int pop(struct shard *shard, struct session *session, enum queue_end end)
{
    const struct request *request = &shard->request;
    bool is_list = request->count == 3;
    int64_t most = 1;
    if (is_list && (!parse_integer(request->words[2], &most) || most < 0)) {
        reply(session, "-ERR value is out of range, must be positive\r\n");
        return DONE;
    }
    struct queue *queue = find(shard, request->words[1]);
    bool is_empty = queue == NULL || queue->count == 0;
    if (is_list && !is_empty)
        return pop_list(shard, session, queue, end, (uint64_t)most);
    if (is_list)
        reply_null_list(session);
    else if (is_empty)
        reply_null(session);
    else if (!has_room(session, queue_end_bytes(queue, end) + REPLY_EXTRA))
        return SESSION_FLUSH;
    else {
        reply_item(shard, session, queue, end);
        queues_drop_if_idle(&shard->queues, queue);
    }
    return DONE;
}

int run_rpop(struct shard *shard, struct session *session)
{
    return pop(shard, session, QUEUE_OLDEST);
}

int run_lpop(struct shard *shard, struct session *session)
{
    return pop(shard, session, QUEUE_NEWEST);
}

/* --- waiting --- */

/* Seconds, with a fraction if need be, to milliseconds, rounded up. NULL, or what is wrong. */
static const char *read_wait(struct word word, uint64_t *ms)
{
    char text[TIMEOUT_BYTES_MAX];
    char *end;
    static const char no_number[] = "-ERR timeout is not a float or out of range\r\n";
    if (word.bytes == 0 || word.bytes >= sizeof text || strchr(" \t\n\v\f\r", word.start[0]))
        return no_number;
    memcpy(text, word.start, word.bytes);
    text[word.bytes] = '\0';
    errno = 0;
    long double seconds = strtold(text, &end);
    bool is_lost = errno == ERANGE && (isinf(seconds) || fabsl(seconds) < LDBL_MIN);
    if (end != text + word.bytes || isnan(seconds) || is_lost)
        return no_number;
    long double wanted = ceill(seconds * 1000);
    if (wanted >= (long double)INT64_MAX)
        return "-ERR timeout is out of range\r\n";
    if (wanted < 0)
        return "-ERR timeout is negative\r\n";
    *ms = (uint64_t)wanted;
    return NULL;
}

/* NULL, or why a key cannot be used beside the first one. */
static const char *check_key(const struct shard *shard, struct word key)
{
    if (key.bytes > QUEUE_KEY_MAX)
        return "-ERR a key has at most 400 bytes\r\n";
    return shard_owner(shard, key) == shard->core ? NULL : other_core;
}

/* NULL, or what is wrong with a BRPOP. */
static const char *check_bpop(const struct shard *shard, uint64_t *wait_ms)
{
    const struct request *request = &shard->request;
    size_t keys = request->count - 2;
    const char *wrong = read_wait(request->words[request->count - 1], wait_ms);
    if (wrong == NULL && keys > WAIT_KEYS_MAX)
        wrong = "-ERR a client waits for at most 32 keys\r\n";
    for (size_t i = 1; wrong == NULL && i <= keys; i++)
        wrong = check_key(shard, request->words[i]);
    return wrong;
}
_Static_assert(WAIT_KEYS_MAX == 32 && QUEUE_KEY_MAX == 400, "the sentences say so");

/* The first of the request's queues that has an item, or NULL. */
static struct queue *find_first(struct shard *shard)
{
    const struct request *request = &shard->request;
    for (size_t i = 1; i + 1 < request->count; i++) {
        struct queue *queue = find(shard, request->words[i]);
        if (queue != NULL && queue->count > 0)
            return queue;
    }
    return NULL;
}

/* What was answered before must not wait, too; and its memory is used meanwhile. */
static int begin(struct shard *shard, struct session *session, size_t words, struct wait wait)
{
    if (session->reply_bytes > 0)
        return SESSION_FLUSH;
    wait_begin(shard, session, shard->request.words + 1, words, wait);
    return SESSION_WAITS;
}

static int bpop(struct shard *shard, struct session *session, enum queue_end end)
{
    struct wait wait = {.from = end};
    const char *wrong = check_bpop(shard, &wait.ms);
    struct queue *queue = wrong == NULL ? find_first(shard) : NULL;
    if (wrong != NULL)
        reply(session, wrong);
    else if (queue == NULL && shard->is_stopping)
        reply_null_list(session);
    else if (queue == NULL)
        return begin(shard, session, shard->request.count - 2, wait);
    else if (!has_room(session, queue_end_bytes(queue, end) + REPLY_EXTRA))
        return SESSION_FLUSH;
    else {
        reply_header(session, '*', 2);
        reply_word(session, (struct word){queue->key, queue->key_bytes});
        reply_item(shard, session, queue, end);
        queues_drop_if_idle(&shard->queues, queue);
    }
    return DONE;
}

int run_brpop(struct shard *shard, struct session *session)
{
    return bpop(shard, session, QUEUE_OLDEST);
}

int run_blpop(struct shard *shard, struct session *session)
{
    return bpop(shard, session, QUEUE_NEWEST);
}

/* --- moving --- */

/* The item is taken before it is put, so that the memory that it leaves serves it; where that is
 * not enough it goes back into what it left. */
struct queue *move_item(struct shard *shard, struct session *session, struct queue *source,
                        struct word target_key)
{
    struct queues *queues = &shard->queues;
    struct wait wait = session->wait;
    size_t reply_begin = session->reply_bytes, bytes = queue_end_bytes(source, wait.from);
    reply_header(session, '$', bytes);
    struct word item = {session->reply + session->reply_bytes, bytes};
    queue_take(queues, source, wait.from, session->reply + session->reply_bytes);
    struct queue *target = room_for(shard, target_key, wait.to, queue_item_bytes(bytes));
    if (target == NULL) {
        queue_reserve(queues, source, wait.from, queue_item_bytes(bytes));
        queue_put(queues, source, wait.from, nothing, item);
        session->reply_bytes = reply_begin;
        return NULL;
    }
    queue_put(queues, target, wait.to, nothing, item);
    shard_job_moved(shard, item, target);
    session->reply_bytes += bytes;
    reply(session, "\r\n");
    return target;
}

static bool read_side(struct word word, enum queue_end *out)
{
    *out = is_word(word, "left") ? QUEUE_NEWEST : QUEUE_OLDEST;
    return *out == QUEUE_NEWEST || is_word(word, "right");
}

static int move(struct shard *shard, struct session *session, struct wait wait)
{
    const struct request *request = &shard->request;
    const char *wrong = check_key(shard, request->words[2]);
    struct queue *source = wrong == NULL ? find(shard, request->words[1]) : NULL;
    bool is_there = source != NULL && source->count > 0;
    if (wrong != NULL) {
        reply(session, wrong);
        return DONE;
    }
    bool is_blocking = request->count == 6;
    if (!is_there && is_blocking && !shard->is_stopping)
        return begin(shard, session, 2, wait);
    if (!is_there) {
        if (is_blocking)
            reply_null_list(session);
        else
            reply_null(session);
        return DONE;
    }
    if (!has_room(session, queue_end_bytes(source, wait.from) + REPLY_EXTRA))
        return SESSION_FLUSH;
    session->wait = wait;
    struct queue *target = move_item(shard, session, source, request->words[2]);
    if (target == NULL)
        return refuse(shard, session, out_of_memory);
    queues_drop_if_idle(&shard->queues, source);
    shard_hand_out(shard, target);
    return DONE;
}

int run_lmove(struct shard *shard, struct session *session)
{
    const struct request *request = &shard->request;
    struct wait wait = {.is_move = true};
    const char *wrong = NULL;
    if (!read_side(request->words[3], &wait.from) || !read_side(request->words[4], &wait.to))
        wrong = "-ERR syntax error\r\n";
    else if (request->count == 6)
        wrong = read_wait(request->words[5], &wait.ms);
    if (wrong == NULL)
        return move(shard, session, wait);
    reply(session, wrong);
    return DONE;
}
