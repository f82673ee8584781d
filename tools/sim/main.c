/*
 * main.c: `calm sim`: runs the simulated executor and prints one JSON object a run.
 *
 * Exit codes: 0 done, 1 no memory or a file that cannot be read or written, 2 wrong usage, 3 an
 * invariant of the simulator did not hold.
 */
#define _GNU_SOURCE

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "options.h"
#include "trace.h"

enum { EVENTS_A_STEP = 1 << 16, BAR_COLUMNS = 30 };

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* What two readings of the clock take at least. A mean would hold waits for a processor, and could
 * exceed what a decision takes. */
static double reading_ns(void)
{
    enum { READINGS = 1000 };
    uint64_t least_ns = UINT64_MAX;
    for (unsigned i = 0; i < READINGS; i++) {
        uint64_t from_ns = clock_ns(), took_ns = clock_ns() - from_ns;
        if (took_ns < least_ns)
            least_ns = took_ns;
    }
    return (double)least_ns;
}

static void draw_bar(const struct sim_options *options, double share, double load, uint64_t seed)
{
    char bar[BAR_COLUMNS + 1];
    for (int i = 0; i < BAR_COLUMNS; i++)
        bar[i] = i < (int)(share * (int)BAR_COLUMNS) ? '#' : '.';
    bar[BAR_COLUMNS] = '\0';
    fprintf(stderr, "\rcalm sim [%s] %3.0f %%  %s, load %g, seed %llu ", bar, share * 100,
            options->policy, load, (unsigned long long)seed);
}

/* The most tasks that a core did, over the mean. */
static double imbalance(const struct engine *engine)
{
    uint64_t most = 0, sum = 0;
    for (uint32_t i = 0; i < engine->options.cores; i++) {
        sum += engine->done_by_core[i];
        most = engine->done_by_core[i] > most ? engine->done_by_core[i] : most;
    }
    return sum > 0 ? (double)most * engine->options.cores / (double)sum : 0;
}

static double share_of(double part, uint64_t whole)
{
    return whole > 0 ? part / (double)whole : 0;
}

static void print_quantiles(const char *name, const struct quantiles *quantiles, double scale)
{
    static const struct {
        const char *name;
        double share;
    } wanted[] = {{"p50", 0.5},  {"p90", 0.9},    {"p95", 0.95},
                  {"p99", 0.99}, {"p999", 0.999}, {"p9999", 0.9999}};
    printf("\"%s\": {\"mean\": %.6g", name, quantiles_mean(quantiles) * scale);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        printf(", \"%s\": %.6g", wanted[i].name, quantiles_at(quantiles, wanted[i].share) * scale);
    printf(", \"max\": %.6g}, ", (double)quantiles->most * scale);
}

static void print_setting(const struct sim_options *options, double load, uint64_t seed)
{
    static const char *const rules[] = {"reject", "shed", "wait"};
    const struct engine_options *engine = &options->engine;
    const struct traffic_options *traffic = &engine->traffic;
    printf(
        "{\"policy\": \"%s\", \"cores\": %u, \"load\": %g, \"traffic\": \"%s\", \"seed\": %llu, ",
        options->policy, engine->cores, load, options->traffic, (unsigned long long)seed);
    if (engine->then != traffic->service)
        printf("\"then\": \"%s\", ", options->then);
    printf("\"tasks\": %llu, \"service\": %g, ", (unsigned long long)engine->tasks,
           traffic->service_ns);
    if (traffic->is_bursty)
        printf("\"bursty\": true, ");
    if (engine->slow_cores > 0)
        printf("\"slow\": \"%u:%g\", ", engine->slow_cores, engine->slow_factor);
    if (engine->drift_tasks > 0)
        printf("\"drift\": %llu, ", (unsigned long long)engine->drift_tasks);
    if (engine->blocks > 0)
        printf("\"blocks\": %u, \"classes\": %u, \"hold\": %g, \"full\": \"%s\", ", engine->blocks,
               traffic->classes, traffic->hold_ns, rules[engine->full]);
    if (engine->tight_cores > 0)
        printf("\"tight\": \"%u:%u\", ", engine->tight_cores, engine->tight_blocks);
    if (traffic->key_skew > 0)
        printf("\"key_skew\": %g, ", traffic->key_skew);
    if (engine->delay_ns > 0)
        printf("\"delay\": %g, ", engine->delay_ns);
    if (engine->wake_ns > 0)
        printf("\"wake\": %g, ", engine->wake_ns);
}

/* What the machine has a part in. */
static void print_timing(const struct engine *engine, double seconds)
{
    double decision_ns = share_of((double)engine->timed_ns, engine->timed) - reading_ns();
    printf(", \"cpu_s\": %.4g, \"tasks_a_cpu_s\": %.4g, \"decision_ns\": %.3g", seconds,
           seconds > 0 ? (double)engine->all_offered / seconds : 0,
           decision_ns > 0 ? decision_ns : 0);
}

