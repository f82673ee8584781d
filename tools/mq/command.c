/*
 * command.c: what each request does.
 *
 * A command first looks whether its reply fits behind those that wait to be sent, and changes
 * nothing before it does. So one that is told SESSION_FLUSH is simply run again.
 */
#include "session.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { DONE = -1 }; /* beside the values of enum session_result: the next request may follow */

enum { NUMBER_BYTES_MAX = 32, SHOWN_BYTES_MAX = 64, WAIT_S_MAX = 100000000 };

static const char out_of_memory[] =
    "-OOM no block is free in the pool of this key's core; take items out, or start with more "
    "--memory\r\n";
static const char stopping[] = "-SHUTDOWN the server stops and accepts nothing new\r\n";

/* --- replies --- */

static bool has_room(const struct session *session, size_t bytes)
{
    return session->reply_capacity - session->reply_bytes >= bytes;
}

static void reply_bytes(struct session *session, const char *bytes, size_t count)
{
    memcpy(session->reply + session->reply_bytes, bytes, count);
    session->reply_bytes += count;
}

static void reply(struct session *session, const char *line)
{
    reply_bytes(session, line, strlen(line));
}

static void reply_header(struct session *session, char mark, uint64_t number)
{
    char digits[NUMBER_BYTES_MAX];
    size_t at = sizeof digits;
    digits[--at] = '\n';
    digits[--at] = '\r';
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    digits[--at] = mark;
    reply_bytes(session, digits + at, sizeof digits - at);
}

static void reply_word(struct session *session, struct word word)
{
    reply_header(session, '$', word.bytes);
    reply_bytes(session, word.start, word.bytes);
    reply(session, "\r\n");
}

static void reply_item(struct shard *shard, struct session *session, struct queue *queue)
{
    size_t bytes = queue_oldest_bytes(queue);
    reply_header(session, '$', bytes);
    queue_take(&shard->queues, queue, session->reply + session->reply_bytes);
    session->reply_bytes += bytes;
    reply(session, "\r\n");
}

/* A part of a request, for a sentence: nothing but letters that a line can hold. */
static void show(struct word word, char shown[SHOWN_BYTES_MAX])
{
    size_t bytes = word.bytes < SHOWN_BYTES_MAX - 1 ? word.bytes : (size_t)SHOWN_BYTES_MAX - 1;
    for (size_t i = 0; i < bytes; i++)
        shown[i] = (char)(word.start[i] >= ' ' && word.start[i] <= '~' ? word.start[i] : '?');
    shown[bytes] = '\0';
}

__attribute__((format(printf, 2, 3))) static void complain(struct session *session,
                                                           const char *format, ...)
{
    char line[REPLY_SMALL];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    reply(session, line);
}

static void count(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, value, memory_order_relaxed);
}

static int refuse(struct shard *shard, struct session *session, const char *line)
{
    count(&shard->refused, shard->refused + 1);
    reply(session, line);
    return DONE;
}

/* --- waiting --- */

/* Joins the end of a queue's row. */
static void wait_at(struct session *session, struct queue *queue)
{
    struct waiter *waiter = &session->waiters[session->waiting++];
    *waiter = (struct waiter){.before = queue->last_waiter, .queue = queue, .session = session};
    *(queue->last_waiter == NULL ? &queue->first_waiter : &queue->last_waiter->next) = waiter;
    queue->last_waiter = waiter;
}

static void leave_row(struct waiter *waiter)
{
    struct queue *queue = waiter->queue;
    *(waiter->before == NULL ? &queue->first_waiter : &waiter->before->next) = waiter->next;
    *(waiter->next == NULL ? &queue->last_waiter : &waiter->next->before) = waiter->before;
}

