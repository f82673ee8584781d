/*
 * codec.h: the file that `calm record` writes and `calm replay` reads, and what both keep in mind
 * to name blocks and kinds of requests in few bytes.
 *
 * A file is a head and chunks, all words little-endian. A chunk of events continues where the one
 * before ended; a chunk of text names sites; the last chunk says how the program ended. Each chunk
 * has a checksum, so that a file that was cut short is read up to there and a damaged one is
 * refused.
 *
 * An event is one byte, or one byte and numbers of 7 bits a byte. A block is named by how many
 * blocks ago it was handed out, or by its slot: a number that is free again with the block. A kind
 * of request (function, site, size, alignment) is named by its place in one of two small tables
 * that both sides fill alike.
 */
#ifndef CALM_RECORD_CODEC_H
#define CALM_RECORD_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_MAGIC UINT64_C(0x0a636572206d6c63) /* "clm rec\n" */

enum {
    RECORD_VERSION = 1,

    CHUNK_EVENTS = 1,
    CHUNK_TEXT = 2,
    CHUNK_END = 3,
    CHUNK_BYTES_MAX = 1 << 17,
    CHUNK_EVENTS_MAX = 1 << 16,

    /* First bytes of events. */
    OP_FREE_NEAR = 0,     /* 112: of the n-th last block */
    OP_FREE_MIDDLE = 112, /* 16 x 256: of the n-th last after those */
    OP_ALLOC_NEAR = 128,  /* 96: of the kind there in the first table */
    OP_ALLOC_FAR = 224,   /* 16 x 256: in the second table */
    OP_FREE_FAR = 240,    /* slot */
    OP_ALLOC_NEW = 241,   /* kind | log2(alignment) << 2, site, size */
    OP_RESIZE = 242,      /* block, then an allocation's bytes */
    OP_THREAD = 243,      /* thread: whose events follow */
    OP_TOUCH = 244,       /* block, first page, count of pages */
    OP_SAMPLE = 245,      /* milliseconds, KiB of heap that are resident */
    OP_THREAD_ENDS = 246, /* thread */
    OP_THREAD_NEAR = 248, /* 8: the n-th last other thread */
    FREES_NEAR = 112,
    FREES_MIDDLE = 4096,
    KINDS_NEAR = 96,
    KINDS_FAR = 4096,
    THREADS_NEAR = 8,
    RECENT = 8192,

    KIND_MALLOC = 0,
    KIND_CALLOC = 1,
    KIND_ALIGNED = 2,
    KIND_RESIZED = 3,

    LARGE_TOUCH_BYTES = 16 * 1024, /* blocks below this are touched whole; of others it is recorded
                                      how many pages were resident */
    RECORD_HASHED = 1,             /* flag: names are hashed */
};

struct record_head {
    uint64_t magic;
    uint32_t version;
    uint32_t flags;
    uint32_t page_bytes;
    uint32_t pid;
    char program[40];
};

struct chunk_head {
    uint32_t kind;
    uint32_t bytes;
    uint32_t events;
    uint32_t check;
};

struct record_end {
    uint64_t events;   /* requests and frees */
    uint64_t unknown;  /* frees and resizings of blocks that are not in the file */
    uint64_t disorder; /* requests answered with a block that was alive: its free was not seen */
    uint64_t lost;     /* calls that could not be written */
    uint64_t wall_ms;
    uint64_t is_whole; /* the program ended, and nothing failed before */
};

struct kind {
    uint32_t site;
    uint8_t function; /* KIND_ */
    uint8_t align_log2;
    uint16_t is_used;
    uint64_t bytes;
};

/* Both sides' memory of what went before. */
struct codec {
    uint64_t handed_out;
    uint32_t recent[RECENT];
    struct kind near[KINDS_NEAR];
    struct kind far[KINDS_FAR];
    uint32_t threads[THREADS_NEAR];
    uint32_t thread;
    uint32_t slot_count, slots_free;
    uint32_t *free_slots; /* a stack, in a table that grows */
    size_t free_capacity;
};

static inline bool kind_equal(const struct kind *one, const struct kind *other)
{
    return one->bytes == other->bytes && one->site == other->site &&
           one->function == other->function && one->align_log2 == other->align_log2 &&
           one->is_used == other->is_used;
}

static inline uint64_t kind_hash(const struct kind *kind)
{
    uint64_t mix = kind->bytes * UINT64_C(0x9e3779b97f4a7c15) ^ kind->site ^
                   (uint64_t)kind->function << 40 ^ (uint64_t)kind->align_log2 << 48;
    mix *= UINT64_C(0xd6e8feb86659fd93);
    return mix ^ mix >> 32;
}

static inline unsigned kind_near(uint64_t hash)
{
    return (unsigned)((hash & 0xffffffff) * KINDS_NEAR >> 32);
}

static inline unsigned kind_far(uint64_t hash)
{
    return (unsigned)(hash >> 40) % KINDS_FAR;
}

/* A table by mmap: the replay has no other memory of its own, and no allocator's mapping may join
 * it. NULL when there is none. */
void *table_map(size_t bytes);
void *table_grow(void *table, size_t bytes, size_t wanted);
void table_unmap(void *table, size_t bytes);

/* The slot of a new block, which is the latest then. False: no memory. */
bool codec_take_slot(struct codec *codec, uint32_t *out);
bool codec_give_slot(struct codec *codec, uint32_t slot);
void codec_recall(struct codec *codec, uint32_t slot); /* it is the latest */

/* Puts the thread first; its place before, or THREADS_NEAR. */
unsigned codec_turn_to(struct codec *codec, uint32_t thread);

uint32_t chunk_check(const void *bytes, size_t count, uint32_t kind);

#endif
