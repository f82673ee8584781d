/*
 * threads.c: several threads trade blocks; each phase ends with all of them gone, so that threads
 * also come and go.
 *
 * One thread more than the oracles' does nothing but trim and read statistics, as any thread may.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "arguments.h"
#include "calmalloc/calmalloc.h"

enum { THREADS = 4, PHASES = 6, MIB = 1024 * 1024 };

static struct oracle *oracles[THREADS];
static struct mailbox mailbox;
static _Atomic bool is_over;
static uint64_t steps_a_phase;

static void *work(void *argument)
{
    oracle_steps(argument, steps_a_phase);
    return NULL;
}

static void *watch(void *argument)
{
    struct calm_stats stats;
    while (!atomic_load(&is_over)) {
        calm_stats_read(&stats);
        calm_trim();
    }
    return argument;
}

static void phase(void)
{
    pthread_t threads[THREADS], watcher;
    atomic_store(&is_over, false);
    if (pthread_create(&watcher, NULL, watch, NULL) != 0)
        stress_fail("pthread_create failed");
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, oracles[i]) != 0)
            stress_fail("pthread_create failed");
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&is_over, true);
    pthread_join(watcher, NULL);
}

static void run(uint64_t seed, uint64_t steps)
{
    bool is_storm = seed % 3 == 0;
    steps_a_phase = steps / PHASES / (is_storm ? 80 : 1);
    atomic_store(&stress_peak_bytes, atomic_load(&stress_live_bytes));
    for (unsigned i = 0; i < THREADS; i++) {
        oracle_begin(oracles[i], seed * THREADS + i);
        oracles[i]->mailbox = &mailbox;
        oracles[i]->live_max = 24 * (size_t)MIB;
        static const size_t size_max[] = {128, 4096, 4 * (size_t)MIB};
        oracles[i]->size_max = size_max[seed % 3];
        oracles[i]->is_storm = is_storm;
    }
    for (unsigned i = 0; i < PHASES; i++) {
        phase();
        for (unsigned thread = 0; thread < THREADS; thread++)
            oracle_check(oracles[thread]);
        oracle_check_apart((const struct oracle *const *)oracles, THREADS, &mailbox);
        size_t live = atomic_load(&stress_live_bytes);
        stress_check_heap(live, 100, atomic_load(&stress_peak_bytes) / 2 * 3 + 32 * (size_t)MIB);
        calm_trim();
        stress_check_heap(live, 120, 32 * (size_t)MIB);
    }
    for (unsigned thread = 0; thread < THREADS; thread++)
        oracle_end(oracles[thread]);
    mailbox_end(&mailbox);
    calm_trim();
    stress_check_heap(0, 100, 8 * (size_t)MIB);
}

int main(int argc, char **argv)
{
    struct arguments arguments = arguments_read(argc, argv, 4, 12000);
    for (unsigned i = 0; i < THREADS; i++)
        oracles[i] = malloc(sizeof *oracles[i]);
    for (uint64_t i = 0; i < arguments.seeds; i++) {
        arguments_repro(&arguments, arguments.seed + i);
        run(arguments.seed + i, arguments.steps);
    }
    return 0;
}
