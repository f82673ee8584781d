/*
 * ahead.c: what a page costs that is faulted in by its first write, or ahead of the write, so many
 * at once, by madvise(MADV_POPULATE_WRITE). 4 MiB of small pages that the kernel has at hand.
 *
 * Prints one line for each size of a step: microseconds a page, the lower quartile and the median
 * of TURNS.
 *
 *     cc -O2 ahead.c -o ahead && ./ahead
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { TURNS = 400, BYTES = 4 << 20, PAGE = 4096, STEP_FIRST = 16 * 1024, STEP_LAST = 1 << 20 };

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

/* step 0: no page ahead of its write. */
static double turn(volatile char *memory, size_t step)
{
    madvise((void *)memory, BYTES, MADV_DONTNEED);
    double begun = now_us();
    for (size_t at = 0; at < BYTES; at += PAGE) {
        if (step != 0 && at % step == 0 &&
            madvise((char *)memory + at, step, MADV_POPULATE_WRITE) != 0) {
            perror("MADV_POPULATE_WRITE");
            exit(1);
        }
        memory[at] = 1;
    }
    return (now_us() - begun) / (BYTES / PAGE);
}

int main(void)
{
    static double us[TURNS];
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || madvise(memory, BYTES, MADV_NOHUGEPAGE) != 0) {
        perror("4 MiB of small pages");
        return 1;
    }
    for (size_t step = 0; step <= STEP_LAST; step = step == 0 ? STEP_FIRST : 4 * step) {
        for (unsigned i = 0; i < TURNS; i++)
            us[i] = turn(memory, step);
        qsort(us, TURNS, sizeof us[0], compare);
        printf("%4zu KiB ahead: %.2f, %.2f\n", step / 1024, us[TURNS / 4], us[TURNS / 2]);
    }
    return 0;
}