/* The rest of the line, but for its end. */
static void print_result(const struct engine *engine)
{
    const struct engine_counts *counts = &engine->counts;
    double span_ns = engine->ended_ns - engine->begun_ns;
    uint64_t refused = counts->failed + counts->rejected;
    print_quantiles("sojourn", &engine->sojourn, 1);
    print_quantiles("slowdown", &engine->slowdown, 1e-3);
    printf(
        "\"offered\": %llu, \"done\": %llu, \"rejected\": %llu, \"shed\": %llu, \"failed\": %llu, ",
        (unsigned long long)counts->offered, (unsigned long long)counts->done,
        (unsigned long long)counts->rejected, (unsigned long long)counts->shed,
        (unsigned long long)counts->failed);
    printf("\"rejected_share\": %.6g, \"null_share\": %.6g, \"stranded\": %.6g, "
           "\"stranded_blocks\": %.6g, ",
           share_of((double)counts->rejected, counts->offered),
           share_of((double)counts->failed, counts->offered),
           share_of((double)counts->stranded, refused), share_of(counts->stranded_share, refused));
    printf("\"throughput\": %.6g, \"in_system\": %.6g, \"imbalance\": %.4g, \"steals\": %.4g",
           span_ns > 0 ? (double)counts->done / span_ns * 1e9 : 0,
           span_ns > 0 ? engine->task_ns / span_ns : 0, imbalance(engine),
           share_of((double)counts->steals, counts->offered));
}

/* False: what was printed did not get out, and that was said. */
static bool is_out(void)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return true;
    fprintf(stderr, "calm sim: standard output cannot be written; is the disk full?\n");
    return false;
}

static int run_one(const struct sim_options *options, double load, uint64_t seed, double done,
                   double part)
{
    struct engine_options wanted = options->engine;
    wanted.load = load;
    wanted.traffic.seed = seed;
    struct engine *engine = malloc(sizeof *engine);
    double begun = cpu_seconds();
    if (engine == NULL || !engine_start(engine, &wanted)) {
        fprintf(stderr, "calm sim: no memory for so many cores, blocks and places in inboxes; "
                        "take fewer by --cores, --blocks or --inbox.\n");
        free(engine);
        return 1;
    }
    while (engine_run(engine, EVENTS_A_STEP))
        if (options->has_progress)
            draw_bar(options, done + part * (double)engine->all_offered / (double)wanted.tasks,
                     load, seed);
    double seconds = cpu_seconds() - begun;
    verdict wrong = engine_verify(engine);
    int code = 0;
    if (wrong != NULL) {
        fprintf(stderr, "calm sim: internal error, please report: %s\n", wrong);
        code = 3;
    } else {
        print_setting(options, load, seed);
        print_result(engine);
        if (options->has_timing)
            print_timing(engine, seconds);
        printf("}\n");
        code = is_out() ? 0 : 1;
    }
    engine_stop(engine);
    free(engine);
    return code;
}

/* Runs all that is asked for, one after the other. */
static int run_each(struct sim_options *options)
{
    double runs = (double)options->seeds * options->load_count, run = 0;
    for (unsigned i = 0; i < options->load_count; i++) {
        for (uint64_t k = 0; k < options->seeds; k++, run++) {
            uint64_t seed = options->engine.traffic.seed + k;
            int code = run_one(options, options->loads[i], seed, run / runs, 1 / runs);
            if (code != 0)
                return code;
        }
    }
    if (options->has_progress)
        fprintf(stderr, "\r%78s\r", "");
    return 0;
}

/* Has recorded tasks come instead of drawn ones. False: there are none in the file. */
static bool take_trace(struct sim_options *options)
{
    struct engine_options *engine = &options->engine;
    double warmup = (double)engine->warmup / (double)engine->tasks;
    engine->traffic.trace = trace_read(options->trace, &engine->tasks);
    engine->warmup = (uint64_t)((double)engine->tasks * warmup);
    return engine->traffic.trace != NULL;
}

int main(int count, char **words)
{
    struct sim_options options;
    const char *trouble = options_read(&options, count - 1, words + 1);
    if (trouble != NULL) {
        fprintf(stderr, "calm sim: %s\n", trouble);
        return 2;
    }
    if (options.is_help) {
        options_help();
        return is_out() ? 0 : 1;
    }
    if (options.trace != NULL && !take_trace(&options)) {
        fprintf(stderr,
                "calm sim: '%s' cannot be read, or a line of it is no task; "
                "tools/sim/trace.h has its fields.\n",
                options.trace);
        return 1;
    }
    if (options.has_timing)
        options.engine.clock_ns = clock_ns;
    int code = run_each(&options);
    free((void *)(uintptr_t)options.engine.traffic.trace);
    return code;
}
