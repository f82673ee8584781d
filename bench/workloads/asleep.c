/*
 * asleep SEED THREADS LIVE LEAST MOST REPLACEMENTS WAIT: THREADS threads that each hold LIVE blocks
 * of LEAST to MOST bytes, multiples of 16, replace one at random REPLACEMENTS times, free all, and
 * sleep for good. With WAIT 1 it samples 1 and 11 s after the last free as well.
 *
 * Measures what a program holds whose threads have freed all and call the allocator no more: what
 * was freed, and what lies in caches that only a sleeping thread could empty. Every page of a block
 * is touched. `above_start_trimmed_kib` is what is resident, after the library was asked to give
 * back, above what was before the threads came: their stacks are in it, alike for all. Does not
 * measure threads that go on working, nor ones that end.
 */
#include "resident.h"
#include "slots.h"

enum { SLEEPERS_MAX = 64, GRANULE = 16 };

static struct table tables[SLEEPERS_MAX];
static uint32_t least, most;
static uint64_t replacements;
static pthread_barrier_t filled, sampled, freed;

static void fill(struct table *table, uint32_t index)
{
    uint32_t sizes = (most - least) / GRANULE + 1;
    uint32_t bytes = least + GRANULE * random_below(&table->random, sizes);
    slot_hold(table, index, slot_site(bytes), bytes);
}

static void *work_and_sleep(void *argument_)
{
    struct table *table = argument_;
    while (table->live < table->capacity)
        fill(table, table->live++);
    for (uint64_t i = 0; i < replacements; i++) {
        uint32_t index = random_below(&table->random, table->live);
        slot_empty(table, index);
        fill(table, index);
    }
    pthread_barrier_wait(&filled);
    pthread_barrier_wait(&sampled);
    table_shrink(table, 0);
    table_close(table);
    pthread_barrier_wait(&freed);
    for (;;)
        pause();
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t check = 0, seed = argument(argc, argv, 1, "seed");
    unsigned count = (unsigned)argument(argc, argv, 2, "threads");
    uint32_t live = (uint32_t)argument(argc, argv, 3, "live");
    least = (uint32_t)argument(argc, argv, 4, "least");
    most = (uint32_t)argument(argc, argv, 5, "most");
    replacements = argument(argc, argv, 6, "replacements");
    bool waits = argument(argc, argv, 7, "wait") != 0;
    if (count == 0 || count > SLEEPERS_MAX || live == 0 || least == 0 || least % GRANULE != 0 ||
        most % GRANULE != 0 || most < least)
        fail("1 to %d threads, some blocks, and lengths that are multiples of %d", SLEEPERS_MAX,
             GRANULE);
    pthread_barrier_init(&filled, NULL, count + 1);
    pthread_barrier_init(&sampled, NULL, count + 1);
    pthread_barrier_init(&freed, NULL, count + 1);
    for (unsigned i = 0; i < count; i++)
        table_open(&tables[i], live, random_stream(seed, i));
    watch_start();
    struct memory start = watch_sample();
    start_clock();
    for (unsigned i = 0; i < count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work_and_sleep, &tables[i]) != 0)
            fail("thread %u could not be created", i);
    }
    pthread_barrier_wait(&filled);
    stop_clock();
    struct memory full = watch_sample();
    start_clock();
    pthread_barrier_wait(&sampled);
    pthread_barrier_wait(&freed);
    stop_clock();
    struct aftermath after = watch_aftermath(waits);
    for (unsigned i = 0; i < count; i++)
        check = check * 31 + tables[i].check;
    result_memory("start", start);
    result_memory("full", full);
    result_aftermath("", &after);
    result_number("above_start_trimmed_kib",
                  (double)(after.trimmed.resident_kib - start.resident_kib));
    result_watch();
    return result_print(check);
}
