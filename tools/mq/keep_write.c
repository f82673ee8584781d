/*
 * keep_write.c: queues to bytes of a file.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "crc32c.h"
#include "jobs.h"
#include "server.h"

struct writer {
    int fd;
    int error;
    uint32_t crc; /* of all that was put */
    size_t length;
    char bytes[1 << 16];
};

static void flush(struct writer *writer)
{
    for (size_t done = 0; done < writer->length && writer->error == 0;) {
        ssize_t count = write(writer->fd, writer->bytes + done, writer->length - done);
        if (count < 0 && errno != EINTR)
            writer->error = errno;
        done += count > 0 ? (size_t)count : 0;
    }
    writer->length = 0;
}

static void put(struct writer *writer, const void *from, size_t bytes)
{
    const char *at = from;
    writer->crc = crc32c(writer->crc, from, bytes);
    while (bytes > 0) {
        size_t room = sizeof writer->bytes - writer->length;
        size_t part = bytes < room ? bytes : room;
        memcpy(writer->bytes + writer->length, at, part);
        writer->length += part;
        at += part;
        bytes -= part;
        if (writer->length == sizeof writer->bytes)
            flush(writer);
    }
}

/* It is no part of later sums: behind its own checksum every message has the same one. */
static void put_crc(struct writer *writer)
{
    uint32_t crc = writer->crc;
    put(writer, &crc, sizeof crc);
    writer->crc = crc;
}

/* A piece of an item; at its first, what is left of it is its length. */
struct item_writer {
    struct writer *writer;
    size_t left;
};

static void put_piece(void *context, const char *piece, size_t bytes, size_t left)
{
    struct item_writer *item = context;
    uint32_t length = (uint32_t)left;
    if (item->left == 0)
        put(item->writer, &length, sizeof length);
    put(item->writer, piece, bytes);
    item->left = left - bytes;
}

static void put_queue(struct writer *writer, const struct shard *shard, const struct queue *queue)
{
    const struct job *job = queue->job;
    struct keep_record record = {
        .kind = KEEP_QUEUE, .key_bytes = queue->key_bytes, .count = queue->count};
    struct item_writer item = {writer, 0};
    if (job != NULL) {
        record.job = job->is_taken ? KEEP_JOB_TAKEN : KEEP_JOB_WAITS;
        record.job_key_bytes = job->key_bytes;
        record.payload_bytes = job->payload_bytes;
    }
    put(writer, &record, sizeof record);
    put(writer, queue->key, queue->key_bytes);
    if (job != NULL) {
        put(writer, job_key(job).start, job->key_bytes);
        job_copy(job, shard->payload);
        put(writer, shard->payload, job->payload_bytes);
    }
    queue_walk(queue, put_piece, &item);
    put_crc(writer);
}

static uint64_t put_shard(struct writer *writer, const struct shard *shard)
{
    const struct queues *queues = &shard->queues;
    uint64_t count = 0;
    for (uint64_t bucket = 0; bucket <= queues->bucket_mask; bucket++)
        for (const struct queue *queue = queues->buckets[bucket]; queue != NULL;
             queue = queue->next, count++)
            put_queue(writer, shard, queue);
    return count;
}

int keep_write_queues(int fd, const struct server *server)
{
    static struct writer writer;
    const struct options *options = &server->options;
    struct keep_header header = {.mark = KEEP_MARK,
                                 .seed = server->keep.header.seed,
                                 .memory_bytes = options->memory_bytes,
                                 .cores = options->cores,
                                 .message_bytes = (uint32_t)options->message_bytes,
                                 .redeliver_s = options->redeliver_s};
    struct keep_record end = {.kind = KEEP_END};
    writer = (struct writer){.fd = fd};
    put(&writer, &header, sizeof header);
    put_crc(&writer);
    for (uint32_t core = 0; core < options->cores; core++)
        end.count += put_shard(&writer, &server->cores[core].shard);
    put(&writer, &end, sizeof end);
    put_crc(&writer);
    flush(&writer);
    return writer.error;
}
