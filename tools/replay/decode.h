/*
 * decode.h: reads a recording (record/codec.h) chunk by chunk, with memory that follows the live
 * blocks and not the events.
 */
#ifndef CALM_REPLAY_DECODE_H
#define CALM_REPLAY_DECODE_H

#include "../record/codec.h"

enum {
    STEP_ALLOC = 1,
    STEP_FREE = 2,
    STEP_RESIZE = 3,
    STEP_TOUCH = 4,      /* kind.bytes: first page; count */
    STEP_SAMPLE = 5,     /* kind.bytes: KiB; count: ms */
    STEP_THREAD_END = 6, /* thread */
    STEP_NONE = 7,       /* the recording is over */
};

struct step {
    uint8_t what;
    uint32_t thread, slot;
    uint64_t count;
    struct kind kind;
};

struct decoder {
    struct codec codec;
    struct record_head head;
    struct record_end end;
    bool has_end; /* otherwise it was cut short */
    int fd;
    const char *path;
    uint64_t events, file_bytes;
    uint32_t site_count;
    size_t at, chunk_bytes;
    unsigned char *chunk;
    void (*take_text)(const char *text, size_t bytes); /* may be NULL */
};

/* These end the process with one sentence when the file is not what it should be. */
void decode_open(struct decoder *decoder, const char *path);
void decode_step(struct decoder *decoder, struct step *out);

_Noreturn void refuse(const char *path, const char *reason);

#endif
