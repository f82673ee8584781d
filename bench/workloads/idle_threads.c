/*
 * idle_threads SEED THREADS BYTES [WAIT]: THREADS threads that each allocate once and then sleep,
 * all at the same time. With WAIT 1 it samples 1 and 11 s later as well.
 *
 * Measures what a thread costs that hardly allocates. The figure includes the thread's own stack
 * and control block, the same under every allocator: compare rows, do not read them as the
 * allocator's own. `anonymous_a_thread_kib` leaves out pages of files: code that the first thread
 * touches comes in sixteen pages at a time. Does not measure time.
 */
#include "resident.h"

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

static double grown(struct memory from, struct memory to)
{
    return (double)(to.resident_kib - from.resident_kib);
}

int main(int argc, char **argv)
{
    static pthread_t threads[THREADS_MAX];
    uint64_t check = 0;
    seed = argument(argc, argv, 1, "seed");
    unsigned count = (unsigned)argument(argc, argv, 2, "threads");
    bytes = argument(argc, argv, 3, "bytes");
    bool waits = argc > 4 && argument(argc, argv, 4, "wait") != 0;
    if (count == 0 || count > THREADS_MAX)
        fail("between 1 and %d threads", THREADS_MAX);
    pthread_barrier_init(&allocated, NULL, count + 1);
    pthread_barrier_init(&released, NULL, count + 1);
    watch_start();
    struct memory start = watch_sample();
    start_clock();
    for (unsigned i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, idle, (void *)(uintptr_t)i) != 0)
            fail("thread %u could not be created", i);
    pthread_barrier_wait(&allocated);
    stop_clock();
    struct aftermath after = watch_aftermath(waits);
    pthread_barrier_wait(&released);
    for (unsigned i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        unsigned char tag = release(blocks[i]);
        if (tag != (unsigned char)(i + seed))
            fail("the block of thread %u changed", i);
        check = check * 31 + tag;
    }
    result_number("kib_a_thread", grown(start, after.at[0]) / count);
    result_number("kib_a_thread_last", grown(start, aftermath_last(&after)) / count);
    result_number("kib_a_thread_trimmed", grown(start, after.trimmed) / count);
    result_number("anonymous_a_thread_kib",
                  (double)(after.at[0].anonymous_kib - start.anonymous_kib) / count);
    result_memory("full", after.at[0]);
    result_aftermath("", &after);
    result_watch();
    return result_print(check);
}
