/*
 * replace SEED THREADS LIVE BYTES_MIN BYTES_MAX OPERATIONS: each thread keeps LIVE blocks and,
 * OPERATIONS times, frees a random one and allocates another of a random size in its place. Nothing
 * crosses threads.
 *
 * Measures steady churn: with few live blocks the fast paths, with many the locality of what is
 * handed out, with large ones the reuse of spans and the cost of giving pages back too soon. The
 * first fill is not timed for one thread; frees at the end are not timed. Does not measure
 * hand-over between threads.
 */
#include "workload.h"

static struct {
    uint64_t random;
    uint64_t check;
    void **slots;
} workers[THREADS_MAX];

static uint32_t live, bytes_min, bytes_span;
static uint64_t seed, operations;

static size_t random_bytes(uint64_t *random)
{
    return bytes_span == 1 ? bytes_min : bytes_min + random_below(random, bytes_span);
}

static void fill(unsigned index)
{
    void **slots = workers[index].slots;
    for (uint32_t i = 0; i < live; i++)
        slots[i] = allocate(random_bytes(&workers[index].random), (unsigned char)i);
}

static void churn(unsigned index)
{
    uint64_t random = workers[index].random, check = 0;
    void **slots = workers[index].slots;
    for (uint64_t i = 0; i < operations; i++) {
        uint32_t slot = random_below(&random, live);
        check += release(slots[slot]);
        slots[slot] = allocate(random_bytes(&random), (unsigned char)slot);
    }
    workers[index].check = check;
}

static void fill_and_churn(unsigned index)
{
    fill(index);
    churn(index);
}

int main(int argc, char **argv)
{
    seed = argument(argc, argv, 1, "seed");
    unsigned threads = (unsigned)argument(argc, argv, 2, "threads");
    live = (uint32_t)argument(argc, argv, 3, "live");
    bytes_min = (uint32_t)argument(argc, argv, 4, "smallest size");
    bytes_span = (uint32_t)argument(argc, argv, 5, "largest size") - bytes_min + 1;
    operations = argument(argc, argv, 6, "operations");
    if (threads > THREADS_MAX)
        fail("at most %d threads", THREADS_MAX);
    for (unsigned i = 0; i < threads; i++) {
        workers[i].random = random_stream(seed, i);
        workers[i].slots = calloc(live, sizeof(void *));
        if (workers[i].slots == NULL)
            fail("no memory for the slots");
    }
    if (threads == 1) {
        fill(0);
        run_threads(1, churn);
    } else {
        run_threads(threads, fill_and_churn);
    }
    uint64_t check = 0;
    for (unsigned i = 0; i < threads; i++) {
        check += workers[i].check;
        for (uint32_t slot = 0; slot < live; slot++)
            check += release(workers[i].slots[slot]) ^ (slot & 1);
        free(workers[i].slots);
    }
    return result_print(check);
}