/* Leaves all rows, of which one queue may come twice, and forgets queues that nobody needs now. */
static void leave_rows(struct shard *shard, struct session *session)
{
    for (uint32_t i = 0; i < session->waiting; i++)
        leave_row(&session->waiters[i]);
    for (uint32_t i = 0; i < session->waiting; i++) {
        struct queue *queue = session->waiters[i].queue;
        bool is_again = false;
        for (uint32_t k = 0; k < i; k++)
            is_again |= session->waiters[k].queue == queue;
        if (!is_again)
            queues_drop_if_idle(&shard->queues, queue);
    }
    session->waiting = 0;
}

/* In all rows that it wants to be in: from now on it is the shard's. */
static void begin_wait(struct shard *shard, struct session *session, uint64_t deadline_ns)
{
    session->deadline_ns = deadline_ns;
    session->before_here = NULL;
    session->next_here = shard->first_waiting;
    if (shard->first_waiting != NULL)
        shard->first_waiting->before_here = session;
    shard->first_waiting = session;
    if (deadline_ns < shard->deadline_ns)
        shard->deadline_ns = deadline_ns;
    count(&shard->waiters, shard->waiters + 1);
}

static void end_wait(struct shard *shard, struct session *session)
{
    *(session->before_here == NULL ? &shard->first_waiting
                                   : &session->before_here->next_here) = session->next_here;
    if (session->next_here != NULL)
        session->next_here->before_here = session->before_here;
    count(&shard->waiters, shard->waiters - 1);
    leave_rows(shard, session);
}

static void publish(struct shard *shard)
{
    count(&shard->items, shard->queues.items);
    count(&shard->keys, shard->queues.keys);
    count(&shard->open_jobs, shard->queues.open_jobs);
}

bool session_cancel(struct shard *shard, struct session *session)
{
    if (session->waiting == 0)
        return false;
    end_wait(shard, session);
    publish(shard);
    return true;
}

void shard_sweep(struct shard *shard, bool all)
{
    uint64_t deadline_ns = UINT64_MAX;
    for (struct session *session = shard->first_waiting, *next; session != NULL; session = next) {
        next = session->next_here;
        if (!all && session->deadline_ns > shard->now_ns) {
            if (session->deadline_ns < deadline_ns)
                deadline_ns = session->deadline_ns;
            continue;
        }
        session_cancel(shard, session);
        reply(session, "*-1\r\n");
        shard->host.resume(shard, session);
    }
    shard->deadline_ns = deadline_ns;
}

/* Key and item, to who blocks on a queue. */
static void reply_popped(struct shard *shard, struct session *session, struct queue *queue)
{
    reply_header(session, '*', 2);
    reply_word(session, (struct word){queue->key, queue->key_bytes});
    reply_item(shard, session, queue);
}

/* New items go to who waits for them, the longest first. */
static void hand_out(struct shard *shard, struct queue *queue)
{
    while (queue->count > 0 && queue->first_waiter != NULL) {
        struct session *session = queue->first_waiter->session;
        end_wait(shard, session);
        reply_popped(shard, session, queue);
        shard->host.resume(shard, session);
    }
    queues_drop_if_idle(&shard->queues, queue);
}

/* --- queues --- */

static struct queue *find(struct shard *shard, struct word key)
{
    return queues_find(&shard->queues, queue_hash(shard->queues.seed, key), key);
}

/* The key's queue with room for so many bytes, or NULL, and nothing has changed. */
static struct queue *room_for(struct shard *shard, struct word key, size_t bytes)
{
    struct queues *queues = &shard->queues;
    struct queue *queue = queues_get(queues, queue_hash(queues->seed, key), key);
    if (queue == NULL || queue_reserve(queues, queue, bytes))
        return queue;
    queues_drop_if_idle(queues, queue);
    return NULL;
}

static const struct word nothing = {"", 0};

static int run_lpush(struct shard *shard, struct session *session)
{
    const struct request *request = &shard->request;
    size_t bytes = 0;
    if (shard->is_stopping)
        return refuse(shard, session, stopping);
    for (size_t i = 2; i < request->count; i++)
        bytes += queue_item_bytes(request->words[i].bytes);
    struct queue *queue = room_for(shard, request->words[1], bytes);
    if (queue == NULL)
        return refuse(shard, session, out_of_memory);
    for (size_t i = 2; i < request->count; i++)
        queue_put(&shard->queues, queue, nothing, request->words[i]);
    reply_header(session, ':', queue->count);
    hand_out(shard, queue);
    return DONE;
}

