/*
 * larson SEED THREADS LIVE BYTES_MIN BYTES_MAX GENERATIONS OPERATIONS: a server that forks off its
 * successors. Each of THREADS chains starts with LIVE blocks. A chain's thread replaces random
 * blocks OPERATIONS times, hands its table to a new thread and ends; GENERATIONS times.
 *
 * Measures blocks freed by a thread that did not allocate them, whose allocator may be gone, and
 * what a thread's birth and death cost an allocator: here, unlike elsewhere, creating the successor
 * is part of the work and is timed. Does not measure two threads that free at each other at the
 * same time.
 */
#include "workload.h"

struct chain {
    uint64_t random;
    uint64_t check;
    uint32_t generation;
    void **slots;
};

static struct chain chains[THREADS_MAX];
static uint32_t live, bytes_min, bytes_span, generations;
static uint64_t operations;
static pthread_barrier_t all_start, all_end;
static pthread_attr_t detached;

static void *generation_run(void *argument_)
{
    struct chain *chain = argument_;
    uint64_t random = chain->random, check = 0;
    if (chain->generation == 0) {
        pthread_barrier_wait(&all_start);
        thread_started[chain - chains] = read_clocks();
    }
    for (uint64_t i = 0; i < operations; i++) {
        uint32_t slot = random_below(&random, live);
        check += release(chain->slots[slot]);
        chain->slots[slot] = allocate(bytes_min + random_below(&random, bytes_span),
                                      (unsigned char)slot);
    }
    chain->random = random;
    chain->check += check;
    chain->generation++;
    if (chain->generation == generations) {
        thread_ended[chain - chains] = read_clocks();
        pthread_barrier_wait(&all_end);
        return NULL;
    }
    pthread_t successor;
    if (pthread_create(&successor, &detached, generation_run, chain) != 0)
        fail("a successor could not be created");
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t seed = argument(argc, argv, 1, "seed");
    unsigned threads = (unsigned)argument(argc, argv, 2, "threads");
    live = (uint32_t)argument(argc, argv, 3, "live");
    bytes_min = (uint32_t)argument(argc, argv, 4, "smallest size");
    bytes_span = (uint32_t)argument(argc, argv, 5, "largest size") - bytes_min + 1;
    generations = (uint32_t)argument(argc, argv, 6, "generations");
    operations = argument(argc, argv, 7, "operations");
    if (threads == 0 || threads > THREADS_MAX || generations == 0)
        fail("between 1 and %d threads, and at least one generation", THREADS_MAX);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_barrier_init(&all_start, NULL, threads);
    pthread_barrier_init(&all_end, NULL, threads + 1);
    for (unsigned i = 0; i < threads; i++) {
        struct chain *chain = &chains[i];
        pthread_t first;
        chain->random = random_stream(seed, i);
        chain->slots = calloc(live, sizeof(void *));
        if (chain->slots == NULL)
            fail("no memory for the slots");
        for (uint32_t slot = 0; slot < live; slot++)
            chain->slots[slot] = allocate(bytes_min + random_below(&chain->random, bytes_span),
                                          (unsigned char)slot);
        if (pthread_create(&first, &detached, generation_run, chain) != 0)
            fail("thread %u could not be created", i);
    }
    pthread_barrier_wait(&all_end);
    count_threads(threads);
    uint64_t check = 0;
    for (unsigned i = 0; i < threads; i++) {
        check += chains[i].check;
        for (uint32_t slot = 0; slot < live; slot++)
            check += release(chains[i].slots[slot]) ^ (slot & 1);
    }
    return result_print(check);
}
