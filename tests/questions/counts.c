/*
 * counts.c: how dear the questions are that servers ask all the time, of a heap that holds as many
 * MiB as the first argument says: the most time, in the median, and figures that fit together.
 */
#define _GNU_SOURCE

#include "../environment/check.h"

#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS = 51 };

static double median(double *times, size_t count)
{
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0 && times[j] < times[j - 1]; j--) {
            double swapped = times[j];
            times[j] = times[j - 1];
            times[j - 1] = swapped;
        }
    return times[count / 2];
}

static void fill(size_t mib)
{
    static const size_t sizes[] = {48, 240, 1000, 6000, 70000};
    for (size_t bytes = 0, i = 0; bytes < mib * MIB; bytes += sizes[i++ % 5]) {
        void *volatile *block = malloc(sizes[i % 5]);
        CHECK(block != NULL, "no block");
        *block = NULL;
        if (i % 3 == 0)
            free((void *)(uintptr_t)block);
    }
}

static void check_sums(const struct mallinfo2 *info)
{
    CHECK(info->uordblks <= info->arena, "%zu of %zu are used", info->uordblks, info->arena);
    CHECK(info->uordblks + info->fordblks == info->arena, "%zu and %zu are not %zu", info->uordblks,
          info->fordblks, info->arena);
    CHECK(info->keepcost <= info->fordblks && info->fsmblks <= info->fordblks, "parts exceed it");
}

int main(int argc, char **argv)
{
    CHECK(argc == 3, "usage: counts MIB MICROSECONDS");
    size_t mib = strtoul(argv[1], NULL, 10), limit_us = strtoul(argv[2], NULL, 10);
    double times[TURNS];
    check_is_calmalloc();
    check_time_limit(100);
    fill(mib);
    for (int i = 0; i < TURNS; i++) {
        double begun = seconds_now();
        struct mallinfo2 info = mallinfo2();
        times[i] = (seconds_now() - begun) * 1e6;
        check_sums(&info);
    }
    double middle = median(times, TURNS);
    printf("mallinfo2 of %zu MiB: %.1f us\n", mib, middle);
    CHECK(middle <= (double)limit_us, "mallinfo2 takes %.1f us", middle);
    return 0;
}
