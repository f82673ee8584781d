/*
 * cost.c: what dispatching costs, in ns, by the clock.
 *
 *     calm_exec_cost decide POLICY CORES TASKS [SLOW]   the decisions of a simulated run
 *     calm_exec_cost start TASKS GAP_NS                 from a submission to the start of its task
 *
 * `decide` runs the simulator (load 0.7, exponential times, 64 blocks of each of 4 classes, SLOW
 * cores four times as slow), and reads the clock before and after each call of the policy; what two
 * readings alone take, in the middle, is taken off. So a decision meets lines as they are in a run,
 * and caches that the simulator has used in between.
 *
 * `start` submits to the one worker of an executor, which is pinned to the second CPU that there
 * is, from a thread that is pinned to the first; each task comes GAP_NS after the one before has
 * begun. A worker looks on for some 100 us before it sleeps.
 */
#define _GNU_SOURCE

#include <calmalloc/exec.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "keeper.h"

enum { READINGS = 100000, SAMPLES_MIN = 100, BLOCK_BYTES = 64, POOL_BYTES = 1 << 18 };
enum { INBOX = 64, SETTLE_NS = 200000 };

static struct quantiles spent[2];

/* What two readings of the clock take. */
static uint64_t reading_ns(void)
{
    static struct quantiles readings;
    for (unsigned i = 0; i < READINGS; i++) {
        uint64_t from_ns = keeper_now_ns();
        quantiles_add(&readings, keeper_now_ns() - from_ns);
    }
    return (uint64_t)quantiles_at(&readings, 0.5);
}

/* --- decisions --- */

static const struct policy *timed;

static uint32_t choose(void *state, const struct policy_view *view, const struct policy_task *task)
{
    uint64_t from_ns = keeper_now_ns();
    uint32_t core = timed->choose(state, view, task);
    quantiles_add(&spent[0], keeper_now_ns() - from_ns);
    return core;
}

static uint32_t steal(void *state, const struct policy_view *view, uint32_t thief)
{
    uint64_t from_ns = keeper_now_ns();
    uint32_t victim = timed->steal(state, view, thief);
    quantiles_add(&spent[1], keeper_now_ns() - from_ns);
    return victim;
}

static void print_spent(const char *name, const struct quantiles *of, uint64_t reading)
{
    if (of->count < SAMPLES_MIN)
        return;
    printf(", \"%s\": {\"count\": %llu, \"p50\": %.0f, \"mean\": %.1f, \"p99\": %.0f}", name,
           (unsigned long long)of->count, quantiles_at(of, 0.5) - (double)reading,
           quantiles_mean(of) - (double)reading, quantiles_at(of, 0.99) - (double)reading);
}

static int decide(const char *name, uint32_t cores, uint64_t tasks, uint32_t slow)
{
    timed = policy_find(name);
    if (timed == NULL || cores < 2 || cores > POLICY_CORES_MAX || slow > cores || tasks == 0)
        return 2;
    struct policy policy = *timed;
    policy.choose = choose;
    policy.steal = timed->steal != NULL ? steal : NULL;
    struct engine_options options = {.policy = &policy,
                                     .traffic = traffic_usual,
                                     .cores = cores,
                                     .load = 0.7,
                                     .tasks = tasks,
                                     .slow_cores = slow,
                                     .slow_factor = slow > 0 ? 4 : 1,
                                     .blocks = 64,
                                     .inbox_capacity = 1024};
    static struct engine engine;
    uint64_t reading = reading_ns();
    if (!engine_start(&engine, &options))
        return 1;
    while (engine_run(&engine, UINT64_MAX))
        continue;
    engine_stop(&engine);
    printf("{\"kind\": \"decide\", \"policy\": \"%s\", \"cores\": %u, \"slow\": %u, "
           "\"reading_ns\": %llu",
           name, cores, slow, (unsigned long long)reading);
    print_spent("decision", &spent[0], reading);
    print_spent("victim", &spent[1], reading);
    puts("}");
    return 0;
}

/* --- starts --- */

static _Atomic uint64_t begun_ns;

static void begin(calm_worker *worker, void *payload)
{
    (void)worker;
    (void)payload;
    begun_ns = keeper_now_ns();
}

static bool two_cpus(uint32_t *cpus)
{
    cpu_set_t all, one;
    unsigned count = 0;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return false;
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE && count < 2; cpu++)
        if (CPU_ISSET(cpu, &all))
            cpus[count++] = cpu;
    if (count == 2)
        CPU_SET(cpus[0], &one);
    return count == 2;
}

static bool pin(uint32_t cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

static void wait_until(uint64_t ns)
{
    while (keeper_now_ns() < ns)
        continue;
}

static int start(uint64_t tasks, uint64_t gap_ns)
{
    static const size_t block_bytes[] = {BLOCK_BYTES};
    static const uint32_t percent[] = {100};
    struct calm_pool_config pool = {
        .block_bytes = block_bytes, .percent = percent, .classes = 1, .bytes = POOL_BYTES};
    uint32_t cpus[2];
    calm_exec *exec;
    if (!two_cpus(cpus)) {
        fputs("calm_exec_cost: two CPUs are needed, one to submit from.\n", stderr);
        return 1;
    }
    struct calm_exec_config config = {
        .pools = &pool, .cores = 1, .cpus = &cpus[1], .inbox_capacity = INBOX};
    int error = calm_exec_start(&config, &exec);
    if (error != 0 || !pin(cpus[0])) {
        fprintf(stderr, "calm_exec_cost: %s\n", calm_exec_strerror(error));
        return 1;
    }
    struct calm_task task = {.function = begin};
    wait_until(keeper_now_ns() + SETTLE_NS);
    for (uint64_t i = 0; i < tasks; i++) {
        begun_ns = 0;
        uint64_t from_ns = keeper_now_ns();
        calm_exec_submit(exec, &task);
        while (begun_ns == 0)
            continue;
        quantiles_add(&spent[0], begun_ns - from_ns);
        wait_until(begun_ns + gap_ns);
    }
    calm_exec_destroy(exec);
    printf("{\"kind\": \"start\", \"gap_ns\": %llu", (unsigned long long)gap_ns);
    print_spent("start", &spent[0], 0);
    puts("}");
    return 0;
}

int main(int argc, char **argv)
{
    int result = 2;
    if (argc >= 5 && argc <= 6 && strcmp(argv[1], "decide") == 0)
        result = decide(argv[2], (uint32_t)strtoul(argv[3], NULL, 10), strtoull(argv[4], NULL, 10),
                        argc > 5 ? (uint32_t)strtoul(argv[5], NULL, 10) : 0);
    else if (argc == 4 && strcmp(argv[1], "start") == 0)
        result = start(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
    if (result == 2)
        fputs("usage: calm_exec_cost decide POLICY CORES TASKS [SLOW] | start TASKS GAP_NS\n",
              stderr);
    return result;
}
