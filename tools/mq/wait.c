/*
 * wait.c: waiting for items.
 *
 * A session that waits has a place in a row for each of its keys; rows are found by the hash of the
 * key. Its keys lie at the end of its reply's memory, of which nothing else is used meanwhile. The
 * waits that have a limit are in a heap, the nearest first, so that ending some of them costs
 * nothing for the others.
 *
 * W1: each row's first is in the bucket of its hash, and nobody else of the row.
 * W2: heap[i] ends no earlier than heap[(i - 1) / 2], and heap[i]->heap_at == i + 1.
 * Owner: the core.
 */
#include "command.h"

enum { MS_NS = 1000000 };

/* --- rows --- */

static bool is_of(const struct waiter *waiter, uint64_t hash, struct word key)
{
    return waiter->hash == hash && waiter->key.bytes == key.bytes &&
           memcmp(waiter->key.start, key.start, key.bytes) == 0;
}

/* Where the bucket names the row of a key; NULL is there if nobody waits for it. */
static struct waiter **row_of(struct shard *shard, uint64_t hash, struct word key)
{
    struct waiter **at = &shard->rows[hash & shard->row_mask];
    while (*at != NULL && !is_of(*at, hash, key))
        at = &(*at)->next_row;
    return at;
}

static void join_row(struct shard *shard, struct waiter *waiter)
{
    struct waiter **row = row_of(shard, waiter->hash, waiter->key), *first = *row;
    waiter->next = waiter->before = waiter;
    waiter->next_row = NULL;
    if (first == NULL) {
        *row = waiter;
        return;
    }
    waiter->next = first;
    waiter->before = first->before;
    waiter->before->next = first->before = waiter;
}

static void leave_row(struct shard *shard, struct waiter *waiter)
{
    struct waiter **row = row_of(shard, waiter->hash, waiter->key);
    if (*row == waiter) {
        bool is_alone = waiter->next == waiter;
        *row = is_alone ? waiter->next_row : waiter->next;
        if (!is_alone)
            waiter->next->next_row = waiter->next_row;
    }
    waiter->next->before = waiter->before;
    waiter->before->next = waiter->next;
}

/* --- the heap --- */

static void put_at(struct shard *shard, uint32_t at, struct session *session)
{
    shard->heap[at] = session;
    session->heap_at = at + 1;
}

