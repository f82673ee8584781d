/*
 * tasks.c: a task engine in sixty lines: one worker sums numbers that another thread submits, and
 * counts the tasks that began within two microseconds of their submission.
 *
 *     cc tasks.c -lcalmexec -lcalmpool -pthread
 */
#define _GNU_SOURCE
#include <calmalloc/exec.h>
#include <stdio.h>
#include <time.h>

enum { TASKS = 10000, SOON_NS = 2000 };

struct order {
    uint64_t submitted_ns, number;
};
static uint64_t sum, soon; /* the worker's, until all is drained */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Runs on the worker's core; its blocks come from that core's pool. */
static void add(calm_worker *worker, void *payload)
{
    const struct order *order = payload;
    soon += now_ns() - order->submitted_ns < SOON_NS;
    uint64_t *copy = calm_worker_alloc(worker, sizeof *copy);
    if (copy == NULL)
        return; /* the pool is exhausted: nobody waits, nothing breaks */
    *copy = order->number;
    sum += *copy;
    calm_worker_free(worker, copy);
}

int main(void)
{
    const size_t block_bytes[] = {64};
    const uint32_t percent[] = {100};
    struct calm_pool_config pool = {block_bytes, percent, .classes = 1, .bytes = 1 << 20};
    struct calm_exec_config config = {
        .pools = &pool, .cores = 1, .inbox_capacity = 1024, .payload_bytes = sizeof(struct order)};
    calm_exec *exec;
    int error = calm_exec_start(&config, &exec);
    for (uint64_t number = 0; error == 0 && number < TASKS; number++) {
        struct order order = {now_ns(), number};
        struct calm_task task = {
            .function = add, .payload = &order, .payload_bytes = sizeof order, .block_bytes = 8};
        error = calm_exec_submit(exec, &task);
        calm_exec_drain(exec); /* the core is idle when the next one comes */
    }
    if (error != 0)
        return fprintf(stderr, "%s\n", calm_exec_strerror(error)) > 0;
    calm_exec_destroy(exec);
    printf("sum %ju of %d tasks; %ju of them began within 2 us\n", (uintmax_t)sum, TASKS,
           (uintmax_t)soon);
    return sum != (uint64_t)TASKS * (TASKS - 1) / 2;
}
