/*
 * decode.c: bytes to events. A checksum has been compared before a chunk is read, but nothing is
 * believed for that: every number is looked at before it is used.
 */
#define _GNU_SOURCE
#include "decode.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

_Noreturn void refuse(const char *path, const char *reason)
{
    dprintf(2, "calm: '%s' cannot be replayed: %s.\n", path, reason);
    _exit(1);
}

static _Noreturn void refuse_damaged(const struct decoder *decoder)
{
    refuse(decoder->path, "it is damaged");
}

/* The bytes read, fewer only at the end of the file. */
static size_t read_all(struct decoder *decoder, void *to, size_t count)
{
    size_t done = 0;
    while (done < count) {
        ssize_t got = read(decoder->fd, (char *)to + done, count - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            refuse(decoder->path, strerror(errno));
        if (got == 0)
            break;
        done += (size_t)got;
    }
    decoder->file_bytes += done;
    return done;
}

void decode_open(struct decoder *decoder, const char *path)
{
    decoder->path = path;
    decoder->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (decoder->fd < 0)
        refuse(path, strerror(errno));
    size_t got = read_all(decoder, &decoder->head, sizeof decoder->head);
    if (got < sizeof decoder->head.magic || decoder->head.magic != RECORD_MAGIC)
        refuse(path, "it is not a file that `calm record` wrote");
    if (got < sizeof decoder->head)
        refuse(path, "it ends before its first call");
    if (decoder->head.version > RECORD_VERSION)
        refuse(path, "a newer calm wrote it; this one does not know its format");
    decoder->head.program[sizeof decoder->head.program - 1] = 0;
    decoder->chunk = table_map(CHUNK_BYTES_MAX);
    if (decoder->chunk == NULL)
        refuse(path, "there is no memory");
}

/* False: the recording is over. */
static bool next_chunk(struct decoder *decoder)
{
    for (;;) {
        struct chunk_head head;
        if (decoder->has_end || read_all(decoder, &head, sizeof head) < sizeof head)
            return false;
        if (head.kind < CHUNK_EVENTS || head.kind > CHUNK_END || head.bytes > CHUNK_BYTES_MAX)
            refuse_damaged(decoder);
        if (read_all(decoder, decoder->chunk, head.bytes) < head.bytes)
            return false;
        if (chunk_check(decoder->chunk, head.bytes, head.kind) != head.check)
            refuse_damaged(decoder);
        if (head.kind == CHUNK_EVENTS) {
            decoder->at = 0;
            decoder->chunk_bytes = head.bytes;
            return true;
        }
        if (head.kind == CHUNK_TEXT) {
            decoder->site_count++;
            if (decoder->take_text != NULL)
                decoder->take_text((const char *)decoder->chunk, head.bytes);
        } else if (head.bytes == sizeof decoder->end) {
            memcpy(&decoder->end, decoder->chunk, sizeof decoder->end);
            decoder->has_end = true;
        } else {
            refuse_damaged(decoder);
        }
    }
}

static unsigned get_byte(struct decoder *decoder)
{
    if (decoder->at == decoder->chunk_bytes)
        refuse_damaged(decoder);
    return decoder->chunk[decoder->at++];
}

static uint64_t get_number(struct decoder *decoder)
{
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        unsigned byte = get_byte(decoder);
        number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return number;
    }
    refuse_damaged(decoder);
}

static uint32_t recent_slot(struct decoder *decoder, uint64_t back)
{
    if (back >= RECENT || back >= decoder->codec.handed_out)
        refuse_damaged(decoder);
    return decoder->codec.recent[(decoder->codec.handed_out - 1 - back) % RECENT];
}

static uint32_t known_slot(struct decoder *decoder, uint64_t slot)
{
    if (slot >= decoder->codec.slot_count)
        refuse_damaged(decoder);
    return (uint32_t)slot;
}

static uint32_t get_block(struct decoder *decoder)
{
    uint64_t number = get_number(decoder);
    return (number & 1) != 0 ? known_slot(decoder, number >> 1) : recent_slot(decoder, number >> 1);
}

