/*
 * batch SEED BYTES LIVE ROUNDS: allocates LIVE blocks, then frees them in the order they came,
 * ROUNDS times.
 *
 * Measures what happens when a cache runs empty and then full, again and again. Does not measure
 * mixed sizes.
 */
#include "workload.h"

int main(int argc, char **argv)
{
    uint64_t seed = argument(argc, argv, 1, "seed");
    size_t bytes = argument(argc, argv, 2, "bytes");
    uint64_t live = argument(argc, argv, 3, "live");
    uint64_t rounds = argument(argc, argv, 4, "rounds");
    uint64_t check = 0;
    void **blocks = calloc(live, sizeof(void *));
    if (blocks == NULL)
        fail("no memory for the table");
    start_clock();
    for (uint64_t round = 0; round < rounds; round++) {
        for (uint64_t i = 0; i < live; i++)
            blocks[i] = allocate(bytes, (unsigned char)(i + seed));
        for (uint64_t i = 0; i < live; i++)
            check += release(blocks[i]);
    }
    stop_clock();
    free(blocks);
    return result_print(check);
}
