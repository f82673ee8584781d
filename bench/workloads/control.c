/*
 * control SEED OPERATIONS: the loop of `replace` with fixed buffers in the place of an allocator.
 *
 * Measures the clock, the scheduler and the caches of the machine. No allocator takes part, so
 * every library must come out equal here: what is left is noise, and a difference smaller than this
 * row's says nothing. Does not measure any library.
 */
#include "workload.h"

enum { LIVE = 1000, BYTES = 64 };

static unsigned char buffers[LIVE][BYTES];

int main(int argc, char **argv)
{
    uint64_t random = random_stream(argument(argc, argv, 1, "seed"), 0);
    uint64_t operations = argument(argc, argv, 2, "operations");
    uint64_t check = 0;
    for (unsigned i = 0; i < LIVE; i++)
        buffers[i][0] = (unsigned char)i;
    start_clock();
    for (uint64_t i = 0; i < operations; i++) {
        uint32_t slot = random_below(&random, LIVE);
        check += *(volatile unsigned char *)&buffers[slot][0];
        *(volatile unsigned char *)&buffers[slot][0] = (unsigned char)slot;
    }
    stop_clock();
    return result_print(check);
}
