/*
 * mq_forward_fuzz.c: clients of a calmq with two cores, in any order of events: requests go to the
 * core of their key and answers come back, without sockets, threads or a clock.
 *
 * Connections, sessions, queues and inboxes are the server's own. In place of the executor and the
 * loop stands this file: the input says when bytes come in and how many, when a message is run,
 * when a client hangs up or breaks off, when time passes. A core that sends may be overtaken by the
 * one it sends to: that one can run the message before calm_exec_send() returns, as another thread
 * could. mq_clients.c judges the answers; at the end all memory must be back.
 *
 * Owner: the one thread of the test.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mq_clients.h"
#include "exec/inbox.h"
#include "server.h"
#include "target.h"

enum {
    CORES = 2,
    BUCKETS = 4,
    MESSAGE = 2048,
    INBOX = 16, /* slots: two messages a connection, and those whose task still runs */
    FD_FIRST = 1 << 28,
    STEP_BYTES = 3,
    SETTLE_ROUNDS_MAX = 100000,
    QUEUE_BYTES_LEAST = 16 << 10, /* of a core */
    QUEUE_BYTES_STEP = 2 << 10,
    TENTH_NS = 100000000,
    JOB_BLOCKS_MAX = 16,
    SHORT_S = 2,
    LONG_S = 1000000
};

/* --- inputs of the corpus, a step a row: what, for which client, and two numbers --- */

#define ASK(client, what, more) (char)((client) << 4), (char)(what), (char)(more)
#define STEP(client, what, one) (char)((client) << 4 | (what)), (char)(one), 0

enum { READ = 5, SENT, TURN, HANG_UP, CUT, CONNECT, TIME, RACE, STOP, SETTLE, READ_ALL };
enum { ECHO = 0, PUSH = 1, POP = 5, WAIT = 8, DELETE = 11, COUNT = 12, SUBMIT, ANSWER, LAST };
enum { LONG = 16, TWO = 8, THREE = 16 }; /* items of 500 bytes; so many of them */

#define CONNECT_ALL STEP(0, CONNECT, 0), STEP(1, CONNECT, 1), STEP(2, CONNECT, 0)

static const char pushes_and_pops[] = {1,
                                       9,
                                       CONNECT_ALL,
                                       ASK(0, PUSH, 0),
                                       ASK(0, PUSH, 1 + THREE),
                                       ASK(0, PUSH, 2),
                                       ASK(0, ECHO, 0),
                                       ASK(1, POP, 0),
                                       ASK(1, POP, 1),
                                       ASK(1, POP, 2),
                                       STEP(0, READ_ALL, 0),
                                       STEP(1, READ, 20),
                                       STEP(0, TURN, 1),
                                       STEP(0, TURN, 0),
                                       STEP(0, SETTLE, 0),
                                       ASK(2, COUNT, 1),
                                       ASK(2, DELETE, 10),
                                       STEP(2, READ_ALL, 0),
                                       STEP(0, RACE, 3),
                                       STEP(0, SETTLE, 0)};
static const char waits[] = {2,
                             9,
                             CONNECT_ALL,
                             ASK(0, WAIT, 0),
                             ASK(1, WAIT, 0),
                             ASK(0, WAIT, 9),
                             ASK(1, WAIT, 18),
                             STEP(0, SETTLE, 0),
                             ASK(2, PUSH, 0 + THREE),
                             ASK(2, PUSH, 1),
                             ASK(2, PUSH, 2),
                             STEP(2, READ_ALL, 0),
                             STEP(0, TURN, 1),
                             STEP(0, TURN, 0),
                             STEP(0, TIME, 20),
                             ASK(0, WAIT, 55),
                             ASK(1, WAIT, 10),
                             STEP(0, SETTLE, 0),
                             STEP(0, TIME, 20)};
static const char full[] = {3,
                            0,
                            CONNECT_ALL,
                            ASK(0, PUSH | LONG, THREE),
                            ASK(0, PUSH | LONG, 1 + THREE),
                            ASK(1, PUSH | LONG, THREE),
                            ASK(1, PUSH | LONG, 1 + THREE),
                            ASK(0, PUSH | LONG, THREE),
                            ASK(1, PUSH | LONG, THREE),
                            ASK(1, PUSH | LONG, 1 + THREE),
                            STEP(0, SETTLE, 0),
                            ASK(2, PUSH | LONG, THREE),
                            ASK(2, WAIT, 4),
                            ASK(2, SUBMIT, 3),
                            STEP(0, SETTLE, 0),
                            ASK(1, POP, 0),
                            ASK(1, POP, 1),
                            STEP(1, READ_ALL, 0),
                            STEP(1, SENT, 100),
                            STEP(0, SETTLE, 0)};
