/*
 * encode.h: writes a recording (codec.h). A failed write stops it for good; the reason stays.
 */
#ifndef CALM_RECORD_ENCODE_H
#define CALM_RECORD_ENCODE_H

#include "codec.h"

struct encoder {
    struct codec codec;
    int fd;
    int trouble; /* an errno, 0: none */
    uint64_t events, file_bytes;
    uint32_t chunk_bytes, chunk_events;
    unsigned char chunk[CHUNK_BYTES_MAX];
};

#define ORDER_MASK 0x7fffffffU

/* What a live block is known by: its slot, and where it stands in `recent`, if it still does; of
 * that 31 bits. */
struct block_name {
    uint32_t slot, order;
};

/* The head; false: nothing can be written, see `trouble`. */
bool encode_open(struct encoder *encoder, const char *path, const struct record_head *head);
struct block_name encode_alloc(struct encoder *encoder, uint32_t thread, struct kind kind);
void encode_free(struct encoder *encoder, uint32_t thread, struct block_name block);
struct block_name encode_resize(struct encoder *encoder, uint32_t thread, struct block_name block,
                                struct kind kind);
void encode_touch(struct encoder *encoder, struct block_name block, uint64_t first, uint64_t count);
void encode_sample(struct encoder *encoder, uint64_t ms, uint64_t resident_kib);
void encode_thread_end(struct encoder *encoder, uint32_t thread);
void encode_text(struct encoder *encoder, const char *text, size_t bytes);
void encode_flush(struct encoder *encoder);
void encode_close(struct encoder *encoder, const struct record_end *end);

#endif
