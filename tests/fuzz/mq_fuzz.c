/*
 * mq_fuzz.c: any bytes as what a client of calmq sends, in any pieces: nothing is read outside of
 * them, what was put is accounted for, replies fit, and a request means the same whether it came
 * whole or in parts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"
#include "target.h"

enum {
    MESSAGE = 16 << 10,
    REPLY = MESSAGE + 2 * REPLY_EXTRA,
    BUCKETS = 4,
    POOL = 32 << 10,
    JOB_BLOCKS_MAX = 40
};

#define INPUT(words) {words, sizeof words - 1}
const struct fuzz_input fuzz_corpus[] = {
    INPUT("*3\r\n$5\r\nLPUSH\r\n$1\r\na\r\n$3\r\nxyz\r\n*2\r\n$4\r\nRPOP\r\n$1\r\na\r\n"),
    INPUT("LPUSH a 1 2 3\r\nLLEN a\r\nDEL a b c\r\nBRPOP a 0\r\nPING\r\n"),
    INPUT("SUBMIT job:000-q payload\r\nBRPOP job:000-q 1\r\nRESULT job:000-1-0 done\r\nRESULT "
          "job:000-1-0\r\nRPOP job:000-1-0\r\nRPOP job:000-q\r\nBRPOP none 1\r\n"),
    INPUT("*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\nINFO\r\nCONFIG GET "
          "save\r\nQUIT\r\n"),
    INPUT("*0\r\n*-1\r\n\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\nHELLO 3\r\nCLIENT SETINFO a "
          "b\r\nSHUTDOWN\r\n"),
    INPUT("*3\r\n$5\r\nLPUSH\r\n$1\r\na\r\n$16000\r\n"),
    INPUT(
        "BRPOP {k}1 {k}2 {k}1 0\r\nLPUSH {k}2 x\r\nBRPOP {k}1 {k}2 5\r\nBRPOP a b c d e f g h i j "
        "k l m n o p 1\r\n"),
    INPUT("LPUSH \"a b\" 'c\\'d' \"\\x41\\n\\\"\" x\"y\"\r\nECHO \"open\r\n"),
    INPUT("HELLO 2\r\nCOMMAND COUNT\r\nCLIENT GETNAME\r\nAUTH a\r\nRESET\r\nBRPOP a\r\n"),
    INPUT("LPUSH a 1\r\n*1025\r\n$99999\r\n"),
    INPUT("RPUSH a 1 2 3\r\nLMOVE a b LEFT RIGHT\r\nLMOVE a a RIGHT LEFT\r\nLRANGE a 0 -1\r\n"
          "LPOP a 2\r\nRPOP b 9\r\nBLPOP a b 0.1\r\nBLMOVE b a RIGHT LEFT 1\r\nLPUSH b x\r\n"),
    INPUT("SUBMIT job:000-q a\r\nSUBMIT job:000-q b\r\nLMOVE job:000-q m RIGHT LEFT\r\nLMOVE m "
          "job:000-q LEFT RIGHT\r\nLMOVE job:000-q m LEFT LEFT\r\nBRPOP job:000-q 1\r\nBLMOVE "
          "none m LEFT LEFT 1\r\nDEL m\r\nRPOP job:000-q 9\r\nBLPOP job:000-q 1\r\nRESULT "
          "job:000-1-0 x\r\nDEL job:000-q\r\nRPOP job:000-q\r\n"),
    INPUT("HELLO 3 AUTH default x SETNAME me\r\nCLIENT LIST\r\nCLIENT INFO\r\nCLIENT ID\r\nRPOP "
          "a\r\nRPOP a 1\r\nINFO\r\nEXISTS a b\r\nTYPE a\r\nCLIENT LIST ID 7\r\n"),
};
const size_t fuzz_corpus_count = sizeof fuzz_corpus / sizeof fuzz_corpus[0];

static bool is_resumed;

static void fail(const char *sentence)
{
    fprintf(stderr, "mq: %s\n", sentence);
    abort();
}

static void resume(struct shard *shard, struct session *session)
{
    (void)shard;
    (void)session;
    is_resumed = true;
}

static void stop(void *context)
{
    ((struct shard *)context)->is_stopping = true;
}

static size_t info(void *context, char *to, size_t bytes)
{
    (void)context;
    return (size_t)snprintf(to, bytes, "a:1\r\n");
}

static struct session *only_client;

static struct session *next_client(struct shard *shard, struct session *session)
{
    (void)shard;
    return session == NULL ? only_client : NULL;
}

static size_t describe(struct shard *shard, struct session *session, char line[REPLY_SMALL])
{
    (void)shard;
    return (size_t)snprintf(line, REPLY_SMALL, "name=%s\n", session->names[CLIENT_NAME]);
}

static void start(struct shard *shard, struct queue **buckets)
{
    static char payload[MESSAGE];
    static const size_t block_bytes[] = {QUEUE_BLOCK_BYTES};
    static const uint32_t percent[] = {100};
    static struct waiter *rows[BUCKETS];
    static struct session *heap[1];
    memset(shard, 0, sizeof *shard);
    shard->host = (struct shard_host){resume, stop, info, next_client, describe, shard};
    shard->cores = 1;
    shard->message_bytes = MESSAGE;
    shard->queues.buckets = buckets;
    shard->queues.bucket_mask = BUCKETS - 1;
    memset(rows, 0, sizeof rows);
    shard->rows = rows;
    shard->row_mask = BUCKETS - 1;
    shard->heap = heap;
    shard->job_blocks_max = JOB_BLOCKS_MAX;
    shard->payload = payload;
    strcpy(shard->job_run, "1-");
    if (calm_pool_init(&shard->queues.pool, block_bytes, 1, percent, POOL) != 0)
        fail("no pool");
}

/* Runs what is there; true: the client says no more. What it sees is summed up. */
static bool run(struct shard *shard, struct session *session, uint64_t *sum)
{
    for (;;) {
        enum session_result result = session_run(shard, session);
        if (session->reply_bytes > session->reply_capacity ||
            session->consumed > session->input_bytes)
            fail("more was written or read than there is");
        if (result == SESSION_AWAY)
            fail("one core sends a request to another");
        if (result == SESSION_WAITS) { /* time is over at once, that of taken jobs too */
            is_resumed = false;
            shard_redeliver(shard);
            shard_sweep(shard, true);
            if (!is_resumed || session->waiting > 0)
                fail("a wait did not end");
        }
        if (result == SESSION_FLUSH && session->reply_bytes == 0)
            fail("a reply does not fit into an empty buffer");
        for (size_t i = 0; i < session->reply_bytes; i++)
            *sum = (*sum + (unsigned char)session->reply[i]) * 31;
        session->reply_bytes = 0;
        if (result == SESSION_MORE || result == SESSION_CLOSE)
            return result == SESSION_CLOSE;
    }
}

