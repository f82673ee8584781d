/*
 * remote SEED THREADS PERCENT OPERATIONS [BYTES_MAX [ANYONE]]: each thread has 400 slots for blocks
 * of 16 to BYTES_MAX (2048) bytes. An empty slot is filled; a full one is freed: with PERCENT
 * probability by another thread, through a ring, else at once. The other thread is the next one;
 * with ANYONE 1 it is drawn anew for each block, and each pair of threads has a ring.
 *
 * Measures frees that come from another thread while both keep allocating. Nobody runs away: the
 * rings that lead to a thread hold 4096 blocks together, and who finds one full takes what was left
 * for itself, yields and tries again. With more threads than cores the time includes those yields,
 * equally for all allocators. Does not measure batches, nor memory that is written whole.
 */
#include "workload.h"

#include <assert.h>
#include <sched.h>

enum { SLOTS = 400, RING = 4096, BYTES_MIN = 16, DRAIN_EVERY = 32 };
enum { BYTES_MAX_DEFAULT = 2048, ANYONE_THREADS_MAX = 32, RINGS_MAX = 1024 };

/* From one thread to another: `filled` is the sender's, `taken` the receiver's. */
struct ring {
    _Alignas(128) atomic_size_t filled;
    _Alignas(128) atomic_size_t taken;
    _Alignas(128) uint64_t *blocks[RING];
};

/* Those that lead to one receiver lie side by side: one each, or with ANYONE one for each sender.
 */
static struct ring rings[RINGS_MAX];
static_assert((int)THREADS_MAX <= (int)RINGS_MAX &&
                  ANYONE_THREADS_MAX * ANYONE_THREADS_MAX <= RINGS_MAX,
              "a ring for each pair");
static struct {
    _Alignas(128) uint64_t allocated;
    uint64_t freed;
    uint64_t sent;
    uint64_t yields;
} sums[THREADS_MAX];
static unsigned threads, percent, rings_each = 1;
/* A ring holds `ring_limit` blocks in `ring_mask` + 1 places, a power of two. */
static size_t ring_limit = RING, ring_mask = RING - 1;
static uint32_t bytes_span;
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
        sum += block_free(ring->blocks[taken & ring_mask]);
    atomic_store_explicit(&ring->taken, taken, memory_order_release);
    return sum;
}

static bool ring_give(struct ring *ring, uint64_t *block)
{
    size_t filled = atomic_load_explicit(&ring->filled, memory_order_relaxed);
    if (filled - atomic_load_explicit(&ring->taken, memory_order_acquire) == ring_limit)
        return false;
    ring->blocks[filled & ring_mask] = block;
    atomic_store_explicit(&ring->filled, filled + 1, memory_order_release);
    return true;
}

static uint64_t inbox_drain(unsigned index)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < rings_each; i++)
        sum += ring_drain(&rings[index * rings_each + i]);
    return sum;
}

/* Draws from `random` only where there is a choice. */
static struct ring *outbox_of(unsigned index, uint64_t *random)
{
    unsigned next = (index + 1) % threads;
    if (rings_each == 1)
        return &rings[next];
    return &rings[(next + random_below(random, threads - 1)) % threads * rings_each + index];
}

static void work(unsigned index)
{
    uint64_t *slots[SLOTS] = {NULL};
    uint64_t random = random_stream(seed, index), allocated = 0, freed = 0, sent = 0, yields = 0;
    for (uint64_t i = 0; i < operations; i++) {
        uint32_t slot = random_below(&random, SLOTS);
        if (i % DRAIN_EVERY == 0)
            freed += inbox_drain(index);
        if (slots[slot] == NULL) {
            size_t bytes = BYTES_MIN + random_below(&random, bytes_span);
            slots[slot] = allocate(bytes, 0);
            *slots[slot] = random;
            allocated += random;
        } else {
            if (random_below(&random, 100) < percent) {
                struct ring *outbox = outbox_of(index, &random);
                sent++;
                while (!ring_give(outbox, slots[slot])) {
                    freed += inbox_drain(index);
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
        freed += inbox_drain(index);
        sched_yield();
    }
    freed += inbox_drain(index);
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
    bytes_span = BYTES_MAX_DEFAULT - BYTES_MIN + 1;
    if (argc > 5)
        bytes_span = (uint32_t)argument(argc, argv, 5, "largest size") - BYTES_MIN + 1;
    if (argc > 6 && argument(argc, argv, 6, "anyone") != 0) {
        if (threads < 2 || threads > ANYONE_THREADS_MAX)
            fail("between 2 and %d threads when anyone may free", ANYONE_THREADS_MAX);
        rings_each = threads;
        ring_limit = RING / threads;
        while ((ring_mask + 1) / 2 >= ring_limit)
            ring_mask /= 2;
    }
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
