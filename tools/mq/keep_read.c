/*
 * keep_read.c: a file that is whole to queues: each core goes through it and takes its own.
 *
 * Owner: the main thread; fill_share its core.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "jobs.h"
#include "server.h"

enum { KIB = 1024, GROW_BYTES = 4096 };

/* --- whether it fits --- */

/* A queue that is filled anew begins with a segment: in as many as any queue of these items. */
static uint64_t blocks_of(const struct keep_entry *entry)
{
    uint64_t segments = (entry->stream_bytes + QUEUE_SEGMENT_BYTES - 1) / QUEUE_SEGMENT_BYTES;
    if (entry->record.job == KEEP_NO_JOB)
        return 1 + segments;
    return segments + job_blocks(entry->job_key.bytes, entry->payload.bytes);
}

/* --memory with which each core has so many blocks, in KiB. */
static uint64_t memory_kib(uint64_t blocks, uint32_t cores)
{
    size_t bytes = (blocks + 1) * QUEUE_BLOCK_BYTES;
    while (blocks_in(bytes) < blocks)
        bytes += GROW_BYTES;
    return (bytes * cores + KIB - 1) / KIB;
}

bool keep_fits(const struct keep *keep, const struct server *server, char *why, size_t why_bytes)
{
    static struct shard shard; /* for the share of each core */
    const struct options *options = &server->options;
    const struct keep_header *header = &keep->header;
    uint64_t blocks[LOOPS_MAX] = {0}, most = 0;
    size_t longest = 0;
    struct keep_cursor cursor = keep_begin(keep->start, keep->bytes);
    struct keep_entry entry;
    shard.queues.seed = header->seed;
    shard.cores = options->cores;
    while (keep_next(&cursor, &entry)) {
        uint64_t *here = &blocks[shard_owner(&shard, entry.key)];
        *here += blocks_of(&entry);
        most = *here > most ? *here : most;
        longest = entry.longest > longest ? entry.longest : longest;
    }
    if (longest > options->message_bytes + REPLY_SMALL) {
        snprintf(why, why_bytes, "it has an item of %zu bytes; start with --message %uK", longest,
                 header->message_bytes / KIB);
        return false;
    }
    if (most <= blocks_in(options->memory_bytes / options->cores))
        return true;
    snprintf(why, why_bytes,
             "it does not fit; start with more --memory, %lluK for %u cores; or as it was written, "
             "with --cores %u --memory %lluK",
             (unsigned long long)memory_kib(most, options->cores), options->cores, header->cores,
             (unsigned long long)(header->memory_bytes + KIB - 1) / KIB);
    return false;
}

/* --- into the queues --- */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* A job that was taken is given the whole time again. */
static bool fill_queue(struct shard *shard, const struct keep_entry *entry, uint64_t due_ns)
{
    struct queues *queues = &shard->queues;
    struct keep_cursor items = keep_items(entry);
    struct word item, head = {"", 0};
    struct queue *queue = queues_get(queues, queue_hash(queues->seed, entry->key), entry->key);
    if (queue == NULL || !queue_reserve(queues, queue, QUEUE_NEWEST, entry->stream_bytes))
        return false;
    while (keep_next_item(&items, &item))
        queue_put(queues, queue, QUEUE_NEWEST, head, item);
    if (entry->record.job != KEEP_NO_JOB) {
        if (!job_open(queues, queue, entry->job_key, entry->payload))
            return false;
        if (entry->record.job == KEEP_JOB_TAKEN)
            job_take(queues, queue, due_ns);
    }
    queues_drop_if_idle(queues, queue);
    return true;
}

struct share {
    struct core *core;
    _Atomic bool *has_failed;
};

static void fill_share(calm_worker *worker, void *payload)
{
    struct share *share = payload;
    struct shard *shard = &share->core->shard;
    const struct keep *keep = &share->core->server->keep;
    struct keep_cursor cursor = keep_begin(keep->start, keep->bytes);
    struct keep_entry entry;
    uint64_t due_ns = now_ns() + shard->redeliver_ns;
    (void)worker;
    while (keep_next(&cursor, &entry))
        if (shard_owner(shard, entry.key) == shard->core && !fill_queue(shard, &entry, due_ns))
            atomic_store(share->has_failed, true);
    shard_publish(shard);
}

bool keep_fill(struct server *server)
{
    _Atomic bool has_failed = false;
    for (uint32_t core = 0; core < server->options.cores && server->keep.start != NULL; core++) {
        struct share share = {&server->cores[core], &has_failed};
        struct calm_task task = {
            .function = fill_share, .payload = &share, .payload_bytes = sizeof share};
        calm_exec_send(server->exec, core, &task);
    }
    calm_exec_drain(server->exec);
    if (has_failed)
        fprintf(stderr, "calmq: %s stays as it is: it does not fit; start with more --memory.\n",
                server->keep.path);
    keep_unmap(&server->keep);
    return !has_failed;
}
