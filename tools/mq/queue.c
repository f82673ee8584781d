/*
 * queue.c: queues as streams through segments.
 *
 * Q1: no segment lies beyond an end, but between queue_reserve() and the puts it was called for.
 * Q2: an empty queue has at most one segment.
 */
#include "queue.h"

#include "jobs.h"

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

/* Frees a segment and all that follow it towards an end. */
static void free_chain(struct queues *queues, struct segment *segment, enum queue_end end)
{
    while (segment != NULL) {
        struct segment *next = segment->next[end];
        calm_pool_free(queues->pool, segment);
        segment = next;
    }
}

void queues_drop_if_idle(struct queues *queues, struct queue *queue)
{
    if (queue->count > 0 || queue->job != NULL)
        return;
    struct queue **at = &queues->buckets[queue->hash & queues->bucket_mask];
    while (*at != queue)
        at = &(*at)->next;
    *at = queue->next;
    free_chain(queues, queue->ends[QUEUE_OLDEST].segment, QUEUE_NEWEST);
    calm_pool_free(queues->pool, queue);
    queues->keys--;
}

/* --- items --- */

static size_t length_bytes(size_t bytes)
{
    size_t count = 1;
    for (size_t left = bytes >> LENGTH_SHIFT; left > 0; left >>= LENGTH_SHIFT)
        count++;
    return count;
}

size_t queue_item_bytes(size_t bytes)
{
    return length_bytes(bytes) * 2 + bytes;
}

/* Where an empty queue begins, so that all of its segment serves the end. */
static struct place first_place(struct segment *segment, enum queue_end end)
{
    return (struct place){segment, end == QUEUE_NEWEST ? 0 : (uint32_t)QUEUE_SEGMENT_BYTES};
}

static size_t room_at(const struct queue *queue, enum queue_end end)
{
    struct place place = queue->ends[end];
    if (place.segment == NULL)
        return 0;
    return end == QUEUE_NEWEST ? QUEUE_SEGMENT_BYTES - place.at : place.at;
}

/* Links a chain beyond an end. */
static void link_chain(struct queue *queue, enum queue_end end, struct segment *chain)
{
    struct segment *edge = queue->ends[end].segment;
    if (edge == NULL) {
        queue->ends[QUEUE_OLDEST] = queue->ends[QUEUE_NEWEST] = first_place(chain, end);
        return;
    }
    chain->next[!end] = edge;
    edge->next[end] = chain;
}

bool queue_reserve(struct queues *queues, struct queue *queue, enum queue_end end, size_t bytes)
{
    struct segment *chain = NULL, *last = NULL;
    if (queue->count == 0)
        queue->ends[QUEUE_OLDEST] = queue->ends[QUEUE_NEWEST] = first_place(
            queue->ends[QUEUE_OLDEST].segment, end);
    for (size_t room = room_at(queue, end); room < bytes; room += QUEUE_SEGMENT_BYTES) {
        struct segment *segment = calm_pool_alloc(queues->pool, sizeof *segment);
        if (segment == NULL) {
            free_chain(queues, chain, end);
            return false;
        }
        segment->next[end] = NULL;
        segment->next[!end] = last;
        *(last == NULL ? &chain : &last->next[end]) = segment;
        last = segment;
    }
    if (chain != NULL)
        link_chain(queue, end, chain);
    return true;
}

/* Moves a place towards the oldest end. */
static void go_back(struct place *place, size_t bytes)
{
    while (bytes > place->at) {
        bytes -= place->at;
        *place = (struct place){place->segment->next[QUEUE_OLDEST], QUEUE_SEGMENT_BYTES};
    }
    place->at -= (uint32_t)bytes;
}

/* The bytes that lie together at a place, at most `most`; the place moves behind them. */
static struct word next_piece(struct place *place, size_t most)
{
    if (place->at == QUEUE_SEGMENT_BYTES)
        *place = (struct place){place->segment->next[QUEUE_NEWEST], 0};
    size_t room = QUEUE_SEGMENT_BYTES - place->at;
    struct word piece = {place->segment->bytes + place->at, most < room ? most : room};
    place->at += (uint32_t)piece.bytes;
    return piece;
}

static void write_bytes(struct place *place, const char *from, size_t bytes)
{
    while (bytes > 0) {
        struct word piece = next_piece(place, bytes);
        size_t at = place->at - piece.bytes;
        memcpy(place->segment->bytes + at, from, piece.bytes);
        from += piece.bytes;
        bytes -= piece.bytes;
    }
}

static void read_bytes(struct place place, char *to, size_t bytes)
{
    while (bytes > 0) {
        struct word piece = next_piece(&place, bytes);
        memcpy(to, piece.start, piece.bytes);
        to += piece.bytes;
        bytes -= piece.bytes;
    }
}

