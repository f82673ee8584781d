/*
 * real.c: gives the simulator's traffic to the real executor, and prints what the simulator would.
 *
 *     calm_exec_real POLICY CORES LOAD TRAFFIC SEED TASKS SERVICE_NS
 *
 * The same seed gives the same tasks as `calm sim`. A task occupies its worker for its service time
 * by sleeping, so that a few CPUs are enough for all workers and the thread that submits; it needs
 * service times far above the kernel's timer, some 50 us. Times count from when a task was to come.
 */
#define _GNU_SOURCE

#include <calmalloc/exec.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "quantiles.h"
#include "traffic.h"

enum { CORES_MAX = 64, INBOX = 1024, KEYS = 1024, START_NS = 50 * 1000 * 1000 };

struct work {
    uint64_t arrival_ns; /* on the clock */
    uint64_t service_ns;
    bool is_counted;
};

static struct quantiles sojourns[CORES_MAX]; /* each its worker's */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
    struct timespec until = {.tv_sec = (time_t)(ns / 1000000000u),
                             .tv_nsec = (long)(ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
        continue;
}

static void occupy(calm_worker *worker, void *payload)
{
    static _Thread_local bool is_sharp;
    struct work *work = payload;
    if (!is_sharp)
        is_sharp = prctl(PR_SET_TIMERSLACK, 1L) == 0;
    sleep_until(now_ns() + work->service_ns);
    if (work->is_counted)
        quantiles_add(&sojourns[calm_worker_core(worker)], now_ns() - work->arrival_ns);
}

static void merge(struct quantiles *into, const struct quantiles *from)
{
    into->least = into->count == 0 || (from->count > 0 && from->least < into->least) ? from->least
                                                                                     : into->least;
    into->most = from->most > into->most ? from->most : into->most;
    into->count += from->count;
    into->sum += from->sum;
    for (size_t i = 0; i < QUANTILE_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
}

/* Submits each task when its time has come; how many of the counted ones were refused. */
static uint64_t submit_all(calm_exec *exec, struct traffic *traffic, uint64_t tasks,
                           uint64_t warmup)
{
    uint64_t start_ns = now_ns() + START_NS, rejected = 0;
    for (uint64_t number = 0; number < tasks; number++) {
        struct traffic_task next;
        traffic_next(traffic, &next);
        struct work work = {.arrival_ns = start_ns + (uint64_t)next.arrival_ns,
                            .service_ns = (uint64_t)next.service_ns,
                            .is_counted = number >= warmup};
        struct calm_task task = {.function = occupy,
                                 .payload = &work,
                                 .payload_bytes = sizeof work,
                                 .hint_ns = next.hint_ns,
                                 .key = next.key};
        sleep_until(work.arrival_ns);
        rejected += calm_exec_submit(exec, &task) != 0 && work.is_counted;
    }
    calm_exec_drain(exec);
    return rejected;
}

static int service_of(const char *name)
{
    static const char *const names[] = {"fixed", "exponential", "bimodal", "heavy"};
    for (int kind = 0; kind < 4; kind++)
        if (strcmp(names[kind], name) == 0)
            return kind;
    return -1;
}

static calm_exec *start(const char *policy, uint32_t cores, uint64_t seed)
{
    static const size_t block_bytes[] = {64};
    static const uint32_t percent[] = {100};
    static struct calm_pool_config pools[CORES_MAX];
    for (uint32_t core = 0; core < cores; core++)
        pools[core] = (struct calm_pool_config){
            .block_bytes = block_bytes, .percent = percent, .classes = 1, .bytes = 1 << 16};
    struct calm_exec_config config = {.pools = pools,
                                      .cores = cores,
                                      .inbox_capacity = INBOX,
                                      .payload_bytes = sizeof(struct work),
                                      .policy = policy,
                                      .seed = seed};
    calm_exec *exec = NULL;
    int error = calm_exec_start(&config, &exec);
    if (error != 0)
        fprintf(stderr, "calm_exec_real: %s\n", calm_exec_strerror(error));
    return exec;
}

int main(int argc, char **argv)
{
    int service = argc == 8 ? service_of(argv[4]) : -1;
    uint32_t cores = argc == 8 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    if (service < 0 || cores == 0 || cores > CORES_MAX) {
        fputs("usage: calm_exec_real POLICY CORES LOAD TRAFFIC SEED TASKS SERVICE_NS\n", stderr);
        return 2;
    }
    uint64_t seed = strtoull(argv[5], NULL, 10), tasks = strtoull(argv[6], NULL, 10);
    double load = strtod(argv[3], NULL), service_ns = strtod(argv[7], NULL);
    struct traffic_options options = {.service = (enum service_kind)service,
                                      .service_ns = service_ns,
                                      .rate = load * cores / service_ns,
                                      .classes = 4,
                                      .class_skew = 1,
                                      .keys = KEYS,
                                      .seed = seed};
    struct traffic traffic;
    calm_exec *exec = start(argv[1], cores, seed);
    if (exec == NULL || !traffic_start(&traffic, &options))
        return 1;
    prctl(PR_SET_TIMERSLACK, 1L);
    uint64_t warmup = tasks / 4, rejected = submit_all(exec, &traffic, tasks, warmup);
    calm_exec_destroy(exec);
    traffic_stop(&traffic);
    static struct quantiles all;
    for (uint32_t core = 0; core < cores; core++)
        merge(&all, &sojourns[core]);
    printf("{\"policy\": \"%s\", \"cores\": %u, \"load\": %g, \"traffic\": \"%s\", \"seed\": %llu, "
           "\"tasks\": %llu, \"service\": %g, \"rejected\": %llu, \"sojourn\": {\"mean\": %.6g, "
           "\"p50\": %.6g, \"p90\": %.6g, \"p99\": %.6g, \"max\": %.6g}}\n",
           argv[1], cores, load, argv[4], (unsigned long long)seed, (unsigned long long)tasks,
           service_ns, (unsigned long long)rejected, quantiles_mean(&all), quantiles_at(&all, 0.5),
           quantiles_at(&all, 0.9), quantiles_at(&all, 0.99), (double)all.most);
    return 0;
}
