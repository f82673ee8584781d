/*
 * churn.c: threads that live for a moment, most of them leaving blocks to their successors.
 *
 * After thousands of threads no more is resident than after the first hundred, to within less than
 * 1 KiB a thread.
 */
#include <pthread.h>

#include "arguments.h"
#include "calmalloc/calmalloc.h"

enum { AT_A_TIME = 16, WARM_ROUNDS = 8, STEPS = 60, MIB = 1024 * 1024 };

static struct mailbox mailbox;
static _Atomic uint64_t next_seed;

static void *live_shortly(void *argument)
{
    struct oracle *oracle = malloc(sizeof *oracle);
    oracle_begin(oracle, atomic_fetch_add(&next_seed, 1));
    oracle->mailbox = &mailbox;
    oracle->size_max = 8192;
    oracle_steps(oracle, STEPS);
    oracle_end(oracle);
    free(oracle);
    return argument;
}

static void round_of_threads(void)
{
    pthread_t threads[AT_A_TIME];
    for (unsigned i = 0; i < AT_A_TIME; i++)
        if (pthread_create(&threads[i], NULL, live_shortly, NULL) != 0)
            stress_fail("pthread_create failed");
    for (unsigned i = 0; i < AT_A_TIME; i++)
        pthread_join(threads[i], NULL);
}

static size_t resident(void)
{
    struct calm_stats stats;
    calm_trim();
    calm_stats_read(&stats);
    return stats.resident_bytes;
}

int main(int argc, char **argv)
{
    struct arguments arguments = arguments_read(argc, argv, 1, 300);
    arguments_repro(&arguments, arguments.seed);
    atomic_store(&next_seed, arguments.seed);
    for (unsigned i = 0; i < WARM_ROUNDS; i++)
        round_of_threads();
    size_t before = resident();
    for (uint64_t i = 0; i < arguments.steps * arguments.seeds; i++)
        round_of_threads();
    size_t after = resident();
    if (after > before + 4 * (size_t)MIB)
        stress_fail("%zu bytes resident after %u rounds of threads, %zu after all", before,
                    (unsigned)WARM_ROUNDS, after);
    struct calm_stats stats;
    calm_stats_read(&stats);
    if (stats.threads > 1)
        stress_fail("%zu caches are attached; one thread lives", stats.threads);
    stress_check_heap(atomic_load(&stress_live_bytes), 200, 8 * (size_t)MIB);
    mailbox_end(&mailbox);
    return 0;
}
