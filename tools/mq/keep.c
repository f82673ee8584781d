/*
 * keep.c: queues in a file, from a stop to the next start.
 *
 * The file is a line that says what it is, then each queue: whether it is an open job, the bytes of
 * its key, the count of its items, the key, and each item as its length and its bytes; then a
 * record without key that holds the count of queues. Numbers are little words of the machine. It is
 * written beside its place and moved there when it is whole and on the disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server.h"

static const char mark[16] = "calmq queues 1\n";

struct record {
    uint32_t is_open_job;
    uint32_t key_bytes; /* 0: the end; `count` is of queues then */
    uint64_t count;
};

/* --- writing --- */

struct writer {
    int fd;
    int error;
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

static void put_queue(struct writer *writer, const struct queue *queue)
{
    struct record record = {queue->is_open_job, queue->key_bytes, queue->count};
    struct item_writer item = {writer, 0};
    put(writer, &record, sizeof record);
    put(writer, queue->key, queue->key_bytes);
    queue_walk(queue, put_piece, &item);
}

static void put_all(struct writer *writer, const struct server *server)
{
    struct record end = {0, 0, 0};
    put(writer, mark, sizeof mark);
    for (uint32_t core = 0; core < server->options.cores; core++) {
        const struct queues *queues = &server->cores[core].shard.queues;
        for (uint64_t bucket = 0; bucket <= queues->bucket_mask; bucket++)
            for (const struct queue *queue = queues->buckets[bucket]; queue != NULL;
                 queue = queue->next, end.count++)
                put_queue(writer, queue);
    }
    put(writer, &end, sizeof end);
    flush(writer);
}

/* A rename is on the disk when its folder is. */
static int sync_folder(const char *path)
{
    char folder[PATH_MAX];
    const char *name = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", name == NULL ? 1 : (int)(name - path) + 1,
             name == NULL ? "." : path);
    int fd = open(folder, O_RDONLY | O_CLOEXEC);
    int error = fd < 0 || fsync(fd) != 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    return error;
}

bool keep_write(const struct server *server, const char *path)
{
    static struct writer writer;
    char beside[PATH_MAX];
    snprintf(beside, sizeof beside, "%s.new", path);
    writer = (struct writer){.fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)};
    if (writer.fd < 0)
        return false;
    put_all(&writer, server);
    if (writer.error == 0 && fsync(writer.fd) != 0)
        writer.error = errno;
    close(writer.fd);
    if (writer.error == 0 && rename(beside, path) != 0)
        writer.error = errno;
    if (writer.error == 0)
        writer.error = sync_folder(path);
    errno = writer.error;
    return writer.error == 0;
}

/* --- reading --- */

/* The file, and what became of it; each core reads all of it and takes what is its own. */
struct reader {
    const char *start, *end;
    const char *_Atomic wrong;
};

static bool get(const char **at, const char *end, void *to, size_t bytes)
{
    if ((size_t)(end - *at) < bytes)
        return false;
    memcpy(to, *at, bytes);
    *at += bytes;
    return true;
}

/* Reads one item; it goes into the queue, if there is one. */
static const char *read_item(struct shard *shard, struct queue *queue, const char **at,
                             const char *end)
{
    uint32_t bytes;
    if (!get(at, end, &bytes, sizeof bytes) || (size_t)(end - *at) < bytes)
        return "it is cut off";
    if (bytes > shard->message_bytes + REPLY_SMALL)
        return "an item is longer than --message allows";
    struct word head = {"", 0}, body = {*at, bytes};
    *at += bytes;
    if (queue == NULL)
        return NULL;
    if (!queue_reserve(&shard->queues, queue, QUEUE_NEWEST, queue_item_bytes(bytes)))
        return "it does not fit; start with more --memory";
    queue_put(&shard->queues, queue, QUEUE_NEWEST, head, body);
    return NULL;
}

