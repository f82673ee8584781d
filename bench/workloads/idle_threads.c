/*
 * idle_threads SEED THREADS BYTES: THREADS threads that each allocate once and then sleep, all at
 * the same time.
 *
 * Measures what a thread costs that hardly allocates. The figure includes the thread's own stack
 * and control block, the same under every allocator: compare rows, do not read them as the
 * allocator's own. Does not measure time.
 */
#include "workload.h"

static uint64_t seed;
static size_t bytes;
static void *blocks[THREADS_MAX];
static pthread_barrier_t allocated, released;

static void *idle(void *argument_)
{
    unsigned index = (unsigned)(uintptr_t)argument_;
    blocks[index] = allocate(bytes, (unsigned char)(index + seed));
    pthread_barrier_wait(&allocated);
    pthread_barrier_wait(&released);
    return NULL;
}

int main(int argc, char **argv)
{
    static pthread_t threads[THREADS_MAX];
    uint64_t check = 0;
    seed = argument(argc, argv, 1, "seed");
    unsigned count = (unsigned)argument(argc, argv, 2, "threads");
    bytes = argument(argc, argv, 3, "bytes");
    if (count == 0 || count > THREADS_MAX)
        fail("between 1 and %d threads", THREADS_MAX);
    pthread_barrier_init(&allocated, NULL, count + 1);
    pthread_barrier_init(&released, NULL, count + 1);
    struct memory start = read_memory();
    start_clock();
    for (unsigned i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, idle, (void *)(uintptr_t)i) != 0)
            fail("thread %u could not be created", i);
    pthread_barrier_wait(&allocated);
    stop_clock();
    struct memory full = read_memory();
    pthread_barrier_wait(&released);
    for (unsigned i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        check = check * 31 + release(blocks[i]);
    }
    result_number("kib_a_thread", (double)(full.resident_kib - start.resident_kib) / count);
    result_memory("full", full);
    return result_print(check);
}
