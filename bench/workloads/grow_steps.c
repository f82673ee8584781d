/*
 * grow_steps SEED BYTES STEP MIB: grows one buffer to BYTES by realloc, STEP bytes more each time,
 * and fills it as it grows, as a program does that keeps a download in memory. Between two steps it
 * allocates two blocks of 15 sizes that stay, and a block of 64 KiB in place of the last one.
 *
 * Measures whether a large block that grows a little at a time is copied each time. What lies
 * behind it is soon taken, so it can rarely grow where it is. A run that has more than MIB resident
 * ends there, as a failure. Does not measure growth by a part of the length (`large`, MODE 1), nor
 * several blocks that grow side by side (`grow_many`).
 */
#include "slots.h"

enum { BESIDE = 64 << 10, SMALL_A_STEP = 2, STEPS_A_LOOK = 8 };

static struct table small, beside;

static unsigned char tag_of(uint64_t seed, size_t step)
{
    return (unsigned char)(random_stream(seed, step) >> 32);
}

/* Each step's first and last byte. Returns their sum. */
static uint64_t check_steps(const unsigned char *buffer, uint64_t seed, size_t steps, size_t step)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < steps; i++) {
        size_t first = i * step, last = first + step - 1;
        if (buffer[first] != tag_of(seed, i) || buffer[last] != tag_of(seed, i))
            fail("realloc lost byte %zu or %zu", first, last);
        sum += buffer[first];
    }
    return sum;
}

int main(int argc, char **argv)
{
    uint64_t seed = argument(argc, argv, 1, "seed");
    size_t bytes = argument(argc, argv, 2, "bytes"), step = argument(argc, argv, 3, "step");
    uint64_t mib = argument(argc, argv, 4, "MiB at most");
    if (step == 0 || bytes / step < 2 || bytes / step > UINT32_MAX / SMALL_A_STEP)
        fail("at least two steps");
    size_t steps = bytes / step;
    unsigned char *buffer = NULL;
    table_open(&small, (uint32_t)steps * SMALL_A_STEP, random_stream(seed, 0));
    table_open(&beside, 1, random_stream(seed, 1));
    start_clock();
    for (size_t i = 0; i < steps; i++) {
        if (i % STEPS_A_LOOK == 0) {
            stop_clock();
            fail_above(mib);
            start_clock();
        }
        buffer = realloc(buffer, (i + 1) * step);
        if (buffer == NULL)
            fail("realloc to %zu returned NULL", (i + 1) * step);
        memset(buffer + i * step, tag_of(seed, i), step);
        table_grow(&small, small.live + SMALL_A_STEP);
        if (i > 0)
            slot_empty(&beside, 0);
        slot_hold(&beside, 0, slot_site(BESIDE), BESIDE);
    }
    stop_clock();
    uint64_t check = check_steps(buffer, seed, steps, step);
    beside.live = 1;
    table_shrink(&beside, 0);
    table_shrink(&small, 0);
    free(buffer);
    return result_print(check + small.check * 31 + beside.check);
}