static const char ends[] = {4,
                            9,
                            CONNECT_ALL,
                            ASK(0, WAIT, 0),
                            ASK(1, WAIT, 0),
                            ASK(2, PUSH, 0),
                            ASK(2, WAIT, 9),
                            STEP(2, READ_ALL, 0),
                            STEP(2, HANG_UP, 0),
                            STEP(0, READ_ALL, 0),
                            STEP(1, READ_ALL, 0),
                            STEP(0, TURN, 1),
                            STEP(0, CUT, 0),
                            STEP(1, HANG_UP, 0),
                            STEP(0, TURN, 0),
                            STEP(0, TURN, 1),
                            STEP(0, SETTLE, 0),
                            STEP(0, CONNECT, 1),
                            ASK(0, POP, 0),
                            ASK(0, LAST, 1),
                            STEP(0, READ_ALL, 0),
                            STEP(0, CUT, 0),
                            STEP(0, SETTLE, 0)};
static const char jobs[] = {5,
                            9,
                            CONNECT_ALL,
                            STEP(0, RACE, 7),
                            ASK(0, SUBMIT, 0),
                            ASK(1, SUBMIT, 1),
                            STEP(0, SETTLE, 0),
                            ASK(0, ANSWER, 0),
                            ASK(1, ANSWER, 0),
                            ASK(0, ANSWER, 0),
                            ASK(2, POP, 0),
                            ASK(2, POP, 1),
                            STEP(0, SETTLE, 0),
                            ASK(0, SUBMIT, 2),
                            STEP(0, STOP, 77),
                            ASK(1, PUSH, 3),
                            ASK(1, LAST, 0),
                            STEP(0, SETTLE, 0)};

#define INPUT(bytes) {bytes, sizeof bytes}
const struct fuzz_input fuzz_corpus[] = {INPUT(pushes_and_pops), INPUT(waits), INPUT(full),
                                         INPUT(ends), INPUT(jobs)};
const size_t fuzz_corpus_count = sizeof fuzz_corpus / sizeof fuzz_corpus[0];

/* --- the world --- */

/* A client's connection. */
struct line {
    struct socket *socket;
    uint32_t core;
    bool is_open;
    bool is_end_told; /* the server knows that nothing more comes */
    bool has_ended;   /* the client says no more, when all that it said was read */
    bool is_shut;     /* by the server, both ways                                */
};

struct letter {
    calm_task_function function;
    char payload[4 * sizeof(void *)];
};

static struct server server;
static struct core cores[CORES];
static struct inbox inboxes[CORES];
static struct queue *buckets[CORES][BUCKETS];
static struct line lines[CLIENTS];
static uint64_t now_ns;
static bool is_busy[CORES]; /* it runs something: nothing else runs on it meanwhile */
static uint32_t fulls;      /* calls of calm_exec_send that are refused    */
static uint32_t quicks;     /* that are overtaken by the core they send to */
static bool has_changed;

static struct line *line_of(int fd)
{
    return fd >= FD_FIRST && fd < FD_FIRST + CLIENTS ? &lines[fd - FD_FIRST] : NULL;
}

/* --- in place of the executor --- */

/* Runs the oldest message to a core. False: there is none. */
static bool turn(uint32_t core)
{
    struct letter *letter = is_busy[core] ? NULL : inbox_take_sent(&inboxes[core]);
    if (letter == NULL)
        return false;
    is_busy[core] = true;
    letter->function((calm_worker *)(void *)&cores[core], letter->payload);
    inbox_return(&inboxes[core], letter);
    is_busy[core] = false;
    has_changed = true;
    return true;
}

int calm_exec_send(calm_exec *exec, uint32_t core, const struct calm_task *task)
{
    (void)exec;
    if (core >= CORES || task->payload_bytes > sizeof(((struct letter *)NULL)->payload))
        client_fail("a message goes nowhere, or does not fit");
    if (fulls > 0) { /* as others may make it seem, who go on meanwhile */
        fulls--;
        turn(core);
        return CALM_EXEC_EFULL;
    }
    struct letter *letter = inbox_reserve(&inboxes[core]);
    if (letter == NULL)
        client_fail("more messages are under way than an inbox has room for");
    letter->function = task->function;
    memcpy(letter->payload, task->payload, task->payload_bytes);
    if (!inbox_send(&inboxes[core], letter))
        client_fail("an inbox refuses a message");
    if (quicks > 0) {
        quicks--;
        while (turn(core))
            continue;
    }
    return 0;
}

