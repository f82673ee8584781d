/*
 * idle_threads SEED THREADS BYTES [WAIT [BLOCKS]]: THREADS threads that each allocate once and then
 * sleep, all at the same time. With WAIT 1 it samples 1 and 11 s later as well. With BLOCKS each
 * thread first allocates that many blocks and frees them, and allocates nothing that stays.
 *
 * Measures what a thread costs that hardly allocates, or no longer does. The figure includes the
 * thread's own stack and control block, the same under every allocator: compare rows, do not read
 * them as the allocator's own. `anonymous_a_thread_kib` leaves out pages of files: code that the
 * first thread touches comes in sixteen pages at a time. With BLOCKS the stacks are ours, and
 * `above_stacks_*_kib`, of all threads together, leaves out what of them is resident, control
 * blocks and thread-local variables included. Does not measure time.
 */
#include "resident.h"

#include <sys/mman.h>

enum { IDLE_MAX = 4096, BLOCKS_MAX = 4096, STACK_BYTES = 128 * 1024, PAGE_BYTES = 4096 };

static uint64_t seed, blocks_each;
static size_t bytes;
static void *kept[IDLE_MAX];
static uint64_t sums[IDLE_MAX];
static pthread_barrier_t allocated, released;
static char *stacks;

/* All blocks are live at once; the pointers to them lie on the stack, which is not counted. */
static uint64_t allocate_and_free(unsigned index)
{
    void *blocks[BLOCKS_MAX];
    uint64_t sum = 0;
    for (uint64_t i = 0; i < blocks_each; i++)
        blocks[i] = allocate(bytes, (unsigned char)(index + seed + i));
    for (uint64_t i = 0; i < blocks_each; i++)
        sum = sum * 31 + release(blocks[i]);
    return sum;
}

static uint64_t expected_sum(unsigned index)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < blocks_each; i++)
        sum = sum * 31 + (unsigned char)(index + seed + i);
    return sum;
}

static void *idle(void *argument_)
{
    unsigned index = (unsigned)(uintptr_t)argument_;
    if (blocks_each > 0)
        sums[index] = allocate_and_free(index);
    else
        kept[index] = allocate(bytes, (unsigned char)(index + seed));
    pthread_barrier_wait(&allocated);
    pthread_barrier_wait(&released);
    return NULL;
}

static void start_thread(pthread_t *thread, unsigned index)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (stacks != NULL)
        pthread_attr_setstack(&attributes, stacks + (size_t)index * STACK_BYTES, STACK_BYTES);
    if (pthread_create(thread, &attributes, idle, (void *)(uintptr_t)index) != 0)
        fail("thread %u could not be created", index);
    pthread_attr_destroy(&attributes);
}

static void make_stacks(unsigned count)
{
    stacks = mmap(NULL, (size_t)count * STACK_BYTES, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED)
        fail("no room for %u stacks", count);
    madvise(stacks, (size_t)count * STACK_BYTES, MADV_NOHUGEPAGE);
}

/* How much of the stacks is resident. */
static double stacks_kib(unsigned count)
{
    static unsigned char pages[STACK_BYTES / PAGE_BYTES];
    size_t resident = 0;
    for (unsigned i = 0; i < count; i++) {
        if (mincore(stacks + (size_t)i * STACK_BYTES, STACK_BYTES, pages) != 0)
            fail("mincore failed");
        for (size_t page = 0; page < sizeof pages; page++)
            resident += pages[page] & 1;
    }
    return (double)resident * PAGE_BYTES / 1024;
}

static double grown(struct memory from, struct memory to)
{
    return (double)(to.resident_kib - from.resident_kib);
}

static double grown_anonymous(struct memory from, struct memory to)
{
    return (double)(to.anonymous_kib - from.anonymous_kib);
}

static void result_above_stacks(struct memory start, const struct aftermath *after, double stack)
{
    result_number("stacks_kib", stack);
    result_number("above_stacks_0s_kib", grown_anonymous(start, after->at[0]) - stack);
    result_number("above_stacks_last_kib", grown_anonymous(start, aftermath_last(after)) - stack);
    result_number("above_stacks_trimmed_kib", grown_anonymous(start, after->trimmed) - stack);
}

/* The check of what a thread had, which another may have overwritten. */
static uint64_t thread_check(unsigned index)
{
    if (blocks_each > 0) {
        if (sums[index] != expected_sum(index))
            fail("a block of thread %u changed", index);
        return sums[index];
    }
    unsigned char tag = release(kept[index]);
    if (tag != (unsigned char)(index + seed))
        fail("the block of thread %u changed", index);
    return tag;
}

int main(int argc, char **argv)
{
    static pthread_t threads[IDLE_MAX];
    uint64_t check = 0;
    double stack = 0;
    seed = argument(argc, argv, 1, "seed");
    unsigned count = (unsigned)argument(argc, argv, 2, "threads");
    bytes = argument(argc, argv, 3, "bytes");
    bool waits = argc > 4 && argument(argc, argv, 4, "wait") != 0;
    blocks_each = argc > 5 ? argument(argc, argv, 5, "blocks") : 0;
    if (count == 0 || count > IDLE_MAX || blocks_each > BLOCKS_MAX)
        fail("between 1 and %d threads, at most %d blocks", IDLE_MAX, BLOCKS_MAX);
    if (blocks_each > 0)
        make_stacks(count);
    pthread_barrier_init(&allocated, NULL, count + 1);
    pthread_barrier_init(&released, NULL, count + 1);
    watch_start();
    struct memory start = watch_sample();
    start_clock();
    for (unsigned i = 0; i < count; i++)
        start_thread(&threads[i], i);
    pthread_barrier_wait(&allocated);
    stop_clock();
    struct aftermath after = watch_aftermath(waits);
    if (blocks_each > 0)
        stack = stacks_kib(count);
    pthread_barrier_wait(&released);
    for (unsigned i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        check = check * 31 + thread_check(i);
    }
    if (blocks_each > 0)
        result_above_stacks(start, &after, stack);
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
