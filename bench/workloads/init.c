/*
 * init SEED COUNT ROUNDS: starts itself ROUNDS times under the same library. Each start reads the
 * clock right before it replaces its program and says when a first block was allocated and freed
 * (`ready_ns`) and how long COUNT blocks of 64 B then took (`fill_ns`, `fill_ns_a_block`). Medians.
 *
 * Measures loading, linking and setting up an allocator, and the growth of a fresh heap, page
 * faults included. A library that needs others pays for loading them. Does not measure a heap that
 * was used before.
 */
#include "workload.h"

#include <sys/wait.h>

enum { BYTES = 64, ROUNDS_MAX = 1000 };

struct report {
    double ready;
    double fill;
    uint64_t check;
};

/* The started program: argv[3] is when it was started, argv[4] where the answer goes. */
static int fill(char **argv)
{
    double started = strtod(argv[3], NULL);
    unsigned char ready_tag = release(allocate(BYTES, 7));
    double ready = read_clocks().wall;
    uint64_t count = strtoull(argv[2], NULL, 10), check = ready_tag;
    void **blocks = calloc(count, sizeof *blocks);
    if (blocks == NULL)
        fail("no memory for the table");
    memset(blocks, 1, count * sizeof *blocks);
    double before = read_clocks().wall;
    for (uint64_t i = 0; i < count; i++)
        blocks[i] = allocate(BYTES, (unsigned char)i);
    double after = read_clocks().wall;
    for (uint64_t i = 0; i < count; i++)
        if (release(blocks[i]) == (unsigned char)i)
            check++;
    struct report report = {ready - started, after - before, check};
    int file = atoi(argv[4]);
    return write(file, &report, sizeof report) == (ssize_t)sizeof report ? 0 : 1;
}

static struct report start_once(char *program, char *count)
{
    int ends[2], status;
    struct report report = {0, 0, 0};
    if (pipe(ends) != 0)
        fail("no pipe");
    pid_t child = fork();
    if (child == 0) {
        char now[40], file[16];
        snprintf(file, sizeof file, "%d", ends[1]);
        snprintf(now, sizeof now, "%.9f", read_clocks().wall);
        char *argv[] = {program, "start", count, now, file, NULL};
        execv("/proc/self/exe", argv);
        _exit(127);
    }
    close(ends[1]);
    ssize_t got = child < 0 ? -1 : read(ends[0], &report, sizeof report);
    close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0 ||
        got != (ssize_t)sizeof report)
        fail("a start failed");
    return report;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
    static double ready[ROUNDS_MAX], filled[ROUNDS_MAX];
    if (argc == 5 && strcmp(argv[1], "start") == 0)
        return fill(argv);
    argument(argc, argv, 1, "seed");
    uint64_t count = argument(argc, argv, 2, "count"), rounds = argument(argc, argv, 3, "rounds");
    if (rounds == 0 || rounds > ROUNDS_MAX || count == 0)
        fail("between 1 and %d rounds of at least one block", ROUNDS_MAX);
    start_clock();
    for (uint64_t i = 0; i < rounds; i++) {
        struct report report = start_once(argv[0], argv[2]);
        if (report.check != count + 7)
            fail("the bytes read back are not the bytes written");
        ready[i] = report.ready * 1e9;
        filled[i] = report.fill * 1e9;
    }
    stop_clock();
    qsort(ready, rounds, sizeof *ready, compare);
    qsort(filled, rounds, sizeof *filled, compare);
    result_number("ready_ns", ready[rounds / 2]);
    result_number("ready_best_ns", ready[0]);
    result_number("fill_ns", filled[rounds / 2]);
    result_number("fill_ns_a_block", filled[rounds / 2] / (double)count);
    return result_print(count * rounds);
}
