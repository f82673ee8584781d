/*
 * owner SEED REMOTE BYTES OPERATIONS: the main thread allocates blocks of BYTES for four streams
 * and hands each over to a second thread on another core, which reads it. REMOTE 1: the second
 * thread frees it. REMOTE 0: it hands it back, and the first thread frees it.
 *
 * Measures what frees by another core do to the tail of the thread that allocates: its mallocs are
 * timed one by one, and nothing but who frees differs between the two rows. At most RING blocks of
 * a stream are on the way, so that the rows hold the same memory. Now and then a malloc is not
 * timed but executed one instruction at a time and counted, while the other thread goes on
 * (stepped.h); the SETTLE calls after it are not timed either, as the other thread has caught up
 * and lines are cold. A library of pools says by pool_malloc_bound() how many instructions its own
 * alloc may take. Does not measure the freeing thread.
 */
#include "stepped.h"
#include "tail.h"

#include <sched.h>

enum { STREAMS = 4, RING = 1024, STEP_EVERY = 1 << 13, SETTLE = 512, STAMP_BYTES = 16 };

#include "ring.h"

static struct ring there[STREAMS], back[STREAMS];

static uint64_t bytes, operations, check, most, counted;
static bool is_remote;
static struct tail mallocs, settling; /* the latter are not told */

/* Cores that the process may use, one for each of the two where there are two. */
static void pin(unsigned index)
{
    cpu_set_t allowed, one;
    unsigned seen = 0;
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (unsigned core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &allowed) && seen++ == index) {
            CPU_ZERO(&one);
            CPU_SET(core, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
}

static void *malloc_counted(uint64_t stamp)
{
    void *block = stepped_malloc(call_malloc, bytes);
    most = stepped_count() > most ? stepped_count() : most;
    counted++;
    if (block == NULL)
        fail("malloc(%llu) returned NULL", (unsigned long long)bytes);
    stamp_put(block, bytes, stamp);
    return block;
}

/* Whether the call that is counted is less than SETTLE calls ago. */
static bool is_settling(uint64_t i)
{
    return i >= STEP_EVERY && i % STEP_EVERY < SETTLE;
}

static void allocate_all(void)
{
    for (uint64_t i = 0; i < operations; i++) {
        unsigned stream = i % STREAMS;
        void *block = i % STEP_EVERY == STEP_EVERY - 1
                          ? malloc_counted(i)
                          : timed_malloc(is_settling(i) ? &settling : &mallocs, bytes, i);
        while (!ring_give(&there[stream], block))
            sched_yield();
        if ((block = ring_take(&back[stream])) != NULL)
            free(block);
    }
}

static void read_all(void)
{
    for (uint64_t i = 0; i < operations; i++) {
        unsigned stream = i % STREAMS;
        void *block;
        while ((block = ring_take(&there[stream])) == NULL)
            sched_yield();
        stamp_verify(block, bytes, i);
        check += i;
        if (is_remote)
            free(block);
        else
            while (!ring_give(&back[stream], block))
                sched_yield();
    }
}

static void *read_there(void *unused)
{
    pin(1);
    read_all();
    return unused;
}

int main(int argc, char **argv)
{
    argument(argc, argv, 1, "seed");
    is_remote = argument(argc, argv, 2, "remote") != 0;
    bytes = argument(argc, argv, 3, "bytes");
    operations = argument(argc, argv, 4, "operations");
    if (bytes < STAMP_BYTES)
        fail("blocks of at least %d bytes", STAMP_BYTES);
    unsigned (*bound)(void) = (unsigned (*)(void))dlsym(RTLD_DEFAULT, "pool_malloc_bound");
    tail_begin();
    stepped_begin();
    pin(0);
    pthread_t reader;
    start_clock();
    if (pthread_create(&reader, NULL, read_there, NULL) != 0)
        fail("no second thread");
    allocate_all();
    pthread_join(reader, NULL);
    stop_clock();
    for (unsigned stream = 0; stream < STREAMS; stream++)
        for (void *block; (block = ring_take(&back[stream])) != NULL;)
            free(block);
    tail_result_empty();
    tail_result("malloc", &mallocs);
    result_number("most_instructions", (double)most);
    result_number("calls_counted", (double)counted);
    result_number("bound_instructions", bound == NULL ? 0 : (double)bound());
    return result_print(check);
}
