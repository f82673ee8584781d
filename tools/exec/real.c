/*
 * real.c: gives the simulator's traffic to the real executor, and prints what the simulator would.
 *
 *     calm_exec_real POLICY CORES LOAD TRAFFIC SEED TASKS SERVICE_NS [NAME=VALUE...]
 *
 *     inbox=N    tasks in flight that a core accepts (1024)
 *     blocks=N   of each of 4 classes in each pool; a task takes one when it begins (0: none)
 *     tight=N    the same for the first core
 *     hold=NS    mean time that a block is kept after its task, and then freed remotely (20000000)
 *     trace=FILE writes each task as it was: what `calm sim --trace` reads
 *     spin=1     tasks compute instead of sleeping
 *
 * The same seed gives the same tasks as `calm sim`. A task occupies its worker for its service time
 * by sleeping, so that a few CPUs are enough for all workers and the threads beside them; it needs
 * service times far above the kernel's timer, some 50 us. Times count from when a task was
 * submitted.
 */
#define _GNU_SOURCE

#include <calmalloc/exec.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "keeper.h"
#include "quantiles.h"
#include "traffic.h"

enum { CORES_MAX = 64, KEYS = 1024, CLASSES = 4, BLOCK_BYTES = 4096, BLOCK_STEP = 8 };
enum { START_NS = 50 * 1000 * 1000 };

/* A task: what was asked, and, by its worker, what became of it. */
struct record {
    uint64_t arrival_ns, begun_ns, ended_ns; /* on the clock; ended 0: it was refused */
    bool was_idle;                           /* its worker, when it came */
    uint64_t gap_ns; /* between its worker's last task and it, where it waited for that */
    uint64_t service_ns;
    struct kept kept; /* its block */
    uint64_t key;
    uint32_t class; /* WATCH_CLASSES: wants no block */
    bool has_failed;
};

struct settings {
    const char *policy;
    uint32_t cores;
    uint64_t tasks;
    struct traffic_options traffic;
    uint32_t inbox, blocks, tight;
    const char *trace;
};

static size_t block_bytes[CLASSES];
static bool is_spinning;

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
    static _Thread_local uint64_t free_ns; /* when the worker's last task ended */
    struct record *record = *(struct record **)payload;
    if (!is_sharp)
        is_sharp = prctl(PR_SET_TIMERSLACK, 1L) == 0;
    record->begun_ns = keeper_now_ns();
    record->was_idle = free_ns < record->arrival_ns;
    record->gap_ns = record->was_idle ? 0 : record->begun_ns - free_ns;
    if (record->class < WATCH_CLASSES) {
        record->kept.block = calm_worker_alloc(worker, block_bytes[record->class]);
        record->has_failed = record->kept.block == NULL;
    }
    uint64_t until_ns = record->begun_ns + record->service_ns;
    if (is_spinning && !record->has_failed)
        while (keeper_now_ns() < until_ns)
            continue;
    else if (!record->has_failed)
        sleep_until(until_ns);
    record->ended_ns = free_ns = keeper_now_ns();
    if (record->kept.block != NULL)
        keeper_keep(&record->kept, record->ended_ns);
}

/* Submits each task when its time has come. */
static void submit_all(calm_exec *exec, struct traffic *traffic, struct record *records,
                       uint64_t tasks)
{
    uint64_t start_ns = keeper_now_ns() + START_NS;
    for (uint64_t number = 0; number < tasks; number++) {
        struct record *record = &records[number];
        struct traffic_task next;
        bool is_remote;
        traffic_next(traffic, &next);
        record->service_ns = (uint64_t)next.service_ns;
        record->class = next.class;
        record->key = next.key;
        record->kept.hold_ns = (uint64_t)traffic_hold(traffic, &is_remote);
        struct calm_task task = {.function = occupy,
                                 .payload = &record,
                                 .payload_bytes = sizeof record,
                                 .block_bytes = next.class < WATCH_CLASSES ? block_bytes[next.class]
                                                                           : 0,
                                 .key = next.key};
        sleep_until(start_ns + (uint64_t)next.arrival_ns);
        record->arrival_ns = keeper_now_ns();
        calm_exec_submit(exec, &task);
    }
    calm_exec_drain(exec);
}

/* Bytes of a pool that has so many blocks of each class, or 0. */
static size_t pool_bytes(struct calm_pool_config pool, uint32_t blocks)
{
    size_t most = ((size_t)blocks + 2) * 2 * CLASSES * BLOCK_BYTES;
    for (pool.bytes = BLOCK_BYTES; pool.bytes <= most; pool.bytes += BLOCK_STEP * 8) {
        struct calm_pool_limits limits;
        bool fits = calm_pool_bound(&pool, &limits) == 0;
        for (unsigned class = 0; class < CLASSES && fits; class ++)
            fits = limits.blocks[class] == blocks;
        if (fits)
            return pool.bytes;
    }
    return 0;
}

