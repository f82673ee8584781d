/*
 * stress SEED THREADS ROUNDS BLOCKS PERCENT WAIT: in each of ROUNDS every thread makes BLOCKS
 * blocks, PERCENT of them large (8 to 128 KiB, the others 16 to 1024 B), and keeps half of them in
 * a table of its own of which it frees a random one for each; a quarter of the others it swaps
 * against what lies in a table that all threads share, and the rest it frees at once. At the end
 * all is freed and the threads end. With WAIT 1 resident memory is sampled at 0, 1 and 11 s after
 * that.
 *
 * Measures small and large blocks at once, from many threads, freed by whoever finds them; and what
 * is left when the work is over and nobody calls any more. First and last bytes are touched. Every
 * block carries its length and its stamp; the sum of the stamps freed must be that of those made.
 * Does not measure a producer that is always ahead (handover), nor threads that sleep (asleep).
 */
#include "resident.h"
#include "stamped.h"

enum { OWN = 512, SHARED = 1024, SMALL_LEAST = 16, SMALL = 1009, LARGE_LEAST = 8 << 10 };
enum { LARGE = (120 << 10) + 1, HUNDRED = 100 };

static _Atomic(struct block *) shared[SHARED];
static struct {
    _Alignas(128) uint64_t made;
    uint64_t freed;
} sums[THREADS_MAX];
static uint64_t seed, rounds, blocks_each;
static uint32_t percent;

static struct block *make(unsigned index, uint64_t *random)
{
    bool large = random_below(random, HUNDRED) < percent;
    uint32_t bytes = large ? LARGE_LEAST + random_below(random, LARGE)
                           : SMALL_LEAST + random_below(random, SMALL);
    struct block *block = stamped_make(bytes, random);
    sums[index].made += block->stamp;
    return block;
}

static void drop(unsigned index, struct block *block)
{
    if (block != NULL)
        sums[index].freed += stamped_free(block, SMALL_LEAST, LARGE_LEAST + LARGE);
}

static void work(unsigned index)
{
    uint64_t random = random_stream(seed, index);
    struct block *own[OWN] = {NULL};
    for (uint64_t i = 0; i < rounds * blocks_each; i++) {
        struct block *block = make(index, &random);
        uint32_t where = random_below(&random, 8);
        if (where < 4) {
            uint32_t slot = random_below(&random, OWN);
            drop(index, own[slot]);
            own[slot] = block;
        } else if (where == 4) {
            uint32_t slot = random_below(&random, SHARED);
            drop(index, atomic_exchange(&shared[slot], block));
        } else {
            drop(index, block);
        }
    }
    for (unsigned slot = 0; slot < OWN; slot++)
        drop(index, own[slot]);
}

int main(int argc, char **argv)
{
    seed = argument(argc, argv, 1, "seed");
    unsigned threads = (unsigned)argument(argc, argv, 2, "threads");
    rounds = argument(argc, argv, 3, "rounds");
    blocks_each = argument(argc, argv, 4, "blocks");
    percent = (uint32_t)argument(argc, argv, 5, "per cent that are large");
    bool waits = argument(argc, argv, 6, "wait") != 0;
    uint64_t made = 0, freed = 0;
    if (percent > HUNDRED)
        fail("at most %d %%", HUNDRED);
    watch_start();
    struct memory start = watch_sample();
    run_threads(threads, work);
    for (unsigned slot = 0; slot < SHARED; slot++)
        drop(0, atomic_load(&shared[slot]));
    struct aftermath after = watch_aftermath(waits);
    for (unsigned i = 0; i < threads; i++) {
        made += sums[i].made;
        freed += sums[i].freed;
    }
    if (made != freed)
        fail("the blocks freed are not the blocks made");
    result_memory("start", start);
    result_aftermath("", &after);
    result_watch();
    return result_print(made);
}
