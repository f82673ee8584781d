/*
 * remote SEED THREADS PERCENT OPERATIONS: each thread has 400 slots for blocks of 16 to 2048 B. An
 * empty slot is filled; a full one is freed: with PERCENT probability by the next thread, through a
 * ring of 4096, else at once.
 *
 * Measures frees that come from another thread while both keep allocating. Nobody runs away: a
 * thread whose ring is full takes what its own predecessor left, yields and tries again, so at most
 * 4096 blocks a thread are in flight. With more threads than cores the time includes those yields,
 * equally for all allocators. Does not measure batches.
 */
#include "workload.h"

#include <sched.h>

enum { SLOTS = 400, RING = 4096, BYTES_MIN = 16, BYTES_MAX = 2048, DRAIN_EVERY = 32 };

/* From one thread to the next: `filled` is the sender's, `taken` the receiver's. */
struct ring {
    _Alignas(128) atomic_size_t filled;
    _Alignas(128) atomic_size_t taken;
    _Alignas(128) uint64_t *blocks[RING];
};

static struct ring rings[THREADS_MAX];
static struct {
    _Alignas(128) uint64_t allocated;
    uint64_t freed;
    uint64_t sent;
    uint64_t yields;
} sums[THREADS_MAX];
static unsigned threads, percent;
static uint64_t seed, operations;
static atomic_uint finished;

static uint64_t block_free(uint64_t *block)
{
    uint64_t stamp = *block;
    free(block);
    return stamp;
}

static uint64_t ring_drain(struct ring *ring)
{
    uint64_t sum = 0;
    size_t taken = atomic_load_explicit(&ring->taken, memory_order_relaxed);
    size_t filled = atomic_load_explicit(&ring->filled, memory_order_acquire);
    for (; taken != filled; taken++)
        sum += block_free(ring->blocks[taken % RING]);
    atomic_store_explicit(&ring->taken, taken, memory_order_release);
    return sum;
}

static bool ring_give(struct ring *ring, uint64_t *block)
{
    size_t filled = atomic_load_explicit(&ring->filled, memory_order_relaxed);
    if (filled - atomic_load_explicit(&ring->taken, memory_order_acquire) == RING)
        return false;
    ring->blocks[filled % RING] = block;
    atomic_store_explicit(&ring->filled, filled + 1, memory_order_release);
    return true;
}

static void work(unsigned index)
{
    uint64_t *slots[SLOTS] = {NULL};
    uint64_t random = random_stream(seed, index), allocated = 0, freed = 0, sent = 0, yields = 0;
    struct ring *inbox = &rings[index], *outbox = &rings[(index + 1) % threads];
    for (uint64_t i = 0; i < operations; i++) {
        uint32_t slot = random_below(&random, SLOTS);
        if (i % DRAIN_EVERY == 0)
            freed += ring_drain(inbox);
        if (slots[slot] == NULL) {
            size_t bytes = BYTES_MIN + random_below(&random, BYTES_MAX - BYTES_MIN + 1);
            slots[slot] = allocate(bytes, 0);
            *slots[slot] = random;
            allocated += random;
        } else {
            if (random_below(&random, 100) < percent) {
                sent++;
                while (!ring_give(outbox, slots[slot])) {
                    freed += ring_drain(inbox);
                    yields++;
                    sched_yield();
                }
            } else {
                freed += block_free(slots[slot]);
            }
            slots[slot] = NULL;
        }
    }
    for (unsigned slot = 0; slot < SLOTS; slot++)
        if (slots[slot] != NULL)
            freed += block_free(slots[slot]);
    atomic_fetch_add(&finished, 1);
    while (atomic_load(&finished) != threads) {
        freed += ring_drain(inbox);
        sched_yield();
    }
    freed += ring_drain(inbox);
    sums[index].allocated = allocated;
    sums[index].freed = freed;
    sums[index].sent = sent;
    sums[index].yields = yields;
}

int main(int argc, char **argv)
{
    seed = argument(argc, argv, 1, "seed");
    threads = (unsigned)argument(argc, argv, 2, "threads");
    percent = (unsigned)argument(argc, argv, 3, "percent");
    operations = argument(argc, argv, 4, "operations");
    run_threads(threads, work);
    uint64_t allocated = 0, freed = 0, sent = 0, yields = 0;
    for (unsigned i = 0; i < threads; i++) {
        allocated += sums[i].allocated;
        freed += sums[i].freed;
        sent += sums[i].sent;
        yields += sums[i].yields;
    }
    if (allocated != freed)
        fail("the stamps of freed blocks are not those of allocated ones");
    result_number("sent", (double)sent);
    result_number("yields", (double)yields);
    return result_print(freed);
}