static const char *read_queue(struct shard *shard, const struct record *record, const char **at,
                              const char *end)
{
    struct word key = {*at, record->key_bytes};
    if (record->key_bytes > QUEUE_KEY_MAX || (size_t)(end - *at) < record->key_bytes ||
        record->is_open_job > 1)
        return "it is damaged";
    *at += record->key_bytes;
    uint64_t hash = queue_hash(shard->queues.seed, key);
    bool is_ours = shard_owner(shard, key) == shard->core;
    struct queue *queue = is_ours ? queues_get(&shard->queues, hash, key) : NULL;
    if (is_ours && queue == NULL)
        return "it does not fit; start with more --memory";
    if (is_ours && record->is_open_job)
        queue_open_job(&shard->queues, queue);
    const char *wrong = NULL;
    for (uint64_t item = 0; item < record->count && wrong == NULL; item++)
        wrong = read_item(shard, queue, at, end);
    if (queue != NULL)
        queues_drop_if_idle(&shard->queues, queue);
    return wrong;
}

static const char *read_all(struct shard *shard, const char *at, const char *end)
{
    const char *wrong = NULL;
    struct record record;
    char found[sizeof mark];
    if (!get(&at, end, found, sizeof found) || memcmp(found, mark, sizeof mark) != 0)
        return "it is none of calmq's";
    for (uint64_t queues = 0; wrong == NULL; queues++) {
        if (!get(&at, end, &record, sizeof record))
            return "it is cut off";
        if (record.key_bytes == 0)
            return record.count == queues && at == end ? NULL : "it is damaged";
        wrong = read_queue(shard, &record, &at, end);
    }
    return wrong;
}

struct reading {
    struct reader *reader;
    struct core *core;
};

static void read_share(calm_worker *worker, void *payload)
{
    struct reading *reading = payload;
    struct reader *reader = reading->reader;
    (void)worker;
    const char *wrong = read_all(&reading->core->shard, reader->start, reader->end);
    if (wrong != NULL)
        atomic_store(&reader->wrong, wrong);
}

static const char *read_mapped(struct server *server, const char *start, size_t bytes)
{
    struct reader reader = {.start = start, .end = start + bytes};
    for (uint32_t core = 0; core < server->options.cores; core++) {
        struct reading reading = {&reader, &server->cores[core]};
        struct calm_task task = {
            .function = read_share, .payload = &reading, .payload_bytes = sizeof reading};
        calm_exec_send(server->exec, core, &task);
    }
    calm_exec_drain(server->exec);
    return atomic_load(&reader.wrong);
}

/* Whether the file could be written now: who asks for it is to know before there is a queue. */
static bool can_write(const char *path)
{
    char beside[PATH_MAX];
    bool is_short = (size_t)snprintf(beside, sizeof beside, "%s.new", path) < sizeof beside;
    errno = ENAMETOOLONG;
    int fd = is_short ? open(beside, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0) {
        fprintf(stderr,
                "calmq: cannot write %s: %s; --keep takes a file in a folder that can be written "
                "to.\n",
                path, strerror(errno));
        return false;
    }
    close(fd);
    unlink(beside);
    return true;
}

bool keep_read(struct server *server, const char *path)
{
    struct stat facts;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return can_write(path);
    void *start = MAP_FAILED;
    if (fd >= 0 && fstat(fd, &facts) == 0 && facts.st_size > 0)
        start = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    const char *wrong = "it cannot be read";
    if (start != MAP_FAILED) {
        wrong = read_mapped(server, start, (size_t)facts.st_size);
        munmap(start, (size_t)facts.st_size);
    }
    if (fd >= 0)
        close(fd);
    if (wrong == NULL && unlink(path) != 0)
        wrong = "it cannot be removed, so that it would be read again";
    if (wrong != NULL)
        fprintf(stderr, "calmq: %s stays as it is: %s.\n", path, wrong);
    return wrong == NULL;
}
