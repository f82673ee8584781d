/*
 * tiny SEED: allocates one block of 32 B, frees it and ends.
 *
 * Measures what merely being there costs: the peak RSS of the process, seen from the launcher,
 * against the one without a library. Includes the library's own code and relocations and those of
 * libraries it needs. Does not measure time.
 */
#include "workload.h"

int main(int argc, char **argv)
{
    uint64_t seed = argument(argc, argv, 1, "seed");
    start_clock();
    uint64_t check = release(allocate(32, (unsigned char)seed));
    stop_clock();
    return result_print(check);
}