static calm_exec *start(const struct settings *settings)
{
    static uint32_t percent[CLASSES];
    static struct calm_pool_config pools[CORES_MAX];
    for (unsigned class = 0; class < CLASSES; class ++) {
        block_bytes[class] = BLOCK_BYTES + class * (size_t)BLOCK_STEP;
        percent[class] = 100 / CLASSES;
    }
    for (uint32_t core = 0; core < settings->cores; core++) {
        uint32_t blocks = core == 0 && settings->tight > 0 ? settings->tight : settings->blocks;
        pools[core] = (struct calm_pool_config){
            .block_bytes = block_bytes, .percent = percent, .classes = CLASSES};
        pools[core].bytes = pool_bytes(pools[core], blocks > 0 ? blocks : 1);
    }
    struct calm_exec_config config = {.pools = pools,
                                      .cores = settings->cores,
                                      .inbox_capacity = settings->inbox,
                                      .payload_bytes = sizeof(struct record *),
                                      .policy = settings->policy,
                                      .seed = settings->traffic.seed};
    calm_exec *exec = NULL;
    int error = calm_exec_start(&config, &exec);
    if (error != 0)
        fprintf(stderr, "calm_exec_real: %s\n", calm_exec_strerror(error));
    return exec;
}

/* --- what it says --- */

