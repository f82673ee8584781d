/*
 * mq_forward_fuzz.c: clients of calmq on two cores, whose keys lie on both: requests travel to the
 * core of their key and back, in any order of events, while clients hang up, inboxes are full, the
 * pools run out and the server ends. No reply is lost, another's, or out of turn; no item is lost
 * or taken twice; no connection and no block stays behind.
 *
 * tools/mq/connection.c is the program's own, compiled with streams of this file in the place of
 * sockets; the executor is two rows of messages. What clients may hear is in mq_clients.c.
 *
 * Input: two bytes an event. The second says whose, and how much.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "mq_clients.h"
#include "server.h"
#include "target.h"

enum {
    CORES = 2,
    STREAMS = 64,
    PLACES = 8, /* for connections: fewer than may be opened and cut at once */
    MESSAGE_BYTES = 2048,
    POOL_BYTES = 24 << 10,
    BUCKETS = 4,
    INBOX = 2 * PLACES,
    MESSAGE_PAYLOAD = 16,
    ROUNDS_MAX = 20000,
    LAST_WAITS = CLIENTS * CLIENT_ASKS_MAX,
};

#define MS_NS ((uint64_t)1000000)

#define INPUT(words) {words, sizeof words - 1}
const struct fuzz_input fuzz_corpus[] = {
    /* Two push and pop keys of both cores; bytes go in small pieces. */
    INPUT(
        "\0\0\0\5\41\0\41\5\41\10\3\60\3\61\5\0\5\1\45\0\45\5\4\0\4\1\3\374\5\1\5\0\4\14\4\15\2\0"),
    /* One waits for what the other pushes; echoes come in turn. */
    INPUT(
        "\0\0\0\5\20\0\50\44\20\0\3\374\5\0\5\1\41\5\3\375\5\1\5\0\5\1\4\374\4\375\45\11\20\0\2\0"),
    /* It hangs up while it waits on the other core; another comes in its place. */
    INPUT("\0\0\50\4\3\374\5\1\5\0\6\0\5\1\0\0\50\10\3\374\5\1\0\5\41\11\41\5\3\375\5\1\5\0\4\0"),
    /* Jobs and their results, keys deleted and counted on two cores, a wrong request, QUIT. */
    INPUT("\0\0\0\5\15\10\3\374\2\0\50\11\3\375\2\0\16\0\53\44\14\10\2\0\16\0\17\0\17\5\2\0"),
    /* Inboxes that say they are full, long items until pools are empty, time that passes. */
    INPUT("\0\0\0\5\7\1\21\4\21\104\21\10\3\374\7\0\5\1\5\0\21\51\21\55\2\0\50\4\10\377\21\0\2\0\45"
          "\4\2\0"),
    /* The server ends while requests are under way. */
    INPUT("\0\0\0\5\0\2\41\4\41\11\50\2\50\51\3\374\3\375\3\376\5\0\12\0"),
};
const size_t fuzz_corpus_count = sizeof fuzz_corpus / sizeof fuzz_corpus[0];

/* --- streams in the place of sockets; a descriptor is its number --- */

struct stream {
    struct socket *socket; /* NULL: not open */
    struct core *core;
    unsigned client;
    bool is_cut;  /* its client is gone, every other one without a word */
    bool is_shut; /* by the server      */
};
static struct stream streams[STREAMS];
static int stream_count;

int stream_close(int fd);
int stream_shutdown(int fd, int how);
ssize_t stream_send(int fd, const void *bytes, size_t count, int flags);

int stream_close(int fd)
{
    if (streams[fd].socket != NULL &&
        (streams[fd].socket->is_receiving || streams[fd].socket->is_sending))
        client_fail("a connection goes while bytes are under way");
    streams[fd].socket = NULL;
    streams[fd].is_shut = true;
    return 0;
}

int stream_shutdown(int fd, int how)
{
    streams[fd].is_shut |= how == 2; /* SHUT_RDWR */
    return 0;
}

/* Who is turned away hears of it, and asks nothing. */
ssize_t stream_send(int fd, const void *bytes, size_t count, int flags)
{
    (void)bytes;
    (void)flags;
    streams[fd].is_cut = clients[streams[fd].client].is_cut = true;
    return (ssize_t)count;
}

