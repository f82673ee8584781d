/*
 * single.c: one thread, every operation, all sizes; the heap is checked after every phase.
 */
#include "arguments.h"
#include "calmalloc/calmalloc.h"

enum { PHASES = 8, MIB = 1024 * 1024 };

static struct oracle oracle;

static void run(uint64_t seed, uint64_t steps)
{
    oracle_begin(&oracle, seed);
    if (seed % 2 == 0)
        oracle.size_max = 32768; /* slabs only */
    for (unsigned phase = 0; phase < PHASES; phase++) {
        oracle_steps(&oracle, steps / PHASES);
        oracle_check(&oracle);
        const struct oracle *all[] = {&oracle};
        oracle_check_apart(all, 1, NULL);
        stress_check_heap(oracle.live_bytes, 100,
                          oracle.peak_bytes * 2 + oracle.size_max + 24 * (size_t)MIB);
        if (phase % 2 == 1) {
            calm_trim();
            stress_check_heap(oracle.live_bytes, 120, 24 * (size_t)MIB);
        }
    }
    oracle_end(&oracle);
    calm_trim();
    stress_check_heap(0, 100, 8 * (size_t)MIB);
}

int main(int argc, char **argv)
{
    struct arguments arguments = arguments_read(argc, argv, 6, 12000);
    for (uint64_t i = 0; i < arguments.seeds; i++) {
        arguments_repro(&arguments, arguments.seed + i);
        run(arguments.seed + i, arguments.steps);
    }
    return 0;
}
