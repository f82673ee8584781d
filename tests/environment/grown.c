/*
 * grown.c: buffers grow by small steps, side by side and among other blocks: each is copied or
 * moved seldom, nothing is resident twice, the process has few mappings, and what was kept for
 * growth is free again.
 *
 * Seen to fail without slack (15,000 moves for 240 MiB), with one window for it, and with copies in
 * place of moves (peak).
 */
#include "check.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

enum { BUFFERS = 8, STEP = 16 * 1024 };

struct buffer {
    char *bytes;
    size_t size;
    unsigned moves;
};

static void grow(struct buffer *buffer, size_t more)
{
    char *grown = realloc(buffer->bytes, buffer->size + more);
    CHECK(grown != NULL, "no %zu bytes more after %zu", more, buffer->size);
    buffer->moves += grown != buffer->bytes;
    memset(grown + buffer->size, (int)(buffer->size / STEP % 251 + 1), more);
    buffer->bytes = grown;
    buffer->size += more;
}

static void check_bytes(const struct buffer *buffer, size_t step)
{
    for (size_t at = 0; at < buffer->size; at += step)
        CHECK(buffer->bytes[at] == (char)(at / step * (step / STEP) % 251 + 1),
              "the byte %zu is not what it was", at);
}

/* Buffers grow to `most` each, by steps, in turn; each turn other blocks are allocated, and kept.
 */
static void run(size_t count, size_t most, size_t step)
{
    struct buffer buffers[BUFFERS] = {{0}};
    void **others = NULL;
    size_t before = resident_bytes();
    for (size_t size = 0; size < most; size += step) {
        for (size_t i = 0; i < count; i++)
            grow(&buffers[i], step);
        void **other = malloc(size % 5 == 0 ? 100 : 30000);
        CHECK(other != NULL, "no block");
        *other = (void *)others;
        others = other;
    }
    size_t live = count * most + most / step * 30000;
    CHECK(resident_bytes() < before + live + live / 16 + 24 * MIB, "%zu MiB for %zu",
          (resident_bytes() - before) / MIB, live / MIB);
    for (size_t i = 0; i < count; i++) {
        CHECK(buffers[i].moves < 60, "%u moves", buffers[i].moves);
        check_bytes(&buffers[i], step);
        free(buffers[i].bytes);
    }
    while (others != NULL) {
        void **next = (void **)*others;
        free((void *)others);
        others = next;
    }
}

int main(void)
{
    check_is_calmalloc();
    size_t mappings = mapping_count();
    run(1, 240 * MIB, STEP);
    run(BUFFERS, 48 * MIB, STEP);
    run(3, 200 * MIB, 3 * MIB);
    malloc_trim(0); /* a moved block that waits for a request keeps its mappings */
    size_t grown = mapping_count();
    /* After 40 turns of all this 25 more, and no more after that. */
    CHECK(grown < mappings + 24, "%zu mappings, and %zu before", grown, mappings);
    check_heap();
    return 0;
}
