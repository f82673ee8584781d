/*
 * large SEED MODE ROUNDS: MODE 0 allocates and frees one block of 64 KiB, 128 KiB, ... 16 MiB, each
 * in turn; MODE 1 grows one block from 64 KiB to at least 16 MiB by realloc, half as much again
 * each time, then frees it.
 *
 * Measures the path of large blocks: whether spans are kept for a moment or mapped each time, and
 * whether a block grows without a copy. Only the first byte is touched in MODE 0. In MODE 1 every
 * new byte is written, as by a program that fills a buffer, and the last byte of each step is
 * compared at the end: growing what nobody writes to would time one system call. Does not measure
 * many large blocks alive at once (see the medium rows).
 */
#include "workload.h"

enum { SMALLEST = 64 << 10, LARGEST = 16 << 20, STEPS_MAX = 64 };

static uint64_t ping_pong(uint64_t seed)
{
    uint64_t check = 0;
    for (size_t bytes = SMALLEST; bytes <= LARGEST; bytes *= 2)
        check += release(allocate(bytes, (unsigned char)(seed + bytes / SMALLEST)));
    return check;
}

static uint64_t grow(uint64_t seed)
{
    size_t ends[STEPS_MAX], bytes = SMALLEST, filled = 0;
    unsigned steps = 0;
    uint64_t check = 0;
    unsigned char *block = allocate(bytes, 0);
    for (;; bytes += bytes / 2) {
        if (steps > 0 && (block = realloc(block, bytes)) == NULL)
            fail("realloc to %zu returned NULL", bytes);
        ends[steps] = bytes - 1;
        memset(block + filled, (unsigned char)(seed + steps), bytes - filled);
        filled = bytes;
        steps++;
        if (bytes >= LARGEST)
            break;
    }
    for (unsigned i = 0; i < steps; i++) {
        if (block[ends[i]] != (unsigned char)(seed + i))
            fail("realloc lost byte %zu", ends[i]);
        check += block[ends[i]];
    }
    return check + release(block);
}

int main(int argc, char **argv)
{
    uint64_t seed = argument(argc, argv, 1, "seed");
    uint64_t mode = argument(argc, argv, 2, "mode");
    uint64_t rounds = argument(argc, argv, 3, "rounds");
    uint64_t check = 0;
    start_clock();
    for (uint64_t round = 0; round < rounds; round++)
        check += mode == 0 ? ping_pong(seed + round) : grow(seed + round);
    stop_clock();
    return result_print(check);
}
