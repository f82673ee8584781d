/*
 * batch SEED BYTES LIVE ROUNDS: allocates LIVE blocks, then frees them in the order they came,
 * ROUNDS times.
 *
 * Measures what happens when a cache runs empty and then full, again and again. Does not measure
 * mixed sizes.
 *
 * CALM_POOL_OWN=1 in the environment calls a library of pools by its own interface (own.h).
 */
#include "own.h"

static uint64_t run(void **blocks, uint64_t seed, size_t bytes, uint64_t live)
{
    uint64_t check = 0;
    for (uint64_t i = 0; i < live; i++)
        blocks[i] = allocate(bytes, (unsigned char)(i + seed));
    for (uint64_t i = 0; i < live; i++)
        check += release(blocks[i]);
    return check;
}

static uint64_t run_own(struct own own, void **blocks, uint64_t seed, size_t bytes, uint64_t live)
{
    uint64_t check = 0;
    for (uint64_t i = 0; i < live; i++)
        blocks[i] = allocate_own(own, bytes, (unsigned char)(i + seed));
    for (uint64_t i = 0; i < live; i++)
        check += release_own(own, blocks[i]);
    return check;
}

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
    struct own own = find_own();
    start_clock();
    for (uint64_t round = 0; round < rounds; round++)
        check += own.pool != NULL ? run_own(own, blocks, seed, bytes, live)
                                  : run(blocks, seed, bytes, live);
    stop_clock();
    free(blocks);
    return result_print(check);
}