void queue_put(struct queues *queues, struct queue *queue, enum queue_end end, struct word head,
               struct word body)
{
    char length[LENGTH_BYTES_MAX], mirrored[LENGTH_BYTES_MAX];
    size_t bytes = head.bytes + body.bytes, count = length_bytes(bytes), left = bytes;
    for (size_t i = 0; i < count; i++, left >>= LENGTH_SHIFT) {
        length[i] = (char)((left & (LENGTH_MORE - 1)) | (i + 1 < count ? LENGTH_MORE : 0));
        mirrored[count - 1 - i] = length[i];
    }
    struct place place = queue->ends[end];
    if (end == QUEUE_OLDEST) {
        go_back(&place, queue_item_bytes(bytes));
        queue->ends[end] = place;
    }
    write_bytes(&place, length, count);
    write_bytes(&place, head.start, head.bytes);
    write_bytes(&place, body.start, body.bytes);
    write_bytes(&place, mirrored, count);
    if (end == QUEUE_NEWEST)
        queue->ends[end] = place;
    queue->count++;
    queues->items++;
}

static unsigned char next_byte(struct place *place, enum queue_end from)
{
    if (from == QUEUE_OLDEST)
        return (unsigned char)*next_piece(place, 1).start;
    go_back(place, 1);
    return (unsigned char)place->segment->bytes[place->at];
}

static size_t read_length(struct place *place, enum queue_end from)
{
    size_t length = 0;
    for (unsigned shift = 0;; shift += LENGTH_SHIFT) {
        unsigned char byte = next_byte(place, from);
        length |= (size_t)(byte & (LENGTH_MORE - 1)) << shift;
        if ((byte & LENGTH_MORE) == 0)
            return length;
    }
}

static void go_on(struct place *place, size_t bytes)
{
    while (bytes > 0)
        bytes -= next_piece(place, bytes).bytes;
}

/* Passes an item, coming from an end. Returns its length, and where its bytes are. */
static size_t pass_item(struct place *place, enum queue_end from, struct place *body)
{
    size_t bytes = read_length(place, from);
    if (from == QUEUE_OLDEST) {
        *body = *place;
        go_on(place, bytes + length_bytes(bytes));
        return bytes;
    }
    go_back(place, bytes);
    *body = *place;
    go_back(place, length_bytes(bytes));
    return bytes;
}

size_t queue_pass(struct place *place, enum queue_end from)
{
    struct place body;
    return pass_item(place, from, &body);
}

size_t queue_end_bytes(const struct queue *queue, enum queue_end end)
{
    struct place place = queue->ends[end];
    return read_length(&place, end);
}

/* Makes a place the end, and frees the segments beyond it. */
static void move_end(struct queues *queues, struct queue *queue, enum queue_end end,
                     struct place place)
{
    free_chain(queues, place.segment->next[end], end);
    place.segment->next[end] = NULL;
    queue->ends[end] = place;
    if (queue->count > 0)
        return;
    struct segment *left = queue->ends[QUEUE_OLDEST].segment; /* Q2 */
    free_chain(queues, left->next[QUEUE_NEWEST], QUEUE_NEWEST);
    left->next[QUEUE_NEWEST] = NULL;
    queue->ends[QUEUE_OLDEST] = queue->ends[QUEUE_NEWEST] = first_place(left, QUEUE_NEWEST);
}

void queue_take(struct queues *queues, struct queue *queue, enum queue_end end, char *to)
{
    struct place place = queue->ends[end], body;
    size_t bytes = pass_item(&place, end, &body);
    read_bytes(body, to, bytes);
    queue->count--;
    queues->items--;
    move_end(queues, queue, end, place);
}

struct place queue_place(const struct queue *queue, uint64_t index)
{
    bool is_new = index <= queue->count / 2;
    enum queue_end from = is_new ? QUEUE_NEWEST : QUEUE_OLDEST;
    struct place place = queue->ends[from];
    for (uint64_t left = is_new ? index : queue->count - index; left > 0; left--)
        queue_pass(&place, from);
    return place;
}

void queue_read(struct place *place, char *to)
{
    struct place body;
    size_t bytes = pass_item(place, QUEUE_NEWEST, &body);
    read_bytes(body, to, bytes);
}

void queue_walk(const struct queue *queue,
                void (*each)(void *context, const char *piece, size_t bytes, size_t left),
                void *context)
{
    struct place place = queue->ends[QUEUE_OLDEST], body;
    for (uint64_t item = 0; item < queue->count; item++) {
        size_t left = pass_item(&place, QUEUE_OLDEST, &body);
        if (left == 0)
            each(context, "", 0, 0);
        while (left > 0) {
            struct word piece = next_piece(&body, left);
            each(context, piece.start, piece.bytes, left);
            left -= piece.bytes;
        }
    }
}

void queue_clear(struct queues *queues, struct queue *queue)
{
    queues->items -= queue->count;
    queue->count = 0;
    job_close(queues, queue);
    free_chain(queues, queue->ends[QUEUE_OLDEST].segment, QUEUE_NEWEST);
    queue->ends[QUEUE_OLDEST] = queue->ends[QUEUE_NEWEST] = (struct place){NULL, 0};
}