static bool loop_add(struct loop *loop, struct socket *socket)
{
    (void)loop;
    streams[socket->fd].socket = socket;
    return true;
}

static void loop_receive(struct loop *loop, struct socket *socket, char *to, size_t bytes)
{
    (void)loop;
    if (socket->is_receiving || bytes == 0)
        client_fail("bytes are asked for twice");
    socket->is_receiving = true;
    socket->to = to;
    socket->to_bytes = bytes;
}

static void loop_send(struct loop *loop, struct socket *socket, const char *from, size_t bytes)
{
    (void)loop;
    if (socket->is_sending || bytes == 0)
        client_fail("bytes are sent twice");
    socket->is_sending = true;
    socket->from = from;
    socket->from_bytes = bytes;
}

static const struct loop_kind loop_of_streams = {
    .name = "streams", .add = loop_add, .receive = loop_receive, .send = loop_send};

/* A client that is answered in full closes when the server has said its last. */
static bool is_at_end(const struct stream *stream)
{
    const struct client *client = &clients[stream->client];
    return client->read == client->ask_bytes && client->has_hung_up &&
           client_is_content(stream->client);
}

/* Bytes of the client reach the server, at most so many; false: none do. */
static bool carry_in(struct stream *stream, size_t most)
{
    struct socket *socket = stream->socket;
    struct client *client = &clients[stream->client];
    if (socket == NULL || !socket->is_receiving)
        return false;
    int result = stream->is_cut && socket->fd % 2 == 1 ? -ECONNRESET : 0;
    if (!stream->is_shut && !stream->is_cut) {
        size_t bytes = client->ask_bytes - client->read;
        bytes = bytes < most ? bytes : most;
        bytes = bytes < socket->to_bytes ? bytes : socket->to_bytes;
        if (bytes == 0 && !is_at_end(stream))
            return false;
        memcpy(socket->to, client->asks + client->read, bytes);
        client->read += bytes;
        result = (int)bytes;
    }
    socket->is_receiving = false;
    connection_received(stream->core, socket, result);
    return true;
}

static bool carry_out(struct stream *stream, size_t most)
{
    struct socket *socket = stream->socket;
    if (socket == NULL || !socket->is_sending)
        return false;
    size_t bytes = socket->from_bytes < most ? socket->from_bytes : most;
    int result = (int)bytes;
    if (stream->is_shut || stream->is_cut)
        result = -EPIPE;
    else
        client_hear(stream->client, socket->from, bytes);
    socket->is_sending = false;
    connection_sent(stream->core, socket, result);
    return true;
}

/* --- two rows of messages in the place of the executor --- */

struct parcel {
    calm_task_function function;
    _Alignas(16) char payload[MESSAGE_PAYLOAD];
};
static struct inbox {
    struct parcel parcels[INBOX];
    size_t first, count;
    bool says_full; /* once */
} inboxes[CORES];

int calm_exec_send(calm_exec *exec, uint32_t core, const struct calm_task *task)
{
    struct inbox *inbox = &inboxes[core];
    (void)exec;
    if (inbox->says_full) {
        inbox->says_full = false;
        return CALM_EXEC_EFULL;
    }
    if (inbox->count == INBOX)
        client_fail("more than two messages for a connection are under way");
    struct parcel *parcel = &inbox->parcels[(inbox->first + inbox->count++) % INBOX];
    if (task->payload_bytes > sizeof parcel->payload)
        client_fail("a message is longer than inboxes take");
    parcel->function = task->function;
    memcpy(parcel->payload, task->payload, task->payload_bytes);
    return 0;
}

/* A worker's address is its core's number, and one. */
uint32_t calm_worker_core(const calm_worker *worker)
{
    return (uint32_t)((uintptr_t)worker - 1);
}

static bool run_message(uint32_t core)
{
    struct inbox *inbox = &inboxes[core];
    if (inbox->count == 0)
        return false;
    struct parcel parcel = inbox->parcels[inbox->first];
    inbox->first = (inbox->first + 1) % INBOX;
    inbox->count--;
    parcel.function((calm_worker *)(uintptr_t)(core + 1), parcel.payload);
    return true;
}

