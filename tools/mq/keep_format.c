/*
 * keep_format.c: reads the bytes of a file with queues, and trusts none of them.
 */
#include "keep_format.h"

#include <string.h>

#include "crc32c.h"
#include "queue.h"

enum { MARK_BYTES = sizeof((struct keep_header *)0)->mark };

/* --- a record --- */

static bool take(struct keep_cursor *cursor, void *to, size_t bytes)
{
    if ((size_t)(cursor->end - cursor->at) < bytes)
        return false;
    memcpy(to, cursor->at, bytes);
    cursor->at += bytes;
    return true;
}

static bool take_word(struct keep_cursor *cursor, size_t bytes, struct word *word)
{
    if ((size_t)(cursor->end - cursor->at) < bytes)
        return false;
    *word = (struct word){cursor->at, bytes};
    cursor->at += bytes;
    return true;
}

bool keep_next_item(struct keep_cursor *cursor, struct word *item)
{
    uint32_t bytes;
    return take(cursor, &bytes, sizeof bytes) && take_word(cursor, bytes, item);
}

static bool is_sound(const struct keep_record *record)
{
    if (record->unused != 0)
        return false;
    if (record->kind == KEEP_END)
        return record->key_bytes == 0 && record->job == KEEP_NO_JOB;
    bool has_job = record->job != KEEP_NO_JOB;
    return record->kind == KEEP_QUEUE && record->key_bytes <= QUEUE_KEY_MAX &&
           record->job <= KEEP_JOB_TAKEN && record->job_key_bytes <= QUEUE_KEY_MAX &&
           (has_job || (record->job_key_bytes == 0 && record->payload_bytes == 0));
}

static enum keep_state take_entry(struct keep_cursor *cursor, struct keep_entry *entry)
{
    struct keep_record *record = &entry->record;
    if (!take(cursor, record, sizeof *record))
        return KEEP_CUT_OFF;
    if (!is_sound(record))
        return KEEP_DAMAGED;
    entry->stream_bytes = entry->longest = 0;
    if (record->kind == KEEP_END)
        return KEEP_WHOLE;
    if (!take_word(cursor, record->key_bytes, &entry->key) ||
        !take_word(cursor, record->job_key_bytes, &entry->job_key) ||
        !take_word(cursor, record->payload_bytes, &entry->payload))
        return KEEP_CUT_OFF;
    if (record->job != KEEP_NO_JOB)
        entry->longest = record->key_bytes + 1 + entry->payload.bytes;
    entry->items = cursor->at;
    for (uint64_t i = 0; i < record->count; i++) {
        struct word item;
        if (!keep_next_item(cursor, &item))
            return KEEP_CUT_OFF;
        entry->stream_bytes += queue_item_bytes(item.bytes);
        entry->longest = item.bytes > entry->longest ? item.bytes : entry->longest;
    }
    entry->items_end = cursor->at;
    return KEEP_WHOLE;
}

/* --- the whole file --- */

/* The checksum that follows must be that of all bytes before it. */
static enum keep_state take_crc(struct keep_cursor *cursor, const char **summed, uint32_t *crc)
{
    uint32_t found;
    *crc = crc32c(*crc, *summed, (size_t)(cursor->at - *summed));
    if (!take(cursor, &found, sizeof found))
        return KEEP_CUT_OFF;
    *summed = cursor->at;
    return found == *crc ? KEEP_WHOLE : KEEP_DAMAGED;
}

/* A file that was given its length and no bytes, when a machine lost its power, is all zero. */
static bool is_zero(const char *start, size_t bytes)
{
    while (bytes > 0 && start[bytes - 1] == '\0')
        bytes--;
    return bytes == 0;
}

static enum keep_state check_mark(const char *start, size_t bytes)
{
    static const char mark[MARK_BYTES] = KEEP_MARK;
    size_t length = bytes < sizeof mark ? bytes : sizeof mark;
    if (memcmp(start, mark, length) == 0)
        return length < sizeof mark ? KEEP_CUT_OFF : KEEP_WHOLE;
    if (is_zero(start, length))
        return KEEP_CUT_OFF;
    bool is_ours = bytes > strlen(KEEP_MARK_ANY) &&
                   memcmp(start, KEEP_MARK_ANY, strlen(KEEP_MARK_ANY)) == 0;
    return is_ours ? KEEP_OTHER_VERSION : KEEP_FOREIGN;
}

enum keep_state keep_check(const char *start, size_t bytes, struct keep_header *header)
{
    struct keep_cursor cursor = {start, start + bytes};
    struct keep_entry entry;
    uint32_t crc = 0;
    const char *summed = start;
    enum keep_state state = check_mark(start, bytes);
    if (state != KEEP_WHOLE)
        return state;
    if (!take(&cursor, header, sizeof *header))
        return KEEP_CUT_OFF;
    state = take_crc(&cursor, &summed, &crc);
    for (uint64_t queues = 0; state == KEEP_WHOLE; queues++) {
        state = take_entry(&cursor, &entry);
        if (state == KEEP_WHOLE)
            state = take_crc(&cursor, &summed, &crc);
        if (state == KEEP_WHOLE && entry.record.kind == KEEP_END)
            return entry.record.count == queues && cursor.at == cursor.end ? KEEP_WHOLE
                                                                           : KEEP_DAMAGED;
    }
    return state;
}

/* --- of a file that is whole --- */

struct keep_cursor keep_begin(const char *start, size_t bytes)
{
    return (struct keep_cursor){start + sizeof(struct keep_header) + sizeof(uint32_t),
                                start + bytes};
}

bool keep_next(struct keep_cursor *cursor, struct keep_entry *entry)
{
    uint32_t crc;
    return take_entry(cursor, entry) == KEEP_WHOLE && entry->record.kind == KEEP_QUEUE &&
           take(cursor, &crc, sizeof crc);
}

struct keep_cursor keep_items(const struct keep_entry *entry)
{
    return (struct keep_cursor){entry->items, entry->items_end};
}
