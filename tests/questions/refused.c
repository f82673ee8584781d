/*
 * refused.c: a request that cannot be met costs what a refusal costs, however often it comes and
 * whatever else the program does, and takes nothing from it. One that could be met once more is.
 */
#define _GNU_SOURCE

#include "../environment/check.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { BLOCKS = 100000, SIZE = 2000, ROUNDS = 31, WORK = 2000, WORK_SIZE = 30000 };

static void *blocks[BLOCKS];

static void fill(void)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE);
        CHECK(blocks[i] != NULL, "no block");
        memset(blocks[i], 1, SIZE);
    }
    for (size_t i = 0; i < BLOCKS; i += 2) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
}

/* Leaves 60 MB that were used, and are free. */
static void work(void)
{
    static void *own[WORK];
    for (size_t i = 0; i < WORK; i++) {
        own[i] = malloc(WORK_SIZE);
        CHECK(own[i] != NULL, "no block");
        memset(own[i], 1, WORK_SIZE);
    }
    for (size_t i = 0; i < WORK; i++)
        free(own[i]);
}

static int by_value(const void *left, const void *right)
{
    double difference = *(const double *)left - *(const double *)right;
    return difference < 0 ? -1 : difference > 0;
}

/* The middle of what refusals of `bytes` take, each after some work. */
static double refusal_us(size_t bytes)
{
    double times[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++) {
        work();
        double begun = seconds_now();
        void *block = malloc((size_t)hidden((void *)bytes));
        times[i] = (seconds_now() - begun) * 1e6;
        CHECK(block == NULL, "%zu bytes were granted", bytes);
    }
    qsort(times, ROUNDS, sizeof times[0], by_value);
    return times[ROUNDS / 2];
}

/* Requests that are far beyond what there is; and, under a limit, some that are less than the heap
 * but more than what of it is free. */
static void check_costs(size_t limit_us)
{
    fill();
    work();
    const size_t sizes[] = {(size_t)1 << 60, (size_t)1 << 45, 300 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i] < (size_t)1 << 40) {
            struct rlimit data = {200 * MIB, RLIM_INFINITY};
            CHECK(setrlimit(RLIMIT_DATA, &data) == 0, "no limit");
        }
        double us = refusal_us(sizes[i]);
        printf("refusing %zu MiB takes %.1f us\n", sizes[i] / MIB, us);
        CHECK(us <= (double)limit_us, "refusing %zu MiB takes %.1f us", sizes[i] / MIB, us);
    }
}

/* Under a limit from outside. What is free lies in pieces; then all of it is free, and a block as
 * long as half of it fits. */
static void check_help(void)
{
    enum { LENGTH = 100000, COUNT_MAX = 4000 };
    static void *pieces[COUNT_MAX];
    size_t count = 0;
    while (count < COUNT_MAX && (pieces[count] = malloc(LENGTH)) != NULL)
        count++;
    CHECK(count < COUNT_MAX, "the limit is not kept");
    CHECK(count > 100, "only %zu blocks", count);
    for (int again = 0; again < 2; again++) {
        for (size_t i = again == 0 ? 0 : 1; i < count; i += 2)
            free(pieces[i]);
        void *half = malloc((size_t)hidden((void *)(count * LENGTH / 2)));
        CHECK((half != NULL) == (again == 1), "half of %zu blocks: %p", count, half);
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 3, "usage: refused cost MICROSECONDS | help 0");
    check_is_calmalloc();
    check_time_limit(100);
    if (strcmp(argv[1], "cost") == 0)
        check_costs(strtoul(argv[2], NULL, 10));
    else
        check_help();
    return 0;
}