static int run_rpop(struct shard *shard, struct session *session)
{
    struct queue *queue = find(shard, shard->request.words[1]);
    if (queue == NULL || queue->count == 0) {
        reply(session, "$-1\r\n");
        return DONE;
    }
    if (!has_room(session, queue_oldest_bytes(queue) + REPLY_EXTRA))
        return SESSION_FLUSH;
    reply_item(shard, session, queue);
    queues_drop_if_idle(&shard->queues, queue);
    return DONE;
}

/* Seconds, with a fraction if need be, to nanoseconds. False: no such time. */
static bool read_wait(struct word word, uint64_t *ns)
{
    char text[NUMBER_BYTES_MAX];
    char *end;
    if (word.bytes == 0 || word.bytes >= sizeof text || memchr(word.start, '\0', word.bytes))
        return false;
    memcpy(text, word.start, word.bytes);
    text[word.bytes] = '\0';
    double seconds = strtod(text, &end);
    if (*end != '\0' || !isfinite(seconds) || seconds < 0 || seconds > (int)WAIT_S_MAX)
        return false;
    *ns = (uint64_t)ceil(seconds * 1e9);
    return true;
}

/* NULL, or what is wrong with a BRPOP. */
static const char *check_brpop(const struct shard *shard, uint64_t *wait_ns)
{
    const struct request *request = &shard->request;
    size_t keys = request->count - 2;
    if (!read_wait(request->words[request->count - 1], wait_ns))
        return "-ERR timeout is not a number of seconds, or below 0\r\n";
    if (keys > WAIT_KEYS_MAX)
        return "-ERR BRPOP takes at most 32 keys\r\n";
    for (size_t i = 1; i <= keys; i++) {
        if (request->words[i].bytes > QUEUE_KEY_MAX)
            return "-ERR a key has at most 400 bytes\r\n";
        if (shard_owner(shard, request->words[i]) != shard->core)
            return "-CROSSSLOT the keys are of different cores; begin them with the same {word}, "
                   "or start with --cores 1\r\n";
    }
    return NULL;
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

static int wait_for_first(struct shard *shard, struct session *session, uint64_t wait_ns)
{
    const struct request *request = &shard->request;
    for (size_t i = 1; i + 1 < request->count; i++) {
        struct queue *queue = room_for(shard, request->words[i], 0);
        if (queue == NULL) {
            leave_rows(shard, session);
            return refuse(shard, session, out_of_memory);
        }
        wait_at(session, queue);
    }
    begin_wait(shard, session, wait_ns == 0 ? UINT64_MAX : shard->now_ns + wait_ns);
    return SESSION_WAITS;
}

static int run_brpop(struct shard *shard, struct session *session)
{
    uint64_t wait_ns;
    const char *wrong = check_brpop(shard, &wait_ns);
    if (wrong != NULL) {
        reply(session, wrong);
        return DONE;
    }
    struct queue *queue = find_first(shard);
    if (queue != NULL) {
        if (!has_room(session, queue_oldest_bytes(queue) + REPLY_EXTRA))
            return SESSION_FLUSH;
        reply_popped(shard, session, queue);
        queues_drop_if_idle(&shard->queues, queue);
        return DONE;
    }
    if (shard->is_stopping) {
        reply(session, "*-1\r\n");
        return DONE;
    }
    if (session->reply_bytes > 0)
        return SESSION_FLUSH; /* what was answered before must not wait, too */
    return wait_for_first(shard, session, wait_ns);
}

static int run_llen(struct shard *shard, struct session *session)
{
    struct queue *queue = find(shard, shard->request.words[1]);
    reply_header(session, ':', queue == NULL ? 0 : queue->count);
    return DONE;
}

/* Key by key: the session goes round the cores that have them. */
static int run_del(struct shard *shard, struct session *session)
{
    const struct request *request = &shard->request;
    while (session->step + 1 < request->count) {
        struct word key = request->words[session->step + 1];
        session->owner = shard_owner(shard, key);
        if (session->owner != shard->core)
            return SESSION_AWAY;
        struct queue *queue = find(shard, key);
        session->step++;
        if (queue == NULL)
            continue;
        session->found += queue->count > 0 || queue->is_open_job;
        queue_clear(&shard->queues, queue);
        queues_drop_if_idle(&shard->queues, queue);
    }
    reply_header(session, ':', session->found);
    return DONE;
}

/* --- jobs --- */

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

static int run_submit(struct shard *shard, struct session *session)
{
    char name[NUMBER_BYTES_MAX * 2 + 1];
    const struct request *request = &shard->request;
    if (shard->is_stopping)
        return refuse(shard, session, stopping);
    struct word id = name_job(shard, name);
    struct queue *job = room_for(shard, id, 0);
    if (job == NULL)
        return refuse(shard, session, out_of_memory);
    name[id.bytes] = ' ';
    struct word head = {name, id.bytes + 1};
    struct queue *queue = room_for(shard, request->words[1],
                                   queue_item_bytes(head.bytes + request->words[2].bytes));
    if (queue == NULL) {
        queues_drop_if_idle(&shard->queues, job);
        return refuse(shard, session, out_of_memory);
    }
    queue_open_job(&shard->queues, job);
    queue_put(&shard->queues, queue, head, request->words[2]);
    reply_word(session, id);
    hand_out(shard, queue);
    return DONE;
}

static int answer_job(struct shard *shard, struct session *session, struct queue *job)
{
    struct word value = shard->request.words[2];
    if (!queue_reserve(&shard->queues, job, queue_item_bytes(value.bytes)))
        return refuse(shard, session, out_of_memory);
    queue_put(&shard->queues, job, nothing, value);
    queue_close_job(&shard->queues, job);
    reply(session, "+OK\r\n");
    hand_out(shard, job);
    return DONE;
}

static int run_result(struct shard *shard, struct session *session)
{
    const struct request *request = &shard->request;
    struct queue *job = find(shard, request->words[1]);
    bool is_open = job != NULL && job->is_open_job;
    if (request->count == 3 && is_open)
        return answer_job(shard, session, job);
    if (request->count == 2 && is_open) {
        reply(session, "$-1\r\n");
        return DONE;
    }
    if (request->count == 2 && job != NULL && job->count > 0)
        return run_rpop(shard, session);
    reply(session, "-NOJOB no open job has this id\r\n");
    return DONE;
}

/* --- the rest of what clients say --- */

static int run_ping(struct shard *shard, struct session *session)
{
    if (shard->request.count == 1) {
        reply(session, "+PONG\r\n");
        return DONE;
    }
    struct word word = shard->request.words[1];
    if (!has_room(session, word.bytes + REPLY_EXTRA))
        return SESSION_FLUSH;
    reply_word(session, word);
    return DONE;
}

static bool is_word(struct word word, const char *name)
{
    return word.bytes == strlen(name) && strncasecmp(word.start, name, word.bytes) == 0;
}

static int run_info(struct shard *shard, struct session *session)
{
    char text[16 * 1024];
    publish(shard);
    size_t bytes = shard->host.info(shard->host.context, text, sizeof text);
    if (!has_room(session, bytes + REPLY_EXTRA))
        return SESSION_FLUSH;
    reply_word(session, (struct word){text, bytes});
    return DONE;
}

static int run_config(struct shard *shard, struct session *session)
{
    struct word what = shard->request.words[1];
    if (!is_word(what, "get") || shard->request.count < 3)
        reply(session, "-ERR only CONFIG GET is known; options are those of the command line\r\n");
    else if (is_word(shard->request.words[2], "save"))
        reply(session, "*2\r\n$4\r\nsave\r\n$0\r\n\r\n");
    else if (is_word(shard->request.words[2], "appendonly"))
        reply(session, "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n");
    else
        reply(session, "*0\r\n");
    return DONE;
}

static int run_client(struct shard *shard, struct session *session)
{
    struct word what = shard->request.words[1];
    (void)shard;
    if (is_word(what, "setinfo") || is_word(what, "setname"))
        reply(session, "+OK\r\n");
    else if (is_word(what, "getname"))
        reply(session, "$-1\r\n");
    else
        reply(session, "-ERR of CLIENT only SETINFO, SETNAME and GETNAME are known\r\n");
    return DONE;
}

static int run_select(struct shard *shard, struct session *session)
{
    bool is_first = is_word(shard->request.words[1], "0");
    reply(session, is_first ? "+OK\r\n" : "-ERR there is one database, 0\r\n");
    return DONE;
}

static int run_hello(struct shard *shard, struct session *session)
{
    const struct request *request = &shard->request;
    if (request->count == 1 || is_word(request->words[1], "2"))
        reply(session, "*6\r\n$6\r\nserver\r\n$5\r\ncalmq\r\n$5\r\nproto\r\n:2\r\n"
                       "$4\r\nmode\r\n$10\r\nstandalone\r\n");
    else
        reply(session, "-NOPROTO unsupported protocol version; only RESP2 is spoken here\r\n");
    return DONE;
}

static int run_auth(struct shard *shard, struct session *session)
{
    (void)shard;
    reply(session, "-ERR AUTH called without any password configured; there are none here\r\n");
    return DONE;
}

static int run_reset(struct shard *shard, struct session *session)
{
    (void)shard;
    reply(session, "+RESET\r\n");
    return DONE;
}

static int run_quit(struct shard *shard, struct session *session)
{
    (void)shard;
    reply(session, "+OK\r\n");
    return SESSION_CLOSE;
}

/* A browser that was made to send something here: nothing of it is to be run. */
static int run_http(struct shard *shard, struct session *session)
{
    (void)shard;
    (void)session;
    return SESSION_CLOSE;
}

static int run_shutdown(struct shard *shard, struct session *session)
{
    reply(session, "+OK\r\n");
    shard->host.stop(shard->host.context);
    return DONE;
}

/* --- the table --- */

struct command {
    const char *name;
    int (*run)(struct shard *, struct session *);
    size_t least, most; /* words */
    bool has_key;       /* its second word: it runs where that is */
};

static int run_command(struct shard *shard, struct session *session);

static const struct command commands[] = {
    {"LPUSH", run_lpush, 3, REQUEST_WORDS_MAX, true},
    {"RPOP", run_rpop, 2, 2, true},
    {"BRPOP", run_brpop, 3, REQUEST_WORDS_MAX, true},
    {"SUBMIT", run_submit, 3, 3, true},
    {"RESULT", run_result, 2, 3, true},
    {"LLEN", run_llen, 2, 2, true},
    {"DEL", run_del, 2, REQUEST_WORDS_MAX, true},
    {"PING", run_ping, 1, 2, false},
    {"ECHO", run_ping, 2, 2, false},
    {"INFO", run_info, 1, REQUEST_WORDS_MAX, false},
    {"CONFIG", run_config, 2, REQUEST_WORDS_MAX, false},
    {"COMMAND", run_command, 1, REQUEST_WORDS_MAX, false},
    {"CLIENT", run_client, 2, REQUEST_WORDS_MAX, false},
    {"SELECT", run_select, 2, 2, false},
    {"HELLO", run_hello, 1, REQUEST_WORDS_MAX, false},
    {"AUTH", run_auth, 2, 3, false},
    {"RESET", run_reset, 1, 1, false},
    {"QUIT", run_quit, 1, REQUEST_WORDS_MAX, false},
    {"SHUTDOWN", run_shutdown, 1, 1, false},
    {"POST", run_http, 1, REQUEST_WORDS_MAX, false},
    {"HOST:", run_http, 1, REQUEST_WORDS_MAX, false},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0], NOT_COMMANDS = 2 };