/* --- the server --- */

static struct server server;
static struct core cores[CORES];
static struct queue *buckets[CORES][BUCKETS];

static void stop(void *context)
{
    (void)context;
    client_fail("nobody asked the server to stop");
}

static size_t info(void *context, char *to, size_t bytes)
{
    (void)context;
    return (size_t)snprintf(to, bytes, "a:1\r\n");
}

static calm_pool *pool_of(size_t block, size_t bytes)
{
    const uint32_t percent[] = {100};
    calm_pool *pool = NULL;
    if (calm_pool_init(&pool, &block, 1, percent, bytes) != 0)
        client_fail("no pool");
    return pool;
}

static void start(void)
{
    memset(&server, 0, sizeof server);
    memset(cores, 0, sizeof cores);
    memset(buckets, 0, sizeof buckets);
    memset(inboxes, 0, sizeof inboxes);
    memset(streams, 0, sizeof streams);
    stream_count = 0;
    server.options = (struct options){.cores = CORES,
                                      .connections = PLACES,
                                      .message_bytes = MESSAGE_BYTES,
                                      .request_s = 3600,
                                      .send_s = 3600};
    server.loop = &loop_of_streams;
    server.cores = cores;
    size_t place = (connection_bytes(&server.options) + 63) / 64 * 64;
    for (uint32_t i = 0; i < CORES; i++) {
        struct core *core = &cores[i];
        *core = (struct core){.server = &server, .number = i, .is_open = true};
        core->is_listening = true;
        core->deadline_ns = UINT64_MAX;
        core->buffers = pool_of(place, (PLACES + 1) * place + 4096);
        core->shard.host = (struct shard_host){connection_resume, stop, info, &server};
        core->shard.core = i;
        core->shard.cores = CORES;
        core->shard.message_bytes = MESSAGE_BYTES;
        core->shard.deadline_ns = UINT64_MAX;
        core->shard.queues.buckets = buckets[i];
        core->shard.queues.bucket_mask = BUCKETS - 1;
        core->shard.queues.pool = pool_of(QUEUE_BLOCK_BYTES, POOL_BYTES);
        strcpy(core->shard.job_prefix, "job:1-");
    }
    uint8_t of_keys[CLIENT_KEYS];
    for (unsigned key = 0; key < CLIENT_KEYS; key++) {
        const char *name = client_key(key);
        of_keys[key] = (uint8_t)shard_owner(&cores[0].shard, (struct word){name, strlen(name)});
    }
    clients_start(of_keys);
}

/* --- events --- */

static struct stream *stream_of(unsigned client)
{
    for (int i = stream_count; i-- > 0;)
        if (streams[i].client == client)
            return &streams[i];
    return NULL;
}

static void cut(unsigned client)
{
    struct stream *stream = stream_of(client);
    if (stream != NULL)
        stream->is_cut = clients[client].is_cut = true;
}

static void connect_client(unsigned client, uint32_t core)
{
    if (stream_count == STREAMS)
        return;
    cut(client);
    client_connect(client);
    streams[stream_count] = (struct stream){.core = &cores[core], .client = client};
    connection_accepted(&cores[core], stream_count++);
}

static void pass_time(uint64_t ms)
{
    for (uint32_t i = 0; i < CORES; i++) {
        cores[i].shard.now_ns += ms * MS_NS;
        connections_serve(&cores[i]);
    }
}

/* What there is to carry and to run, in a fixed order, until there is nothing. */
static void settle(void)
{
    bool is_moving = true;
    for (unsigned round = 0; is_moving; round++) {
        is_moving = false;
        if (round == ROUNDS_MAX)
            client_fail("it does not come to rest");
        for (int i = 0; i < stream_count; i++) {
            is_moving |= carry_in(&streams[i], SIZE_MAX);
            is_moving |= carry_out(&streams[i], SIZE_MAX);
        }
        for (uint32_t i = 0; i < CORES; i++)
            while (run_message(i))
                is_moving = true;
        for (uint32_t i = 0; i < CORES; i++) {
            is_moving |= cores[i].first_ready != NULL;
            connections_serve(&cores[i]);
        }
    }
}

