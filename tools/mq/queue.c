/*
 * queue.c: queues as streams through segments.
 *
 * Q1: spare == bytes behind write_at in the newest segment plus those of the segments after it.
 * Q2: an empty queue has at most one segment, and reads where it writes.
 */
#include "queue.h"

#include <string.h>

enum { LENGTH_BYTES_MAX = 4, LENGTH_SHIFT = 7, LENGTH_MORE = 0x80 };

/* --- keys --- */

static uint64_t mix(uint64_t a, uint64_t b)
{
    __extension__ unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t queue_hash(uint64_t seed, struct word key)
{
    uint64_t hash = seed ^ (key.bytes * 0x9E3779B97F4A7C15u);
    for (size_t at = 0; at < key.bytes; at += sizeof(uint64_t)) {
        uint64_t part = 0;
        size_t left = key.bytes - at;
        memcpy(&part, key.start + at, left < sizeof part ? left : sizeof part);
        hash = mix(hash ^ part, seed | 1) + part;
    }
    return mix(hash ^ (hash >> 32), 0xD6E8FEB86659FD93u);
}

struct queue *queues_find(const struct queues *queues, uint64_t hash, struct word key)
{
    struct queue *queue = queues->buckets[hash & queues->bucket_mask];
    while (queue != NULL && (queue->hash != hash || queue->key_bytes != key.bytes ||
                             memcmp(queue->key, key.start, key.bytes) != 0))
        queue = queue->next;
    return queue;
}

struct queue *queues_get(struct queues *queues, uint64_t hash, struct word key)
{
    struct queue *queue = queues_find(queues, hash, key);
    if (queue != NULL || (queue = calm_pool_alloc(queues->pool, sizeof *queue)) == NULL)
        return queue;
    struct queue **bucket = &queues->buckets[hash & queues->bucket_mask];
    memset(queue, 0, offsetof(struct queue, key));
    queue->next = *bucket;
    queue->hash = hash;
    queue->key_bytes = (uint32_t)key.bytes;
    memcpy(queue->key, key.start, key.bytes);
    *bucket = queue;
    queues->keys++;
    return queue;
}

static void free_chain(struct queues *queues, struct segment *segment)
{
    while (segment != NULL) {
        struct segment *newer = segment->newer;
        calm_pool_free(queues->pool, segment);
        segment = newer;
    }
}

void queues_drop_if_idle(struct queues *queues, struct queue *queue)
{
    if (queue->count > 0 || queue->first_waiter != NULL || queue->is_open_job)
        return;
    struct queue **at = &queues->buckets[queue->hash & queues->bucket_mask];
    while (*at != queue)
        at = &(*at)->next;
    *at = queue->next;
    free_chain(queues, queue->oldest);
    calm_pool_free(queues->pool, queue);
    queues->keys--;
}

/* --- items --- */

size_t queue_item_bytes(size_t bytes)
{
    size_t length_bytes = 1;
    for (size_t left = bytes >> LENGTH_SHIFT; left > 0; left >>= LENGTH_SHIFT)
        length_bytes++;
    return length_bytes + bytes;
}

/* Links a chain behind the newest segment. */
static void link_chain(struct queue *queue, struct segment *chain, size_t bytes)
{
    if (queue->newest == NULL)
        queue->oldest = queue->newest = chain;
    else
        queue->newest->newer = chain;
    queue->spare += bytes;
}

bool queue_reserve(struct queues *queues, struct queue *queue, size_t bytes)
{
    struct segment *chain = NULL, *last = NULL;
    size_t more = 0;
    while (queue->spare + more < bytes) {
        struct segment *segment = calm_pool_alloc(queues->pool, sizeof *segment);
        if (segment == NULL) {
            free_chain(queues, chain);
            return false;
        }
        segment->newer = NULL;
        if (last == NULL)
            chain = segment;
        else
            last->newer = segment;
        last = segment;
        more += QUEUE_SEGMENT_BYTES;
    }
    if (chain != NULL)
        link_chain(queue, chain, more);
    return true;
}

static void put_bytes(struct queue *queue, const char *from, size_t bytes)
{
    queue->spare -= bytes;
    while (bytes > 0) {
        if (queue->write_at == QUEUE_SEGMENT_BYTES) {
            queue->newest = queue->newest->newer;
            queue->write_at = 0;
        }
        size_t room = QUEUE_SEGMENT_BYTES - queue->write_at;
        size_t part = bytes < room ? bytes : room;
        memcpy(queue->newest->bytes + queue->write_at, from, part);
        queue->write_at += (uint32_t)part;
        from += part;
        bytes -= part;
    }
}

void queue_put(struct queues *queues, struct queue *queue, struct word head, struct word body)
{
    char length[LENGTH_BYTES_MAX];
    size_t length_bytes = 0, left = head.bytes + body.bytes;
    for (; left >= LENGTH_MORE; left >>= LENGTH_SHIFT)
        length[length_bytes++] = (char)((left & (LENGTH_MORE - 1)) | LENGTH_MORE);
    length[length_bytes++] = (char)left;
    put_bytes(queue, length, length_bytes);
    put_bytes(queue, head.start, head.bytes);
    put_bytes(queue, body.start, body.bytes);
    queue->count++;
    queues->items++;
}

/* A place in a queue's stream. */
struct place {
    const struct segment *segment;
    uint32_t at;
};

/* The bytes that lie together at a place, at most `most`; the place moves behind them. */
static struct word next_piece(struct place *place, size_t most)
{
    if (place->at == QUEUE_SEGMENT_BYTES)
        *place = (struct place){place->segment->newer, 0};
    size_t room = QUEUE_SEGMENT_BYTES - place->at;
    struct word piece = {place->segment->bytes + place->at, most < room ? most : room};
    place->at += (uint32_t)piece.bytes;
    return piece;
}

static size_t read_length(struct place *place)
{
    size_t length = 0;
    for (unsigned shift = 0;; shift += LENGTH_SHIFT) {
        unsigned char byte = (unsigned char)*next_piece(place, 1).start;
        length |= (size_t)(byte & (LENGTH_MORE - 1)) << shift;
        if ((byte & LENGTH_MORE) == 0)
            return length;
    }
}

size_t queue_oldest_bytes(const struct queue *queue)
{
    struct place place = {queue->oldest, queue->read_at};
    return read_length(&place);
}

/* Frees the segments before a place, and reads on from there. */
static void move_on(struct queues *queues, struct queue *queue, const struct place *place)
{
    while (queue->oldest != place->segment) {
        struct segment *read = queue->oldest;
        queue->oldest = read->newer;
        calm_pool_free(queues->pool, read);
    }
    queue->read_at = place->at;
    if (queue->count > 0)
        return;
    queue->spare += queue->write_at; /* Q2: the segment begins anew */
    queue->read_at = queue->write_at = 0;
}

void queue_take(struct queues *queues, struct queue *queue, char *to)
{
    struct place place = {queue->oldest, queue->read_at};
    for (size_t left = read_length(&place); left > 0;) {
        struct word piece = next_piece(&place, left);
        memcpy(to, piece.start, piece.bytes);
        to += piece.bytes;
        left -= piece.bytes;
    }
    queue->count--;
    queues->items--;
    move_on(queues, queue, &place);
}

void queue_walk(const struct queue *queue,
                void (*each)(void *context, const char *piece, size_t bytes, size_t left),
                void *context)
{
    struct place place = {queue->oldest, queue->read_at};
    for (uint64_t item = 0; item < queue->count; item++) {
        size_t left = read_length(&place);
        if (left == 0)
            each(context, "", 0, 0);
        while (left > 0) {
            struct word piece = next_piece(&place, left);
            each(context, piece.start, piece.bytes, left);
            left -= piece.bytes;
        }
    }
}

void queue_clear(struct queues *queues, struct queue *queue)
{
    queues->items -= queue->count;
    queue->count = 0;
    queue_close_job(queues, queue);
    free_chain(queues, queue->oldest);
    queue->oldest = queue->newest = NULL;
    queue->spare = 0;
    queue->read_at = queue->write_at = 0;
}

/* --- jobs --- */

void queue_open_job(struct queues *queues, struct queue *queue)
{
    queues->open_jobs += !queue->is_open_job;
    queue->is_open_job = true;
}

void queue_close_job(struct queues *queues, struct queue *queue)
{
    queues->open_jobs -= queue->is_open_job;
    queue->is_open_job = false;
}
