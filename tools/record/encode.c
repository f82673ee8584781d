/*
 * encode.c: events to bytes, and chunks to the file.
 */
#define _GNU_SOURCE
#include "encode.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { EVENT_BYTES_MAX = 64 };

static void write_all(struct encoder *encoder, const void *bytes, size_t count)
{
    const char *at = bytes;
    while (count > 0 && encoder->trouble == 0) {
        ssize_t done = write(encoder->fd, at, count);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            encoder->trouble = done == 0 ? ENOSPC : errno;
            break;
        }
        at += done;
        count -= (size_t)done;
        encoder->file_bytes += (uint64_t)done;
    }
}

static void write_chunk(struct encoder *encoder, uint32_t kind, const void *bytes, uint32_t count,
                        uint32_t events)
{
    struct chunk_head head = {kind, count, events, chunk_check(bytes, count, kind)};
    write_all(encoder, &head, sizeof head);
    write_all(encoder, bytes, count);
}

bool encode_open(struct encoder *encoder, const char *path, const struct record_head *head)
{
    encoder->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (encoder->fd < 0)
        encoder->trouble = errno;
    else
        write_all(encoder, head, sizeof *head);
    return encoder->trouble == 0;
}

void encode_flush(struct encoder *encoder)
{
    if (encoder->chunk_bytes > 0)
        write_chunk(encoder, CHUNK_EVENTS, encoder->chunk, encoder->chunk_bytes,
                    encoder->chunk_events);
    encoder->chunk_bytes = encoder->chunk_events = 0;
}

static void put_byte(struct encoder *encoder, unsigned byte)
{
    encoder->chunk[encoder->chunk_bytes++] = (unsigned char)byte;
}

static void put_number(struct encoder *encoder, uint64_t number)
{
    for (; number >= 0x80; number >>= 7)
        put_byte(encoder, (unsigned)(number & 0x7f) | 0x80);
    put_byte(encoder, (unsigned)number);
}

static void begin(struct encoder *encoder)
{
    if (encoder->chunk_bytes + EVENT_BYTES_MAX > CHUNK_BYTES_MAX ||
        encoder->chunk_events >= CHUNK_EVENTS_MAX)
        encode_flush(encoder);
}

/* Begins an event of a thread. */
static void begin_of(struct encoder *encoder, uint32_t thread)
{
    begin(encoder);
    encoder->chunk_events++;
    encoder->events++;
    if (encoder->codec.thread == thread)
        return;
    unsigned place = codec_turn_to(&encoder->codec, thread);
    if (place < THREADS_NEAR) {
        put_byte(encoder, OP_THREAD_NEAR + place);
        return;
    }
    put_byte(encoder, OP_THREAD);
    put_number(encoder, thread);
}

static void put_kind(struct encoder *encoder, struct kind kind)
{
    struct codec *codec = &encoder->codec;
    kind.is_used = 1;
    uint64_t hash = kind_hash(&kind);
    unsigned near = kind_near(hash), far = kind_far(hash);
    if (kind_equal(&codec->near[near], &kind)) {
        put_byte(encoder, OP_ALLOC_NEAR + near);
        return;
    }
    codec->near[near] = kind;
    if (kind_equal(&codec->far[far], &kind)) {
        put_byte(encoder, OP_ALLOC_FAR + (far >> 8));
        put_byte(encoder, far & 0xff);
        return;
    }
    codec->far[far] = kind;
    put_byte(encoder, OP_ALLOC_NEW);
    put_byte(encoder, kind.function | (unsigned)kind.align_log2 << 2);
    put_number(encoder, kind.site);
    put_number(encoder, kind.bytes);
}

/* How many blocks ago it was handed out; RECENT: too many, or nobody knows any more. */
static uint32_t how_long_ago(const struct codec *codec, struct block_name block)
{
    uint32_t back = ((uint32_t)codec->handed_out - 1 - block.order) & ORDER_MASK;
    return back < RECENT && codec->recent[block.order % RECENT] == block.slot ? back : RECENT;
}

/* Numbers of blocks inside longer events: even ones count back, odd ones are slots. */
static void put_block(struct encoder *encoder, struct block_name block)
{
    uint64_t back = how_long_ago(&encoder->codec, block);
    put_number(encoder, back < RECENT ? back << 1 : (uint64_t)block.slot << 1 | 1);
}

struct block_name encode_alloc(struct encoder *encoder, uint32_t thread, struct kind kind)
{
    struct block_name block = {0, (uint32_t)encoder->codec.handed_out};
    begin_of(encoder, thread);
    put_kind(encoder, kind);
    if (!codec_take_slot(&encoder->codec, &block.slot))
        encoder->trouble = ENOMEM;
    return block;
}

void encode_free(struct encoder *encoder, uint32_t thread, struct block_name block)
{
    uint32_t back = how_long_ago(&encoder->codec, block);
    begin_of(encoder, thread);
    if (back < FREES_NEAR) {
        put_byte(encoder, OP_FREE_NEAR + back);
    } else if (back < FREES_NEAR + FREES_MIDDLE) {
        back -= FREES_NEAR;
        put_byte(encoder, OP_FREE_MIDDLE + (back >> 8));
        put_byte(encoder, back & 0xff);
    } else {
        put_byte(encoder, OP_FREE_FAR);
        put_number(encoder, block.slot);
    }
    if (!codec_give_slot(&encoder->codec, block.slot))
        encoder->trouble = ENOMEM;
}

struct block_name encode_resize(struct encoder *encoder, uint32_t thread, struct block_name block,
                                struct kind kind)
{
    begin_of(encoder, thread);
    put_byte(encoder, OP_RESIZE);
    put_block(encoder, block);
    put_kind(encoder, kind);
    block.order = (uint32_t)encoder->codec.handed_out;
    codec_recall(&encoder->codec, block.slot);
    return block;
}

void encode_touch(struct encoder *encoder, struct block_name block, uint64_t first, uint64_t count)
{
    begin(encoder);
    put_byte(encoder, OP_TOUCH);
    put_block(encoder, block);
    put_number(encoder, first);
    put_number(encoder, count);
}

void encode_sample(struct encoder *encoder, uint64_t ms, uint64_t resident_kib)
{
    begin(encoder);
    put_byte(encoder, OP_SAMPLE);
    put_number(encoder, ms);
    put_number(encoder, resident_kib);
}

void encode_thread_end(struct encoder *encoder, uint32_t thread)
{
    begin(encoder);
    put_byte(encoder, OP_THREAD_ENDS);
    put_number(encoder, thread);
}

void encode_text(struct encoder *encoder, const char *text, size_t bytes)
{
    write_chunk(encoder, CHUNK_TEXT, text, (uint32_t)bytes, 0);
}

void encode_close(struct encoder *encoder, const struct record_end *end)
{
    encode_flush(encoder);
    write_chunk(encoder, CHUNK_END, end, sizeof *end, 0);
    if (close(encoder->fd) != 0 && encoder->trouble == 0)
        encoder->trouble = errno;
    encoder->fd = -1;
}
