/*
 * untouched SEED THREADS PERCENT OPERATIONS WAITS [TOUCHES]: the matrix of remote.c as it was first
 * published, where nobody reads or writes a block. Each thread has 400 slots for blocks of 16 to
 * 2048 bytes. An empty slot is filled; a full one is freed: with PERCENT probability by the next
 * thread, through a ring of 65,536, else at once. Who finds the ring full frees the block itself;
 * with WAITS 1 it takes what was left for it, yields and tries again. With TOUCHES 1 the first byte
 * of each block is written.
 *
 * Measures what an allocator does to memory that its program does not use: who writes to blocks
 * when they are freed makes their pages resident, and moves their lines from core to core. Does not
 * measure programs, which use what they ask for. Whether blocks overlap is seen by the addresses of
 * those that are live in the end.
 */
#include "workload.h"

#include <sched.h>

enum { SLOTS = 400, RING = 65536, BYTES_MIN = 16, BYTES_MAX = 2048, DRAIN_EVERY = 32 };
enum { RINGS_MAX = 64 };

#include "ring.h"

struct slot {
    char *block; /* or NULL */
    size_t bytes;
};

static struct ring rings[RINGS_MAX];        /* to one thread, from the one before it */
static struct slot left[RINGS_MAX * SLOTS]; /* each thread's, in the end */
static struct {
    _Alignas(128) uint64_t bytes;
    uint64_t sent;
} sums[RINGS_MAX];
static unsigned threads, percent;
static uint64_t seed, operations;
static bool waits, touches;
static atomic_uint finished;

static void ring_drain(struct ring *ring)
{
    size_t filled = atomic_load_explicit(&ring->filled, memory_order_relaxed);
    size_t taken = atomic_load_explicit(&ring->taken, memory_order_relaxed);
    for (; taken != filled; taken++)
        free(ring_take(ring));
}

/* Returns whether the next thread frees the block. */
static bool send(unsigned index, void *block)
{
    while (!ring_give(&rings[(index + 1) % threads], block)) {
        if (!waits) {
            free(block);
            return false;
        }
        ring_drain(&rings[index]);
        sched_yield();
    }
    return true;
}

static struct slot fill(size_t bytes)
{
    char *block = touches ? allocate(bytes, 1) : malloc(bytes);
    if (block == NULL)
        fail("malloc(%zu) returned NULL", bytes);
    return (struct slot){block, bytes};
}

static void work(unsigned index)
{
    struct slot *slots = left + index * SLOTS;
    uint64_t random = random_stream(seed, index), asked = 0, sent = 0;
    for (uint64_t i = 0; i < operations; i++) {
        uint32_t slot = random_below(&random, SLOTS);
        if (i % DRAIN_EVERY == 0)
            ring_drain(&rings[index]);
        if (slots[slot].block == NULL) {
            size_t bytes = BYTES_MIN + random_below(&random, BYTES_MAX - BYTES_MIN + 1);
            slots[slot] = fill(bytes);
            asked += bytes;
        } else {
            if (random_below(&random, 100) < percent)
                sent += send(index, slots[slot].block);
            else
                free(slots[slot].block);
            slots[slot].block = NULL;
        }
    }
    atomic_fetch_add(&finished, 1);
    while (atomic_load(&finished) != threads) {
        ring_drain(&rings[index]);
        sched_yield();
    }
    ring_drain(&rings[index]);
    sums[index].bytes = asked;
    sums[index].sent = sent;
}

static int by_address(const void *first, const void *second)
{
    uintptr_t a = (uintptr_t)((const struct slot *)first)->block;
    uintptr_t b = (uintptr_t)((const struct slot *)second)->block;
    return (a > b) - (a < b);
}

static void free_left(void)
{
    size_t count = (size_t)threads * SLOTS;
    qsort(left, count, sizeof *left, by_address);
    for (size_t i = 1; i < count; i++)
        if (left[i - 1].block != NULL && left[i].block < left[i - 1].block + left[i - 1].bytes)
            fail("live blocks overlap: they are not the blocks that were asked for");
    for (size_t i = 0; i < count; i++)
        free(left[i].block);
}

int main(int argc, char **argv)
{
    seed = argument(argc, argv, 1, "seed");
    threads = (unsigned)argument(argc, argv, 2, "threads");
    percent = (unsigned)argument(argc, argv, 3, "percent");
    operations = argument(argc, argv, 4, "operations");
    waits = argument(argc, argv, 5, "waits") != 0;
    touches = argc > 6 && argument(argc, argv, 6, "touches") != 0;
    if (threads == 0 || threads > RINGS_MAX)
        fail("between 1 and %d threads, not %u", RINGS_MAX, threads);
    run_threads(threads, work);
    free_left();
    uint64_t bytes = 0, sent = 0;
    for (unsigned i = 0; i < threads; i++) {
        bytes += sums[i].bytes;
        sent += sums[i].sent;
    }
    result_number("sent", (double)sent);
    return result_print(bytes);
}
