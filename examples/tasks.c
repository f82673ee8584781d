/*
 * tasks.c: a task engine in sixty lines: one worker sums numbers that another thread submits, and
 * says how long a task took from its submission to its start.
 *
 *     cc tasks.c -lcalmexec -lcalmpool -pthread
 */
#define _GNU_SOURCE

#include <calmalloc/exec.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TASKS = 10001 };

struct order {
    uint64_t submitted_ns;
    uint64_t number;
};

static uint64_t waits_ns[TASKS];
static uint64_t sum;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Runs on the worker's core; its blocks come from that core's pool. */
static void add(calm_worker *worker, void *payload)
{
    struct order *order = payload;
    waits_ns[order->number] = now_ns() - order->submitted_ns;
    uint64_t *copy = calm_worker_alloc(worker, sizeof *copy);
    if (copy == NULL)
        return; /* the pool is exhausted: nobody waits, nothing breaks */
    *copy = order->number;
    sum += *copy;
    calm_worker_free(worker, copy);
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

int main(void)
{
    const size_t block_bytes[] = {64};
    const uint32_t percent[] = {100};
    struct calm_pool_config pool = {
        .block_bytes = block_bytes, .percent = percent, .classes = 1, .bytes = 1 << 20};
    struct calm_exec_config config = {
        .pools = &pool, .cores = 1, .inbox_capacity = 1024, .payload_bytes = sizeof(struct order)};
    calm_exec *exec;
    int error = calm_exec_start(&config, &exec);
    for (uint64_t number = 0; error == 0 && number < TASKS; number++) {
        struct order order = {.submitted_ns = now_ns(), .number = number};
        struct calm_task task = {.function = add,
                                 .payload = &order,
                                 .payload_bytes = sizeof order,
                                 .block_bytes = sizeof(uint64_t)};
        error = calm_exec_submit(exec, &task);
        calm_exec_drain(exec); /* the core is idle when the next one comes */
    }
    if (error != 0) {
        fprintf(stderr, "%s\n", calm_exec_strerror(error));
        return 1;
    }
    calm_exec_destroy(exec);
    qsort(waits_ns, TASKS, sizeof *waits_ns, compare);
    printf("sum %llu, median from submission to start %llu ns\n", (unsigned long long)sum,
           (unsigned long long)waits_ns[TASKS / 2]);
    return sum != (uint64_t)TASKS * (TASKS - 1) / 2;
}