static int by_value(const void *a, const void *b)
{
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

/* How long a task that ran had its worker. What a busy worker took to come to it is part of that:
 * nobody else had it. With blocks it may have waited for one, which the simulator knows of. */
static double occupied_ns(const struct record *record)
{
    uint64_t gap_ns = record->class < WATCH_CLASSES ? 0 : record->gap_ns;
    return (double)(record->ended_ns - record->begun_ns + gap_ns);
}

/* What a worker was occupied for longer than the task asked; below 0: none. */
static double extra_of(const struct record *record)
{
    if (record->ended_ns == 0 || record->has_failed)
        return -1;
    return occupied_ns(record) - (double)record->service_ns;
}

/* By how much longer tasks had their workers than they asked, over what they asked: what the
 * kernel's timer and others on the machine took. */
static double late_of(const struct record *records, uint64_t tasks)
{
    double extra = 0, asked = 0;
    for (uint64_t i = 0; i < tasks; i++)
        if (records[i].ended_ns > 0 && !records[i].has_failed) {
            extra += extra_of(&records[i]);
            asked += (double)records[i].service_ns;
        }
    return asked > 0 ? extra / asked : 0;
}

/* How long a task waited for a worker that had nothing else to do; below 0: it had. */
static double wake_of(const struct record *record)
{
    bool is_one = record->ended_ns > 0 && record->was_idle;
    return is_one ? (double)(record->begun_ns - record->arrival_ns) : -1;
}

/* The middle one of what is not below 0. */
static double middle(double (*of)(const struct record *), const struct record *records,
                     uint64_t tasks)
{
    double *values = malloc(tasks * sizeof *values), value = 0;
    uint64_t count = 0;
    for (uint64_t i = 0; i < tasks && values != NULL; i++)
        if ((value = of(&records[i])) >= 0)
            values[count++] = value;
    if (count == 0)
        return 0;
    qsort(values, count, sizeof *values, by_value);
    value = values[count / 2];
    free(values);
    return value;
}

/* A line a task: arrival, time on the worker, class, key, hold. What never ran gets the time
 * that it asked for and the extra of the others. */
static bool write_trace(const struct settings *settings, const struct record *records)
{
    FILE *file = fopen(settings->trace, "w");
    if (file == NULL)
        return false;
    double extra = middle(extra_of, records, settings->tasks);
    for (uint64_t i = 0; i < settings->tasks; i++) {
        const struct record *record = &records[i];
        bool has_run = record->ended_ns > 0 && !record->has_failed;
        double service_ns = has_run ? occupied_ns(record) : (double)record->service_ns + extra;
        const struct kept *kept = &record->kept;
        uint64_t hold_ns = kept->freed_ns > 0 ? kept->freed_ns - record->ended_ns : kept->hold_ns;
        fprintf(file, "%llu %.0f %u %llu %llu\n",
                (unsigned long long)(record->arrival_ns - records[0].arrival_ns), service_ns,
                record->class, (unsigned long long)record->key, (unsigned long long)hold_ns);
    }
    return fclose(file) == 0;
}

static void print(const struct settings *settings, const char *traffic, double load,
                  const struct record *records)
{
    static struct quantiles sojourn;
    uint64_t rejected = 0, failed = 0, warmup = settings->tasks / 4;
    for (uint64_t i = warmup; i < settings->tasks; i++) {
        const struct record *record = &records[i];
        failed += record->has_failed;
        rejected += record->ended_ns == 0;
        if (record->ended_ns > 0 && !record->has_failed)
            quantiles_add(&sojourn, record->ended_ns - record->arrival_ns);
    }
    printf("{\"policy\": \"%s\", \"cores\": %u, \"load\": %g, \"traffic\": \"%s\", \"seed\": %llu, "
           "\"tasks\": %llu, \"service\": %g, \"offered\": %llu, \"rejected\": %llu, \"failed\": "
           "%llu, \"extra_ns\": %.0f, \"late\": %.4f, \"wake_ns\": %.0f, \"sojourn\": {\"mean\": "
           "%.6g, \"p50\": "
           "%.6g, \"p90\": %.6g, "
           "\"p99\": %.6g, \"max\": %.6g}}\n",
           settings->policy, settings->cores, load, traffic,
           (unsigned long long)settings->traffic.seed, (unsigned long long)settings->tasks,
           settings->traffic.service_ns, (unsigned long long)(settings->tasks - warmup),
           (unsigned long long)rejected, (unsigned long long)failed,
           middle(extra_of, records, settings->tasks), late_of(records, settings->tasks),
           middle(wake_of, records, settings->tasks), quantiles_mean(&sojourn),
           quantiles_at(&sojourn, 0.5), quantiles_at(&sojourn, 0.9), quantiles_at(&sojourn, 0.99),
           (double)sojourn.most);
}

/* --- what it is asked --- */

static int service_of(const char *name)
{
    static const char *const names[] = {"fixed", "exponential", "bimodal", "heavy"};
    for (int kind = 0; kind < 4; kind++)
        if (strcmp(names[kind], name) == 0)
            return kind;
    return -1;
}

static bool read_more(struct settings *settings, const char *word)
{
    const char *value = strchr(word, '=');
    size_t length = value == NULL ? 0 : (size_t)(value++ - word);
    struct {
        const char *name;
        uint32_t *count;
    } counts[] = {
        {"inbox", &settings->inbox}, {"blocks", &settings->blocks}, {"tight", &settings->tight}};
    if (length == 4 && strncmp(word, "hold", length) == 0)
        settings->traffic.hold_ns = strtod(value, NULL);
    else if (length == 4 && strncmp(word, "spin", length) == 0)
        is_spinning = strcmp(value, "1") == 0;
    else if (length == 5 && strncmp(word, "trace", length) == 0)
        settings->trace = value;
    else {
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
            if (strlen(counts[i].name) == length && strncmp(word, counts[i].name, length) == 0) {
                *counts[i].count = (uint32_t)strtoul(value, NULL, 10);
                return true;
            }
        return false;
    }
    return true;
}

static bool read_settings(struct settings *settings, int argc, char **argv, double *load)
{
    int service = argc >= 8 ? service_of(argv[4]) : -1;
    if (service < 0)
        return false;
    *load = strtod(argv[3], NULL);
    double service_ns = strtod(argv[7], NULL);
    *settings = (struct settings){.policy = argv[1],
                                  .cores = (uint32_t)strtoul(argv[2], NULL, 10),
                                  .tasks = strtoull(argv[6], NULL, 10),
                                  .inbox = 1024};
    settings->traffic = (struct traffic_options){.service = (enum service_kind)service,
                                                 .service_ns = service_ns,
                                                 .rate = *load * settings->cores / service_ns,
                                                 .class_skew = 1,
                                                 .keys = KEYS,
                                                 .hold_ns = 20e6,
                                                 .remote = 1,
                                                 .seed = strtoull(argv[5], NULL, 10)};
    for (int i = 8; i < argc; i++)
        if (!read_more(settings, argv[i]))
            return false;
    settings->traffic.classes = settings->blocks > 0 ? CLASSES : 0;
    return settings->cores > 0 && settings->cores <= CORES_MAX && settings->tasks > 0;
}

int main(int argc, char **argv)
{
    struct settings settings;
    struct traffic traffic;
    double load;
    if (!read_settings(&settings, argc, argv, &load)) {
        fputs("usage: calm_exec_real POLICY CORES LOAD TRAFFIC SEED TASKS SERVICE_NS [inbox=N] "
              "[blocks=N] [tight=N] [hold=NS] [trace=FILE] [spin=1]\n",
              stderr);
        return 2;
    }
    struct record *records = calloc(settings.tasks, sizeof *records);
    calm_exec *exec = start(&settings);
    if (records == NULL || exec == NULL || !traffic_start(&traffic, &settings.traffic))
        return 1;
    prctl(PR_SET_TIMERSLACK, 1L);
    keeper_start(exec);
    submit_all(exec, &traffic, records, settings.tasks);
    keeper_stop();
    calm_exec_destroy(exec);
    traffic_stop(&traffic);
    if (settings.trace != NULL && !write_trace(&settings, records)) {
        fprintf(stderr, "calm_exec_real: '%s' cannot be written.\n", settings.trace);
        return 1;
    }
    print(&settings, argv[4], load, records);
    free(records);
    return 0;
}