static void rise(struct shard *shard, uint32_t at, struct session *session)
{
    while (at > 0 && shard->heap[(at - 1) / 2]->deadline_ns > session->deadline_ns) {
        put_at(shard, at, shard->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put_at(shard, at, session);
}

static void sink(struct shard *shard, uint32_t at, struct session *session)
{
    for (uint32_t next; (next = at * 2 + 1) < shard->heap_count; at = next) {
        struct session **heap = shard->heap;
        if (next + 1 < shard->heap_count && heap[next + 1]->deadline_ns < heap[next]->deadline_ns)
            next++;
        if (heap[next]->deadline_ns >= session->deadline_ns)
            break;
        put_at(shard, at, heap[next]);
    }
    put_at(shard, at, session);
}

static void leave_heap(struct shard *shard, struct session *session)
{
    if (session->heap_at == 0)
        return;
    uint32_t at = session->heap_at - 1;
    struct session *last = shard->heap[--shard->heap_count];
    session->heap_at = 0;
    if (last == session)
        return;
    if (at > 0 && shard->heap[(at - 1) / 2]->deadline_ns > last->deadline_ns)
        rise(shard, at, last);
    else
        sink(shard, at, last);
}

uint64_t shard_deadline_ns(const struct shard *shard)
{
    return shard->heap_count == 0 ? UINT64_MAX : shard->heap[0]->deadline_ns;
}

/* --- a wait --- */

/* Copies a word to the end of the reply's memory, before `*end`. */
static struct word keep_word(char **end, struct word word)
{
    *end -= word.bytes;
    memcpy(*end, word.start, word.bytes);
    return (struct word){*end, word.bytes};
}

static uint64_t end_of(const struct shard *shard, uint64_t ms)
{
    return ms == 0 || ms >= (UINT64_MAX - shard->now_ns) / MS_NS ? UINT64_MAX
                                                                 : shard->now_ns + ms * MS_NS;
}

void wait_begin(struct shard *shard, struct session *session, const struct word *words,
                size_t word_count, struct wait wait)
{
    char *end = session->reply + session->reply_capacity;
    session->wait = wait;
    session->waiting = 0;
    if (wait.is_move)
        session->target = keep_word(&end, words[--word_count]);
    for (size_t i = 0; i < word_count; i++) {
        struct waiter *waiter = &session->waiters[session->waiting++];
        waiter->session = session;
        waiter->hash = queue_hash(shard->queues.seed, words[i]);
        waiter->key = keep_word(&end, words[i]);
        join_row(shard, waiter);
    }
    session->before_here = NULL;
    session->next_here = shard->first_waiting;
    if (shard->first_waiting != NULL)
        shard->first_waiting->before_here = session;
    shard->first_waiting = session;
    session->deadline_ns = end_of(shard, wait.ms);
    session->heap_at = 0;
    if (session->deadline_ns != UINT64_MAX)
        rise(shard, shard->heap_count++, session);
    count(&shard->waiters, shard->waiters + 1);
}

static void end_wait(struct shard *shard, struct session *session)
{
    *(session->before_here == NULL ? &shard->first_waiting
                                   : &session->before_here->next_here) = session->next_here;
    if (session->next_here != NULL)
        session->next_here->before_here = session->before_here;
    leave_heap(shard, session);
    for (uint32_t i = 0; i < session->waiting; i++)
        leave_row(shard, &session->waiters[i]);
    session->waiting = 0;
    count(&shard->waiters, shard->waiters - 1);
}

bool session_cancel(struct shard *shard, struct session *session)
{
    if (session->waiting == 0)
        return false;
    end_wait(shard, session);
    return true;
}

static void give_up(struct shard *shard, struct session *session)
{
    end_wait(shard, session);
    reply_null_list(session);
    shard->host.resume(shard, session);
}

void shard_sweep(struct shard *shard, bool all)
{
    while (shard_deadline_ns(shard) <= shard->now_ns)
        give_up(shard, shard->heap[0]);
    while (all && shard->first_waiting != NULL)
        give_up(shard, shard->first_waiting);
}

/* --- handing out --- */

static void make_ready(struct shard *shard, struct queue *queue)
{
    if (queue->is_ready)
        return;
    queue->is_ready = true;
    queue->next_ready = NULL;
    *(shard->first_ready == NULL ? &shard->first_ready : &shard->last_ready->next_ready) = queue;
    shard->last_ready = queue;
}

/* What a session waited for is there. */
static void serve(struct shard *shard, struct session *session, struct queue *queue)
{
    end_wait(shard, session);
    if (session->wait.is_move) {
        char key[QUEUE_KEY_MAX]; /* the reply may cover where it is kept */
        memcpy(key, session->target.start, session->target.bytes);
        struct queue *target = move_item(shard, session, queue,
                                         (struct word){key, session->target.bytes});
        if (target == NULL)
            refuse(shard, session, out_of_memory);
        else
            make_ready(shard, target);
    } else {
        reply_header(session, '*', 2);
        reply_word(session, (struct word){queue->key, queue->key_bytes});
        reply_item(shard, session, queue, session->wait.from);
    }
    shard->host.resume(shard, session);
}

/* A move makes its target ready, which is served behind the others: so however long a chain of
 * moves is, the stack does not grow. */
void shard_hand_out(struct shard *shard, struct queue *queue)
{
    make_ready(shard, queue);
    while ((queue = shard->first_ready) != NULL) {
        struct word key = {queue->key, queue->key_bytes};
        struct waiter *first;
        while (shard->first_waiting != NULL && queue->count > 0 &&
               (first = *row_of(shard, queue->hash, key)) != NULL)
            serve(shard, first->session, queue);
        shard->first_ready = queue->next_ready;
        queue->is_ready = false;
        queues_drop_if_idle(&shard->queues, queue);
    }
}