static bool are_all_content(void)
{
    for (unsigned i = 0; i < CLIENTS; i++)
        if (stream_of(i) != NULL && !clients[i].is_cut && !client_is_content(i))
            return false;
    return true;
}

/* Everybody is answered; who waits is told that time is over. */
static void answer_all(void)
{
    settle();
    for (unsigned waits = 0; !are_all_content(); waits++) {
        if (waits == LAST_WAITS)
            client_fail("a request has no answer");
        for (uint32_t i = 0; i < CORES; i++)
            shard_sweep(&cores[i].shard, true);
        settle();
    }
}

static void end_server(void)
{
    for (uint32_t i = 0; i < CORES; i++) {
        cores[i].is_closing = true;
        shard_sweep(&cores[i].shard, true);
        connections_end(&cores[i]);
    }
    settle();
    for (unsigned i = 0; i < CLIENTS; i++)
        cut(i);
    settle();
}

static void expect_whole(calm_pool *pool, const char *sentence)
{
    struct calm_pool_stats stats;
    calm_pool_stats_read(pool, &stats);
    if (stats.by_class[0].free_blocks != stats.by_class[0].blocks || stats.misuses != 0)
        client_fail(sentence);
    calm_pool_destroy(pool);
}

/* What is left in the queues is counted in, and goes. */
static void empty_queues(struct core *core)
{
    struct queues *queues = &core->shard.queues;
    char item[MESSAGE_BYTES + REPLY_EXTRA];
    for (size_t bucket = 0; bucket < BUCKETS; bucket++)
        while (queues->buckets[bucket] != NULL) {
            struct queue *queue = queues->buckets[bucket];
            while (queue->count > 0) {
                size_t bytes = queue_oldest_bytes(queue);
                queue_take(queues, queue, item);
                clients_left(queue->key, queue->key_bytes, item, bytes);
            }
            if (queue->first_waiter != NULL)
                client_fail("somebody waits whose connection is gone");
            queue_clear(queues, queue);
            queues_drop_if_idle(queues, queue);
        }
}

static void finish(void)
{
    end_server();
    for (uint32_t i = 0; i < CORES; i++) {
        if (cores[i].first != NULL || cores[i].first_ready != NULL)
            client_fail("a connection stays");
        empty_queues(&cores[i]);
        if (atomic_load(&cores[i].clients) != 0)
            client_fail("connections are counted that are not there");
        expect_whole(cores[i].shard.queues.pool, "blocks of queues are lost");
        expect_whole(cores[i].buffers, "a connection's block is lost");
    }
    if (atomic_load(&server.clients) != 0)
        client_fail("clients are counted that are not there");
}

/* One event; false: the server ends at once. */
static bool happen(uint8_t what, uint8_t more)
{
    unsigned client = more % CLIENTS;
    struct stream *stream = stream_of(client);
    size_t most = (size_t)more / CLIENTS * (size_t)more / CLIENTS + 1;
    switch (what) {
    case 0: connect_client(client, more / CLIENTS % CORES); break;
    case 2: settle(); break;
    case 3: return stream == NULL || carry_in(stream, most) || true;
    case 4: return stream == NULL || carry_out(stream, most) || true;
    case 5: run_message(more % CORES); break;
    case 6: cut(client); break;
    case 7: inboxes[more % CORES].says_full = true; break;
    case 8: pass_time((uint64_t)more * 10); break;
    case 9: shard_sweep(&cores[more % CORES].shard, false); break;
    case 10: return more % CLIENTS != 0;
    default:
        if (stream != NULL && !clients[client].is_cut)
            client_ask(client, what, more / CLIENTS);
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool is_on = true;
    start();
    for (size_t at = 0; at + 1 < size && is_on; at += 2)
        is_on = happen(data[at] % 48, data[at + 1]);
    if (is_on)
        answer_all();
    finish();
    if (is_on)
        clients_check_items();
    return 0;
}
