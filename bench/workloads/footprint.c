/*
 * footprint SEED COUNT BYTES_MIN BYTES_MAX: COUNT blocks, written whole; what the kernel counts as
 * resident for them over what was asked for (`overhead`, 1 is perfect).
 *
 * `overhead_anonymous` leaves pages of files out: a library's own code, which comes as it is first
 * run and as the kernel reads ahead.
 *
 * Measures headers, rounding to size classes and metadata. The table of blocks is resident before
 * the first reading and is not counted. Does not measure fragmentation: nothing is freed before the
 * second reading.
 */
#include "workload.h"

static struct {
    unsigned char *block;
    uint32_t bytes;
} *blocks;

int main(int argc, char **argv)
{
    uint64_t random = random_stream(argument(argc, argv, 1, "seed"), 0), requested = 0, check = 0;
    uint64_t count = argument(argc, argv, 2, "count");
    uint32_t bytes_min = (uint32_t)argument(argc, argv, 3, "smallest size");
    uint32_t bytes_span = (uint32_t)argument(argc, argv, 4, "largest size") - bytes_min + 1;
    blocks = calloc(count, sizeof *blocks);
    if (blocks == NULL)
        fail("no memory for the table");
    memset(blocks, 1, count * sizeof *blocks);
    struct memory start = read_memory();
    start_clock();
    for (uint64_t i = 0; i < count; i++) {
        uint32_t bytes = bytes_min + random_below(&random, bytes_span);
        blocks[i].block = allocate(bytes, 0);
        blocks[i].bytes = bytes;
        memset(blocks[i].block, (int)(i % 251), bytes);
        requested += bytes;
    }
    stop_clock();
    struct memory full = read_memory();
    for (uint64_t i = 0; i < count; i++) {
        for (uint32_t at = 0; at < blocks[i].bytes; at++)
            if (blocks[i].block[at] != (unsigned char)(i % 251))
                fail("byte %u of block %llu changed", at, (unsigned long long)i);
        check += release(blocks[i].block);
    }
    double grown_kib = (double)(full.resident_kib - start.resident_kib);
    result_number("requested_kib", (double)requested / 1024);
    result_number("grown_kib", grown_kib);
    result_number("overhead", grown_kib * 1024 / (double)requested);
    result_number("overhead_anonymous",
                  (double)(full.anonymous_kib - start.anonymous_kib) * 1024 / (double)requested);
    result_memory("full", full);
    free(blocks);
    return result_print(check);
}
