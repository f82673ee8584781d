/*
 * deaths SEED THREADS LIVE LEAST MOST REPLACE DEATH CYCLES: CYCLES times each thread fills LIVE
 * blocks of LEAST to MOST bytes, then four times replaces as many as are live, in the order in
 * which they lie (REPLACE 0) or at random (1), after which a quarter of LIVE dies: those that came
 * first (DEATH 0), last (1), or one of each in turn (2). Nothing crosses threads.
 *
 * Measures a live set that shrinks while it is being replaced: what is freed comes back in the
 * order in which it was asked for, in the reverse, or in both, and each favours another kind of
 * free list. Age counts from the fill: a replacement takes the place of what it replaces. Does not
 * measure a live set that keeps its size (replace), nor hand-over.
 */
#include "stamped.h"

enum { QUARTERS = 4, IN_ORDER = 0, AT_RANDOM = 1, OLDEST = 0, NEWEST = 1, MIXED = 2 };

static struct {
    _Alignas(128) struct block **blocks;
    uint64_t random;
    uint64_t made;
    uint64_t freed;
} workers[THREADS_MAX];
static uint64_t replace, death, cycles;
static uint32_t live, least, span;

static struct block *make(unsigned index, uint64_t *random)
{
    struct block *block = stamped_make(least + random_below(random, span), random);
    workers[index].made += block->stamp;
    return block;
}

static void drop(unsigned index, struct block *block)
{
    workers[index].freed += stamped_free(block, least, span);
}

/* The live ones are those from `first` up to `end`. */
static void cycle(unsigned index, uint64_t *random)
{
    struct block **blocks = workers[index].blocks;
    uint32_t first = 0, end = live;
    for (uint32_t i = 0; i < live; i++)
        blocks[i] = make(index, random);
    for (unsigned quarter = 0; quarter < QUARTERS; quarter++) {
        uint32_t left = end - first;
        for (uint32_t i = 0; i < left; i++) {
            uint32_t at = first + (replace == IN_ORDER ? i : random_below(random, left));
            drop(index, blocks[at]);
            blocks[at] = make(index, random);
        }
        uint32_t dying = quarter + 1 == QUARTERS ? left : live / QUARTERS;
        for (uint32_t i = 0; i < dying; i++) {
            bool oldest = death == OLDEST || (death == MIXED && i % 2 == 0);
            drop(index, blocks[oldest ? first++ : --end]);
        }
    }
}

static void work(unsigned index)
{
    uint64_t random = workers[index].random;
    for (uint64_t i = 0; i < cycles; i++)
        cycle(index, &random);
}

int main(int argc, char **argv)
{
    uint64_t seed = argument(argc, argv, 1, "seed"), check = 0;
    unsigned threads = (unsigned)argument(argc, argv, 2, "threads");
    live = (uint32_t)argument(argc, argv, 3, "live");
    least = (uint32_t)argument(argc, argv, 4, "smallest size");
    span = (uint32_t)argument(argc, argv, 5, "largest size") - least + 1;
    replace = argument(argc, argv, 6, "how to replace");
    death = argument(argc, argv, 7, "who dies");
    cycles = argument(argc, argv, 8, "cycles");
    if (threads == 0 || threads > THREADS_MAX || live < QUARTERS || least <= sizeof(struct block) ||
        replace > AT_RANDOM || death > MIXED)
        fail(
            "at most %d threads, %d live blocks of more than %zu bytes, and an order that is known",
            THREADS_MAX, QUARTERS, sizeof(struct block));
    for (unsigned i = 0; i < threads; i++) {
        workers[i].random = random_stream(seed, i);
        workers[i].blocks = calloc(live, sizeof(struct block *));
        if (workers[i].blocks == NULL)
            fail("no memory for the blocks");
    }
    run_threads(threads, work);
    for (unsigned i = 0; i < threads; i++) {
        if (workers[i].made != workers[i].freed)
            fail("the blocks freed are not the blocks made");
        check += workers[i].freed;
        free(workers[i].blocks);
    }
    return result_print(check);
}