static struct kind get_kind(struct decoder *decoder, unsigned byte)
{
    struct codec *codec = &decoder->codec;
    struct kind kind = {.is_used = 1};
    if (byte >= OP_ALLOC_NEAR && byte < OP_ALLOC_FAR) {
        kind = codec->near[byte - OP_ALLOC_NEAR];
    } else if (byte >= OP_ALLOC_FAR && byte < OP_FREE_FAR) {
        kind = codec->far[(byte - OP_ALLOC_FAR) << 8 | get_byte(decoder)];
        codec->near[kind_near(kind_hash(&kind))] = kind;
    } else if (byte == OP_ALLOC_NEW) {
        unsigned how = get_byte(decoder);
        kind.function = how & 3;
        kind.align_log2 = (uint8_t)(how >> 2);
        kind.site = (uint32_t)get_number(decoder);
        kind.bytes = get_number(decoder);
        uint64_t hash = kind_hash(&kind);
        codec->near[kind_near(hash)] = codec->far[kind_far(hash)] = kind;
    } else {
        refuse_damaged(decoder);
    }
    if (!kind.is_used || kind.align_log2 > 30)
        refuse_damaged(decoder);
    return kind;
}

static void step_free(struct decoder *decoder, struct step *out, uint32_t slot)
{
    out->what = STEP_FREE;
    out->slot = slot;
    if (!codec_give_slot(&decoder->codec, slot))
        refuse(decoder->path, "there is no memory");
}

/* The longer events, whose first bytes are above those of the frequent ones. */
static void step_rare(struct decoder *decoder, struct step *out, unsigned byte)
{
    switch (byte) {
    case OP_FREE_FAR: step_free(decoder, out, known_slot(decoder, get_number(decoder))); break;
    case OP_RESIZE:
        out->what = STEP_RESIZE;
        out->slot = get_block(decoder);
        out->kind = get_kind(decoder, get_byte(decoder));
        codec_recall(&decoder->codec, out->slot);
        break;
    case OP_TOUCH:
        out->what = STEP_TOUCH;
        out->slot = get_block(decoder);
        out->kind.bytes = get_number(decoder);
        out->count = get_number(decoder);
        break;
    case OP_SAMPLE:
        out->what = STEP_SAMPLE;
        out->count = get_number(decoder);
        out->kind.bytes = get_number(decoder);
        break;
    case OP_THREAD_ENDS:
        out->what = STEP_THREAD_END;
        out->thread = (uint32_t)get_number(decoder);
        break;
    default: refuse_damaged(decoder);
    }
}

void decode_step(struct decoder *decoder, struct step *out)
{
    struct codec *codec = &decoder->codec;
    unsigned byte;
    for (;;) {
        if (decoder->at == decoder->chunk_bytes && !next_chunk(decoder)) {
            out->what = STEP_NONE;
            return;
        }
        byte = get_byte(decoder);
        if (byte == OP_THREAD)
            codec_turn_to(codec, (uint32_t)get_number(decoder));
        else if (byte >= OP_THREAD_NEAR)
            codec_turn_to(codec, codec->threads[byte - OP_THREAD_NEAR]);
        else
            break;
    }
    *out = (struct step){.thread = codec->thread};
    if (byte < OP_FREE_MIDDLE) {
        step_free(decoder, out, recent_slot(decoder, byte));
    } else if (byte < OP_ALLOC_NEAR) {
        uint64_t back = (uint64_t)(byte - OP_FREE_MIDDLE) << 8 | get_byte(decoder);
        step_free(decoder, out, recent_slot(decoder, back + FREES_NEAR));
    } else if (byte < OP_FREE_FAR || byte == OP_ALLOC_NEW) {
        out->what = STEP_ALLOC;
        out->kind = get_kind(decoder, byte);
        if (!codec_take_slot(codec, &out->slot))
            refuse_damaged(decoder);
    } else {
        step_rare(decoder, out, byte);
    }
    decoder->events += out->what <= STEP_RESIZE;
}