/* Clients ask for the list of commands to complete words; they do without it. */
static int run_command(struct shard *shard, struct session *session)
{
    const struct request *request = &shard->request;
    if (request->count > 1 && is_word(request->words[1], "count"))
        reply_header(session, ':', COMMAND_COUNT - NOT_COMMANDS);
    else
        reply(session, "*0\r\n");
    return DONE;
}

static const struct command *command_of(struct word name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (is_word(name, commands[i].name))
            return &commands[i];
    return NULL;
}

static struct word tag_of(struct word key)
{
    const char *open = memchr(key.start, '{', key.bytes);
    if (open == NULL)
        return key;
    struct word tag = {open + 1, key.bytes - (size_t)(open + 1 - key.start)};
    const char *close = memchr(tag.start, '}', tag.bytes);
    tag.bytes = close != NULL ? (size_t)(close - tag.start) : 0;
    return tag.bytes > 0 ? tag : key;
}

uint32_t shard_owner(const struct shard *shard, struct word key)
{
    uint64_t hash = queue_hash(shard->queues.seed, tag_of(key));
    return (uint32_t)((hash >> 32) * shard->cores >> 32);
}

/* Whether a request is no command's; the reply says so. */
static bool is_refused(struct session *session, const struct request *request,
                       const struct command *command)
{
    char shown[SHOWN_BYTES_MAX];
    bool is_counted = command != NULL && request->count >= command->least &&
                      request->count <= command->most;
    if (is_counted && (!command->has_key || request->words[1].bytes <= QUEUE_KEY_MAX))
        return false;
    show(request->words[0], shown);
    if (command == NULL)
        complain(session, "-ERR unknown command '%s'\r\n", shown);
    else if (!is_counted)
        complain(session, "-ERR wrong number of arguments for '%s' command\r\n", shown);
    else
        complain(session, "-ERR a key has at most %d bytes\r\n", QUEUE_KEY_MAX);
    return true;
}