uint32_t calm_worker_core(const calm_worker *worker)
{
    return ((const struct core *)(const void *)worker)->number;
}

/* --- in place of the kernel --- */

int __real_close(int fd);
int __real_shutdown(int fd, int how);
int __wrap_close(int fd);
int __wrap_shutdown(int fd, int how);

int __wrap_close(int fd)
{
    struct line *line = line_of(fd);
    if (line == NULL)
        return __real_close(fd);
    if (!line->is_open || line->socket->is_receiving || line->socket->is_sending)
        client_fail("a socket is closed that is closed, or in use");
    if (!line->is_shut && !line->has_ended)
        client_fail("a socket is closed that was not shut down");
    memset(line, 0, sizeof *line);
    return 0;
}

int __wrap_shutdown(int fd, int how)
{
    struct line *line = line_of(fd);
    unsigned number = (unsigned)(fd - FD_FIRST);
    if (line == NULL)
        return __real_shutdown(fd, how);
    if (how != SHUT_RDWR)
        return 0;
    line->is_shut = true;
    if (clients[number].is_cut || client_is_content(number))
        return 0;
    if (server.options.send_s == SHORT_S)
        client_cut(number); /* it took too long */
    else if (!line->has_ended)
        client_fail("the server ends a connection for nothing");
    return 0;
}

static bool fake_add(struct loop *loop, struct socket *socket)
{
    (void)loop;
    line_of(socket->fd)->socket = socket;
    return true;
}

static void fake_receive(struct loop *loop, struct socket *socket, char *to, size_t bytes)
{
    (void)loop;
    if (socket->is_receiving || bytes == 0)
        client_fail("bytes are asked for twice, or none");
    socket->is_receiving = has_changed = true;
    socket->to = to;
    socket->to_bytes = bytes;
}

static void fake_send(struct loop *loop, struct socket *socket, const char *from, size_t bytes)
{
    (void)loop;
    if (socket->is_sending || bytes == 0)
        client_fail("bytes are sent twice, or none");
    socket->is_sending = has_changed = true;
    socket->from = from;
    socket->from_bytes = bytes;
}

static const struct loop_kind fake_loop = {
    .name = "fake", .add = fake_add, .receive = fake_receive, .send = fake_send};

static void end_receive(struct line *line, int result)
{
    line->socket->is_receiving = false;
    line->is_end_told |= result <= 0;
    has_changed = true;
    uint32_t core = line->core; /* the line may be gone afterwards */
    is_busy[core] = true;
    connection_received(&cores[core], line->socket, result);
    is_busy[core] = false;
}

/* What a client said comes in, at most so much; or its end. */
static void carry_in(unsigned number, size_t most)
{
    struct line *line = &lines[number];
    struct client *client = &clients[number];
    if (!line->is_open || !line->socket->is_receiving)
        return;
    size_t bytes = client->ask_bytes - client->read;
    bytes = bytes < most ? bytes : most;
    bytes = bytes < line->socket->to_bytes ? bytes : line->socket->to_bytes;
    if (line->is_shut)
        end_receive(line, 0);
    else if (client->is_cut)
        end_receive(line, -ECONNRESET);
    else if (bytes > 0) {
        memcpy(line->socket->to, client->asks + client->read, bytes);
        client->read += bytes;
        end_receive(line, (int)bytes);
    } else if (line->has_ended && client->read == client->ask_bytes)
        end_receive(line, 0);
}

/* Replies go out, at most so much. */
static void carry_out(unsigned number, size_t most)
{
    struct line *line = &lines[number];
    if (!line->is_open || !line->socket->is_sending || most == 0)
        return;
    bool is_broken = line->is_shut || clients[number].is_cut;
    size_t bytes = line->socket->from_bytes < most ? line->socket->from_bytes : most;
    if (!is_broken)
        client_hear(number, line->socket->from, bytes);
    line->socket->is_sending = false;
    has_changed = true;
    uint32_t core = line->core; /* the line may be gone afterwards */
    is_busy[core] = true;
    connection_sent(&cores[core], line->socket, is_broken ? -EPIPE : (int)bytes);
    is_busy[core] = false;
}

static void connect_client(unsigned number, uint32_t core)
{
    if (lines[number].is_open)
        return;
    client_connect(number);
    lines[number] = (struct line){.core = core, .is_open = true};
    is_busy[core] = true;
    connection_accepted(&cores[core], FD_FIRST + (int)number);
    is_busy[core] = false;
    if (lines[number].socket == NULL)
        client_fail("a client is turned away although there is room");
}

