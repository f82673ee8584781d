/*
 * grow_many SEED BUFFERS LEAST MOST MIB: BUFFERS buffers of LEAST bytes that grow in turn by
 * realloc, each time by a tenth, until each has MOST. Of what a step adds only the first byte is
 * written.
 *
 * Measures whether a large block's pages are moved when it grows, for how many blocks at once, and
 * what that costs when there is next to nothing in them: who copies pays for all bytes. A run that
 * has more than MIB resident ends there, as a failure: BUFFERS times MOST should be less. Does not
 * measure buffers that are filled (`grow_steps`; `large`, MODE 1).
 */
#include "workload.h"

enum { BUFFERS_MAX = 64, STEPS_MAX = 256, PAGE = 4096 };

static unsigned char *buffers[BUFFERS_MAX];
static size_t begins[STEPS_MAX];
static unsigned steps;

static unsigned char tag_of(uint64_t seed, unsigned buffer, unsigned step)
{
    return (unsigned char)(random_stream(seed, buffer * STEPS_MAX + step) >> 32);
}

/* All buffers, one after the other, to `bytes`. */
static void grow_all(uint64_t seed, unsigned count, size_t bytes, uint64_t mib)
{
    for (unsigned i = 0; i < count; i++) {
        start_clock();
        buffers[i] = realloc(buffers[i], bytes);
        if (buffers[i] == NULL)
            fail("realloc to %zu returned NULL", bytes);
        *(volatile unsigned char *)(buffers[i] + begins[steps]) = tag_of(seed, i, steps);
        stop_clock();
        fail_above(mib);
    }
    steps++;
}

static uint64_t drop(uint64_t seed, unsigned buffer)
{
    uint64_t sum = 0;
    for (unsigned step = 0; step < steps; step++) {
        if (buffers[buffer][begins[step]] != tag_of(seed, buffer, step))
            fail("realloc lost byte %zu", begins[step]);
        sum = sum * 31 + buffers[buffer][begins[step]];
    }
    free(buffers[buffer]);
    return sum;
}

int main(int argc, char **argv)
{
    uint64_t check = 0, seed = argument(argc, argv, 1, "seed");
    unsigned count = (unsigned)argument(argc, argv, 2, "buffers");
    size_t bytes = argument(argc, argv, 3, "least"), most = argument(argc, argv, 4, "most");
    uint64_t mib = argument(argc, argv, 5, "MiB at most");
    if (count == 0 || count > BUFFERS_MAX || bytes < PAGE || bytes > most)
        fail("1 to %d buffers, and lengths from %d bytes on", BUFFERS_MAX, PAGE);
    for (size_t before = 0; before < most; before = bytes, bytes += bytes / 10) {
        if (steps == STEPS_MAX)
            fail("at most %d steps", STEPS_MAX);
        bytes = bytes < most ? bytes : most;
        begins[steps] = before;
        grow_all(seed, count, bytes, mib);
    }
    for (unsigned i = 0; i < count; i++)
        check = check * 31 + drop(seed, i);
    return result_print(check);
}
