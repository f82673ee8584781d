/*
 * reuse SEED ORDER COUNT ROUNDS: allocates COUNT blocks of 64 B, frees them all in an order (0 last
 * first, 1 first first, 2 random), allocates COUNT again and times each of these calls for itself;
 * ROUNDS times.
 *
 * Measures what a malloc costs when the free list was left in that order: an allocator that keeps
 * its list inside the blocks misses the processor's caches on each. Frees are timed one by one as
 * well. `order` has the same passes without a counter reading around each call. Does not measure
 * what a walk over the blocks costs afterwards.
 */
#include "tail.h"

enum { BYTES = 64 };

static void **blocks;
static uint32_t *sequence;
static uint64_t count;
static struct tail mallocs, frees, untimed;

static void make_sequence(unsigned order, uint64_t *random)
{
    for (uint64_t i = 0; i < count; i++)
        sequence[i] = (uint32_t)(order == 0 ? count - 1 - i : i);
    for (uint64_t i = count - 1; order == 2 && i > 0; i--) {
        uint32_t other = random_below(random, (uint32_t)i + 1), mine = sequence[i];
        sequence[i] = sequence[other];
        sequence[other] = mine;
    }
}

static void allocate_all(struct tail *tail, uint64_t round)
{
    for (uint64_t i = 0; i < count; i++)
        blocks[i] = timed_malloc(tail, BYTES, i ^ round);
}

static void free_in_sequence(uint64_t round)
{
    for (uint64_t i = 0; i < count; i++) {
        uint32_t index = sequence[i];
        timed_free(&frees, blocks[index], BYTES, index ^ round);
    }
}

int main(int argc, char **argv)
{
    uint64_t random = random_stream(argument(argc, argv, 1, "seed"), 0);
    unsigned order = (unsigned)argument(argc, argv, 2, "order");
    count = argument(argc, argv, 3, "count");
    uint64_t rounds = argument(argc, argv, 4, "rounds");
    blocks = calloc(count, sizeof *blocks);
    sequence = calloc(count, sizeof *sequence);
    if (blocks == NULL || sequence == NULL || count == 0)
        fail("no memory for the tables");
    memset(blocks, 1, count * sizeof *blocks);
    make_sequence(order, &random);
    tail_begin();
    start_clock();
    for (uint64_t round = 0; round < rounds; round++) {
        allocate_all(round == 0 ? &untimed : &mallocs, round);
        free_in_sequence(round);
    }
    allocate_all(&mallocs, rounds);
    stop_clock();
    for (uint64_t i = 0; i < count; i++) {
        stamp_verify(blocks[i], BYTES, i ^ rounds);
        free(blocks[i]);
    }
    tail_result_empty();
    tail_result("malloc", &mallocs);
    tail_result("free", &frees);
    free(blocks);
    free(sequence);
    return result_print(count * rounds);
}