/* All queues are emptied by the front door; then the pool must be whole again. */
static void check_whole(struct shard *shard)
{
    struct queues *queues = &shard->queues;
    uint64_t items = 0;
    for (size_t bucket = 0; bucket < BUCKETS; bucket++)
        while (queues->buckets[bucket] != NULL) {
            struct queue *queue = queues->buckets[bucket];
            items += queue->count;
            queue_clear(queues, queue);
            queues_drop_if_idle(queues, queue);
        }
    struct calm_pool_stats stats;
    calm_pool_stats_read(queues->pool, &stats);
    if (items != shard->items || queues->items != 0 || queues->keys != 0 || queues->open_jobs != 0)
        fail("counts are wrong");
    if (stats.by_class[0].free_blocks != stats.by_class[0].blocks || stats.misuses != 0)
        fail("blocks are lost");
}

/* What a client sees that sends `size` bytes in pieces of at most `most`. */
static uint64_t serve(const uint8_t *data, size_t size, size_t most)
{
    static struct shard shard;
    struct queue *buckets[BUCKETS] = {NULL};
    uint64_t sum = 0;
    bool is_over = false;
    start(&shard, buckets);
    char *reply = malloc(REPLY);
    struct session session = {.reply = reply, .reply_capacity = REPLY};
    only_client = &session;
    for (size_t end = 0; end < size && !is_over;) {
        end = size - end < most ? size : end + most;
        session.input = malloc(end); /* of exactly its size, so that a step too far is seen */
        memcpy(session.input, data, end);
        session.input_bytes = end;
        is_over = run(&shard, &session, &sum);
        free(session.input);
    }
    check_whole(&shard);
    calm_pool_destroy(shard.queues.pool);
    free(reply);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t piece = size > 0 ? (size_t)data[size - 1] % 64 + 1 : 1;
    if (serve(data, size, size + 1) != serve(data, size, piece))
        fail("requests in pieces are answered in another way");
    return 0;
}