static int run_one(struct shard *shard, struct session *session)
{
    const struct request *request = &shard->request;
    if (request->count == 0)
        return DONE;
    if (!has_room(session, REPLY_SMALL))
        return SESSION_FLUSH;
    const struct command *command = command_of(request->words[0]);
    if (is_refused(session, request, command))
        return DONE;
    if (command->has_key && session->step == 0) {
        session->owner = shard_owner(shard, request->words[1]);
        if (session->owner != shard->core)
            return SESSION_AWAY;
    }
    return command->run(shard, session);
}

static enum session_result run_wrong(struct shard *shard, struct session *session)
{
    if (!has_room(session, REPLY_SMALL))
        return SESSION_FLUSH;
    complain(session, "-ERR Protocol error: %s\r\n", shard->request.wrong);
    return SESSION_CLOSE;
}

static int run_next(struct shard *shard, struct session *session)
{
    const char *start = session->input + session->consumed;
    size_t bytes = session->input_bytes - session->consumed;
    switch (parse_request(start, bytes, shard->message_bytes, &shard->request)) {
    case PARSE_MORE: return SESSION_MORE;
    case PARSE_WRONG: return (int)run_wrong(shard, session);
    case PARSE_DONE: break;
    }
    int result = run_one(shard, session);
    if (result == DONE || result == SESSION_WAITS || result == SESSION_CLOSE) {
        session->consumed += shard->request.bytes;
        session->step = 0;
        session->found = 0;
        count(&shard->requests, shard->requests + 1);
    }
    return result;
}

enum session_result session_run(struct shard *shard, struct session *session)
{
    int result = DONE;
    while (result == DONE)
        result = run_next(shard, session);
    publish(shard);
    return (enum session_result)result;
}
