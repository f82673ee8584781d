/*
 * pairs SEED BYTES COUNT: malloc, touch, free, one after the other, always the same size.
 *
 * Measures the shortest way through an allocator: the block that comes back is the one that just
 * went. Does not measure locality, fragmentation or growth; a program that does only this does not
 * exist.
 */
#include "workload.h"

int main(int argc, char **argv)
{
    uint64_t seed = argument(argc, argv, 1, "seed");
    size_t bytes = argument(argc, argv, 2, "bytes");
    uint64_t count = argument(argc, argv, 3, "count");
    uint64_t check = 0;
    start_clock();
    for (uint64_t i = 0; i < count; i++)
        check += release(allocate(bytes, (unsigned char)(i + seed)));
    stop_clock();
    return result_print(check);
}