static void hang_up(unsigned number)
{
    lines[number].has_ended |= lines[number].is_open;
    clients[number].has_hung_up = true;
}

static void serve(void)
{
    for (uint32_t core = 0; core < CORES; core++) {
        cores[core].shard.now_ns = now_ns;
        is_busy[core] = true;
        connections_serve(&cores[core]);
        is_busy[core] = false;
    }
}

/* --- until nothing moves --- */

static bool is_any_ready(void)
{
    return cores[0].first_ready != NULL || cores[1].first_ready != NULL;
}

static uint64_t items_of(unsigned key)
{
    struct word word = {client_key(key), strlen(client_key(key))};
    struct shard *shard = &cores[shard_owner(&cores[0].shard, word)].shard;
    struct queue *queue = queues_find(&shard->queues, queue_hash(shard->queues.seed, word), word);
    return queue == NULL ? 0 : queue->count;
}

/* Nothing is under way: who has no answer waits for an item, and there is none. */
static void check_settled(unsigned number)
{
    uint32_t awaited = client_awaits(number);
    if (!lines[number].is_open) {
        if (!client_is_content(number) && !clients[number].is_cut && !clients[number].has_hung_up)
            client_fail("a connection is gone that has answers to come");
        return;
    }
    /* Who waits while its buffer is full of what it asked then is not read further. */
    bool is_unread = awaited != 0 && !lines[number].is_end_told;
    if ((lines[number].has_ended || clients[number].is_cut) && !is_unread)
        client_fail("a connection stays whose client is gone");
    if (!client_is_content(number) && awaited == 0 && !clients[number].is_cut)
        client_fail("an answer does not come");
    for (unsigned key = 0; key < CLIENT_KEYS; key++)
        if (awaited >> key & 1 && items_of(key) > 0)
            client_fail("who waits is not given what is there");
}

static void settle(void)
{
    unsigned rounds = 0;
    do {
        has_changed = false;
        for (unsigned number = 0; number < CLIENTS; number++) {
            carry_in(number, SIZE_MAX);
            carry_out(number, SIZE_MAX);
        }
        serve();
        while (turn(0) || turn(1))
            continue;
        if (rounds++ == SETTLE_ROUNDS_MAX)
            client_fail("it never comes to rest");
    } while (has_changed || is_any_ready());
    for (unsigned number = 0; number < CLIENTS; number++)
        check_settled(number);
}

/* --- one life of a server --- */

static void resume(struct shard *shard, struct session *session)
{
    connection_resume(shard, session);
}

static void stop_serving(void *context)
{
    (void)context;
}

static size_t info(void *context, char *to, size_t bytes)
{
    (void)context;
    (void)to;
    (void)bytes;
    return 0;
}

static void make_pool(calm_pool **pool, size_t block_bytes, size_t bytes)
{
    static const uint32_t percent[] = {100};
    int error = calm_pool_init(pool, &block_bytes, 1, percent, bytes);
    if (error != 0)
        client_fail(calm_strerror(error));
}

static void start_core(uint32_t number, uint64_t seed, size_t queue_bytes)
{
    static _Alignas(CACHE_LINE_BYTES) char memory[CORES][16 << 10];
    static struct waiter *rows[CORES][BUCKETS];
    static struct session *heaps[CORES][CLIENTS];
    memset(rows[number], 0, sizeof rows[number]);
    struct core *core = &cores[number];
    size_t buffer_bytes = (connection_bytes(&server.options) + 63) / 64 * 64;
    if (inbox_bytes(INBOX, sizeof(struct letter)) > sizeof memory[0])
        client_fail("the inboxes' memory is too small");
    inbox_start(&inboxes[number], memory[number], INBOX, sizeof(struct letter));
    memset(core, 0, sizeof *core);
    memset(buckets[number], 0, sizeof buckets[number]);
    core->server = &server;
    core->number = number;
    core->is_open = core->is_listening = true;
    make_pool(&core->buffers, buffer_bytes, 2 * CLIENTS * buffer_bytes);
    core->shard = (struct shard){
        .host = {resume, stop_serving, info, connection_next, connection_describe, NULL},
        .core = number,
        .cores = CORES,
        .message_bytes = MESSAGE,
        .job_run = "1-",
        .job_blocks_max = JOB_BLOCKS_MAX,
        .rows = rows[number],
        .row_mask = BUCKETS - 1,
        .heap = heaps[number]};
    core->shard.queues.seed = seed;
    core->shard.queues.buckets = buckets[number];
    core->shard.queues.bucket_mask = BUCKETS - 1;
    make_pool(&core->shard.queues.pool, QUEUE_BLOCK_BYTES, queue_bytes);
}

