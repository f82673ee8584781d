/*
 * order SEED ORDER COUNT ROUNDS: allocates COUNT blocks of 64 B, frees them all in an order (0 last
 * first, 1 first first, 2 random), allocates COUNT again, frees those first first; ROUNDS times.
 *
 * Measures whether the order of frees is inherited by the blocks handed out next. Prints the
 * nanoseconds of each pass; the row's time is their sum. The random order is made before the clock
 * starts. Does not measure what a walk over the blocks costs afterwards.
 */
#include "workload.h"

enum { BYTES = 64, PASSES = 4 };

static void **blocks;
static uint32_t *sequence;
static uint64_t count, check;

static void make_sequence(unsigned order, uint64_t *random)
{
    for (uint64_t i = 0; i < count; i++)
        sequence[i] = (uint32_t)(order == 0 ? count - 1 - i : i);
    if (order != 2)
        return;
    for (uint64_t i = count - 1; i > 0; i--) {
        uint32_t other = random_below(random, (uint32_t)i + 1), mine = sequence[i];
        sequence[i] = sequence[other];
        sequence[other] = mine;
    }
}

static void allocate_all(void)
{
    for (uint64_t i = 0; i < count; i++)
        blocks[i] = allocate(BYTES, (unsigned char)i);
}

static void free_in_sequence(void)
{
    for (uint64_t i = 0; i < count; i++)
        check += release(blocks[sequence[i]]);
}

static void free_in_order(void)
{
    for (uint64_t i = 0; i < count; i++)
        check += release(blocks[i]);
}

int main(int argc, char **argv)
{
    static void (*const pass[PASSES])(void) = {allocate_all, free_in_sequence, allocate_all,
                                               free_in_order};
    static const char *const name[PASSES] = {"first_alloc_ns", "free_ns", "alloc_again_ns",
                                             "free_again_ns"};
    double spent[PASSES] = {0};
    uint64_t random = random_stream(argument(argc, argv, 1, "seed"), 0);
    unsigned order = (unsigned)argument(argc, argv, 2, "order");
    count = argument(argc, argv, 3, "count");
    uint64_t rounds = argument(argc, argv, 4, "rounds");
    blocks = calloc(count, sizeof(void *));
    sequence = calloc(count, sizeof(uint32_t));
    if (blocks == NULL || sequence == NULL)
        fail("no memory for the tables");
    memset(blocks, 1, count * sizeof(void *));
    make_sequence(order, &random);
    for (uint64_t round = 0; round < rounds; round++)
        for (unsigned i = 0; i < PASSES; i++) {
            double before = clock_total.wall;
            start_clock();
            pass[i]();
            stop_clock();
            spent[i] += clock_total.wall - before;
        }
    for (unsigned i = 0; i < PASSES; i++)
        result_number(name[i], spent[i] * 1e9 / (double)(count * rounds));
    free(blocks);
    free(sequence);
    return result_print(check);
}
