/*
 * keep_format.h: the bytes of a file with queues.
 *
 * It is a header, a record for each queue, and a record that ends it. Behind each of them is the
 * CRC-32C of all of the file before it but these checksums. Numbers are the machine's words.
 */
#ifndef CALM_MQ_KEEP_FORMAT_H
#define CALM_MQ_KEEP_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse.h"

/* The last figure but one is the format's version. */
#define KEEP_MARK "calmq queues 2\n"
#define KEEP_MARK_ANY "calmq queues "

struct keep_header {
    char mark[16];
    uint64_t seed; /* of hashes: with it, and as many cores, each queue fits where it was */
    uint64_t memory_bytes;
    uint32_t cores, message_bytes, redeliver_s, unused;
};
_Static_assert(sizeof(struct keep_header) == 48, "the file's bytes are these");

enum { KEEP_QUEUE = 1, KEEP_END = 2 };

enum keep_job { KEEP_NO_JOB, KEEP_JOB_WAITS, KEEP_JOB_TAKEN };

/* The bytes of the key, of the job's key and of its payload follow; then each item, as its length
 * in a word of 32 bits and its bytes. */
struct keep_record {
    uint32_t kind;
    uint32_t key_bytes;
    uint64_t count; /* of items; KEEP_END: of queues */
    uint32_t job;   /* enum keep_job */
    uint32_t job_key_bytes, payload_bytes, unused;
};
_Static_assert(sizeof(struct keep_record) == 32, "the file's bytes are these");

enum keep_state {
    KEEP_WHOLE,
    KEEP_CUT_OFF,       /* a write that did not come to its end */
    KEEP_DAMAGED,       /* a checksum is wrong, or two bytes contradict each other */
    KEEP_OTHER_VERSION, /* calmq's, of a format that is not this one's */
    KEEP_FOREIGN,
};

/* Goes through a whole file: its marks, lengths, counts and checksums. */
enum keep_state keep_check(const char *start, size_t bytes, struct keep_header *header);

/* --- of a file that is whole --- */

struct keep_cursor {
    const char *at, *end;
};

struct keep_entry {
    struct keep_record record;
    struct word key, job_key, payload;
    const char *items, *items_end;
    size_t stream_bytes; /* that the items take in a queue */
    size_t longest;      /* item, or payload with its id */
};

/* At the first record. */
struct keep_cursor keep_begin(const char *start, size_t bytes);

/* The next queue; false behind the last. */
bool keep_next(struct keep_cursor *cursor, struct keep_entry *entry);

/* At the first item of a queue, and the next one. */
struct keep_cursor keep_items(const struct keep_entry *entry);
bool keep_next_item(struct keep_cursor *cursor, struct word *item);

#endif
