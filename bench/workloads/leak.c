/*
 * leak SEED THREADS COUNT BYTES_MIN BYTES_MAX [TURNS]: each thread allocates COUNT blocks and frees
 * none; the threads end, the blocks stay. All work at once; with TURNS 1 one after the other, each
 * created when the one before has ended.
 *
 * Measures the way a heap grows under many threads at once: refills, new spans and page faults,
 * with nothing that comes back. A thread's blocks form a chain through their first bytes, walked at
 * the end: stamp and last byte of each must be as written. Prints what is resident over what was
 * asked for, which includes each thread's half-used stock. Does not measure frees.
 */
#include "workload.h"

struct node {
    struct node *next;
    uint64_t stamp;
    uint32_t bytes;
    unsigned char last_byte_follows;
};

static struct {
    _Alignas(128) struct node *first;
    uint64_t stamps;
    uint64_t requested;
} chains[THREADS_MAX];
static uint64_t seed, count;
static uint32_t bytes_min, bytes_span;

static void grow(unsigned index)
{
    uint64_t random = random_stream(seed, index), stamps = 0, requested = 0;
    struct node *first = NULL;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t bytes = bytes_min + random_below(&random, bytes_span);
        struct node *node = allocate(bytes, 0);
        node->next = first;
        node->stamp = random;
        node->bytes = bytes;
        ((volatile unsigned char *)node)[bytes - 1] = (unsigned char)random;
        stamps += random;
        requested += bytes;
        first = node;
    }
    chains[index].first = first;
    chains[index].stamps = stamps;
    chains[index].requested = requested;
}

static void *grow_in_turn(void *index)
{
    start_clock();
    grow((unsigned)(uintptr_t)index);
    stop_clock();
    return NULL;
}

static void run_in_turn(unsigned threads)
{
    for (unsigned i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, grow_in_turn, (void *)(uintptr_t)i) != 0)
            fail("thread %u could not be created", i);
        pthread_join(thread, NULL);
    }
}

static uint64_t chain_verify(unsigned index)
{
    uint64_t stamps = 0, nodes = 0;
    for (const struct node *node = chains[index].first; node != NULL; node = node->next) {
        uint32_t bytes = node->bytes;
        if (++nodes > count || bytes - bytes_min >= bytes_span ||
            ((const unsigned char *)node)[bytes - 1] != (unsigned char)node->stamp)
            fail("a live block of thread %u was written to by someone else", index);
        stamps += node->stamp;
    }
    if (nodes != count || stamps != chains[index].stamps)
        fail("the chain of thread %u is not the one it made", index);
    return stamps;
}

int main(int argc, char **argv)
{
    seed = argument(argc, argv, 1, "seed");
    unsigned threads = (unsigned)argument(argc, argv, 2, "threads");
    count = argument(argc, argv, 3, "count");
    bytes_min = (uint32_t)argument(argc, argv, 4, "smallest size");
    bytes_span = (uint32_t)argument(argc, argv, 5, "largest size") - bytes_min + 1;
    if (bytes_min < sizeof(struct node))
        fail("blocks of at least %zu bytes", sizeof(struct node));
    bool in_turn = argc > 6 && argument(argc, argv, 6, "turns") != 0;
    if (threads == 0 || threads > THREADS_MAX)
        fail("between 1 and %d threads", THREADS_MAX);
    struct memory start = read_memory();
    if (in_turn)
        run_in_turn(threads);
    else
        run_threads(threads, grow);
    struct memory full = read_memory();
    uint64_t check = 0, requested = 0;
    for (unsigned i = 0; i < threads; i++) {
        check += chain_verify(i);
        requested += chains[i].requested;
    }
    double grown_kib = (double)(full.resident_kib - start.resident_kib);
    result_number("requested_kib", (double)requested / 1024);
    result_number("grown_kib", grown_kib);
    result_number("overhead", grown_kib * 1024 / (double)requested);
    return result_print(check);
}
