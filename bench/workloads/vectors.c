/*
 * vectors SEED VECTORS LIVE LEAST MOST: grows VECTORS vectors one after the other by realloc, each
 * from LEAST bytes to a length of its own, at most MOST: to twice as many whenever it is full. The
 * newest LIVE stay, then each takes the place of one at random, which is dropped.
 *
 * Measures what the steps leave behind: each doubling frees a block that the same vector never
 * needs again, and that is too short for the next step. Every page is written as the vector
 * fills, and the last byte of each step compared when it is dropped. Does not measure one large
 * block alone (see large-grow), nor blocks that do not grow (see medium-t1).
 */
#include "workload.h"

enum { STEPS_MAX = 40, PAGE = 4096 };

struct vector {
    unsigned char *bytes;
    size_t length;
};

/* Lengths are as likely from one doubling as from another. */
static size_t draw_length(uint64_t *random, size_t least, size_t most)
{
    unsigned doublings = 0;
    while (doublings < STEPS_MAX && least << (doublings + 1) <= most)
        doublings++;
    size_t begin = least << random_below(random, doublings + 1);
    size_t length = begin + random_below(random, (uint32_t)begin);
    return length < most ? length : most;
}

static void write_pages(unsigned char *bytes, size_t from, size_t to, unsigned char tag)
{
    for (size_t at = from; at < to; at += PAGE)
        bytes[at] = tag;
    bytes[to - 1] = tag;
}

static struct vector grow(size_t length, size_t least, unsigned char tag)
{
    struct vector vector = {NULL, 0};
    for (size_t room = least; vector.length < length; room *= 2) {
        vector.bytes = realloc(vector.bytes, room);
        if (vector.bytes == NULL)
            fail("realloc to %zu returned NULL", room);
        size_t filled = length < room ? length : room;
        write_pages(vector.bytes, vector.length, filled, tag);
        vector.length = filled;
    }
    return vector;
}

/* Returns the tag, which must be at the end of every step. */
static unsigned char drop(struct vector *vector, size_t least)
{
    unsigned char tag = vector->bytes[vector->length - 1];
    for (size_t room = least; room < vector->length; room *= 2)
        if (vector->bytes[room - 1] != tag)
            fail("realloc lost byte %zu", room - 1);
    free(vector->bytes);
    return tag;
}

int main(int argc, char **argv)
{
    uint64_t random = random_stream(argument(argc, argv, 1, "seed"), 0), check = 0;
    uint64_t count = argument(argc, argv, 2, "vectors");
    uint32_t live = (uint32_t)argument(argc, argv, 3, "live");
    size_t least = argument(argc, argv, 4, "least"), most = argument(argc, argv, 5, "most");
    if (live == 0 || least == 0 || least > most || most > UINT32_MAX)
        fail("at least one live vector, and lengths from 1 to %u", UINT32_MAX);
    struct vector *vectors = calloc(live, sizeof *vectors);
    if (vectors == NULL)
        fail("no memory for the table");
    start_clock();
    for (uint64_t i = 0; i < count; i++) {
        uint32_t at = i < live ? (uint32_t)i : random_below(&random, live);
        if (vectors[at].bytes != NULL)
            check += drop(&vectors[at], least);
        vectors[at] = grow(draw_length(&random, least, most), least, (unsigned char)i);
    }
    stop_clock();
    size_t live_bytes = 0;
    for (uint32_t i = 0; i < live && vectors[i].bytes != NULL; i++) {
        live_bytes += vectors[i].length;
        check += drop(&vectors[i], least);
    }
    free(vectors);
    result_number("live_kib", (double)live_bytes / 1024);
    return result_print(check);
}
