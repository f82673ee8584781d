/*
 * codec.c: what the recorder's collector and the replay remember alike (codec.h).
 */
#define _GNU_SOURCE
#include "codec.h"

#include <string.h>
#include <sys/mman.h>

enum { GUARD_BYTES = 64 * 1024 };

void *table_map(size_t bytes)
{
    bytes = (bytes + GUARD_BYTES - 1) & ~(size_t)(GUARD_BYTES - 1);
    char *start = mmap(NULL, bytes + 2 * (size_t)GUARD_BYTES, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    if (mprotect(start + GUARD_BYTES, bytes, PROT_READ | PROT_WRITE) != 0) {
        munmap(start, bytes + 2 * (size_t)GUARD_BYTES);
        return NULL;
    }
    return start + GUARD_BYTES;
}

void *table_grow(void *table, size_t bytes, size_t wanted)
{
    void *larger = table_map(wanted);
    if (larger == NULL || table == NULL)
        return larger;
    memcpy(larger, table, bytes);
    table_unmap(table, bytes);
    return larger;
}

void table_unmap(void *table, size_t bytes)
{
    bytes = (bytes + GUARD_BYTES - 1) & ~(size_t)(GUARD_BYTES - 1);
    if (table != NULL)
        munmap((char *)table - GUARD_BYTES, bytes + 2 * (size_t)GUARD_BYTES);
}

void codec_recall(struct codec *codec, uint32_t slot)
{
    codec->recent[codec->handed_out++ % RECENT] = slot;
}

bool codec_take_slot(struct codec *codec, uint32_t *out)
{
    if (codec->slots_free > 0)
        *out = codec->free_slots[--codec->slots_free];
    else if (codec->slot_count == UINT32_MAX)
        return false;
    else
        *out = codec->slot_count++;
    codec_recall(codec, *out);
    return true;
}

bool codec_give_slot(struct codec *codec, uint32_t slot)
{
    if (codec->slots_free == codec->free_capacity) {
        size_t wanted = codec->free_capacity == 0 ? 1 << 16 : codec->free_capacity * 2;
        uint32_t *larger = table_grow(codec->free_slots, codec->free_capacity * sizeof *larger,
                                      wanted * sizeof *larger);
        if (larger == NULL)
            return false;
        codec->free_slots = larger;
        codec->free_capacity = wanted;
    }
    codec->free_slots[codec->slots_free++] = slot;
    return true;
}

unsigned codec_turn_to(struct codec *codec, uint32_t thread)
{
    unsigned place = 0;
    while (place < THREADS_NEAR && codec->threads[place] != thread)
        place++;
    memmove(codec->threads + 1, codec->threads,
            (place < THREADS_NEAR ? place : THREADS_NEAR - 1) * sizeof codec->threads[0]);
    codec->threads[0] = thread;
    codec->thread = thread;
    return place;
}

uint32_t chunk_check(const void *bytes, size_t count, uint32_t kind)
{
    const unsigned char *at = bytes;
    uint64_t sum = UINT64_C(0x9e3779b97f4a7c15) ^ kind ^ (uint64_t)count << 32;
    for (; count >= 8; count -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        sum = (sum ^ word) * UINT64_C(0xd6e8feb86659fd93);
        sum ^= sum >> 29;
    }
    uint64_t rest = 0;
    memcpy(&rest, at, count);
    sum = (sum ^ rest) * UINT64_C(0xd6e8feb86659fd93);
    return (uint32_t)(sum ^ sum >> 32);
}