static void start(uint8_t seed, uint8_t size)
{
    static uint8_t owners[CLIENT_KEYS];
    bool is_short = (size & 16) != 0;
    memset(lines, 0, sizeof lines);
    memset(&server, 0, sizeof server);
    server.loop = &fake_loop;
    server.cores = cores;
    server.options = (struct options){.cores = CORES,
                                      .connections = CLIENTS,
                                      .message_bytes = MESSAGE,
                                      .request_s = is_short ? SHORT_S : LONG_S,
                                      .keepalive_s = SHORT_S,
                                      .send_s = is_short ? SHORT_S : LONG_S};
    now_ns = fulls = quicks = 0;
    for (uint32_t core = 0; core < CORES; core++)
        start_core(core, seed, QUEUE_BYTES_LEAST + (size & 15u) * (size_t)QUEUE_BYTES_STEP);
    for (unsigned key = 0; key < CLIENT_KEYS; key++)
        owners[key] = (uint8_t)shard_owner(&cores[0].shard,
                                           (struct word){client_key(key), strlen(client_key(key))});
    clients_start(owners);
}

static void stop_shards(void)
{
    for (uint32_t core = 0; core < CORES; core++) {
        is_busy[core] = true;
        cores[core].shard.is_stopping = true;
        shard_sweep(&cores[core].shard, true);
        is_busy[core] = false;
    }
}

static void step(uint8_t what, uint8_t one, uint8_t other)
{
    unsigned number = what >> 4 & (CLIENTS - 1);
    switch (what & 15) {
    default:
        if (lines[number].is_open)
            client_ask(number, one, other);
        break;
    case READ: carry_in(number, one); break;
    case READ_ALL: carry_in(number, SIZE_MAX); break;
    case SENT: carry_out(number, one); break;
    case TURN: turn(one & 1); break;
    case HANG_UP: hang_up(number); break;
    case CUT:
        if (lines[number].is_open)
            client_cut(number);
        break;
    case CONNECT: connect_client(number, one & 1); break;
    case TIME:
        now_ns += (uint64_t)(one % 32) * TENTH_NS;
        serve();
        break;
    case RACE:
        quicks = one & 7;
        fulls = one >> 3 & 7;
        break;
    case STOP:
        if (one == 77) /* seldom */
            stop_shards();
        break;
    case SETTLE: settle(); break;
    }
}

static void check_core(struct core *core)
{
    struct queues *queues = &core->shard.queues;
    struct calm_pool_stats stats, buffers;
    char item[MESSAGE];
    for (size_t bucket = 0; bucket < BUCKETS; bucket++)
        while (queues->buckets[bucket] != NULL) {
            struct queue *queue = queues->buckets[bucket];
            while (queue->count > 0) {
                size_t bytes = queue_end_bytes(queue, QUEUE_OLDEST);
                queue_take(queues, queue, QUEUE_OLDEST, item);
                clients_left(queue->key, queue->key_bytes, item, bytes);
            }
            queue_clear(queues, queue);
            queues_drop_if_idle(queues, queue);
        }
    calm_pool_stats_read(queues->pool, &stats);
    calm_pool_stats_read(core->buffers, &buffers);
    if (queues->items != 0 || queues->keys != 0 || queues->open_jobs != 0 ||
        core->shard.waiters != 0 || core->clients != 0 || core->first != NULL)
        client_fail("counts are wrong");
    if (stats.by_class[0].free_blocks != stats.by_class[0].blocks || stats.misuses != 0 ||
        buffers.by_class[0].free_blocks != buffers.by_class[0].blocks || buffers.misuses != 0)
        client_fail("blocks are lost");
}

/* As the server's stop does it. */
static void end_connections(void)
{
    stop_shards();
    for (uint32_t core = 0; core < CORES; core++) {
        is_busy[core] = true;
        cores[core].is_closing = true;
        connections_end(&cores[core]);
        is_busy[core] = false;
    }
}

static void finish(void)
{
    settle();
    for (unsigned number = 0; number < CLIENTS; number++)
        hang_up(number);
    settle();
    end_connections();
    settle();
    for (uint32_t core = 0; core < CORES; core++) {
        check_core(&cores[core]);
        calm_pool_destroy(cores[core].shard.queues.pool);
        calm_pool_destroy(cores[core].buffers);
    }
    clients_check_items();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    start(data[0], data[1]);
    for (size_t at = 2; at + STEP_BYTES <= size; at += STEP_BYTES)
        step(data[at], data[at + 1], data[at + 2]);
    finish();
    return 0;
}
