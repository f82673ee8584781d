/*
 * engine_memory.c: sets the simulated executor up and takes it down.
 */
#include <stdlib.h>

#include "parts.h"

enum { TASKS_AT_DISPATCHER = 1 << 18 };

static void *zeroed(size_t count, size_t bytes)
{
    size_t size = align_up((count > 0 ? count : 1) * bytes, CACHE_LINE_BYTES);
    void *memory = aligned_alloc(CACHE_LINE_BYTES, size);
    if (memory != NULL)
        memset(memory, 0, size);
    return memory;
}

void set_slow_cores(struct engine *engine)
{
    const struct engine_options *options = &engine->options;
    struct engine_parts *parts = engine->parts;
    for (uint32_t i = 0; i < options->cores; i++)
        parts->cores[i].slow_factor = 1;
    for (uint32_t i = 0; i < options->slow_cores; i++)
        parts->cores[(parts->slow_from + i) % options->cores].slow_factor = options->slow_factor;
}

static void start_cores(struct engine *engine)
{
    const struct engine_options *options = &engine->options;
    struct engine_parts *parts = engine->parts;
    for (uint32_t i = 0; i < options->cores; i++) {
        struct core *core = &parts->cores[i];
        core->running = NO_TASK;
        core->blocks = i < options->tight_cores ? options->tight_blocks : options->blocks;
        parts->block_total += core->blocks;
        for (unsigned class = 0; class < WATCH_CLASSES; class ++) {
            core->free[class] = core->blocks;
            parts->lines[i].free_blocks[class] = (uint16_t)core->blocks;
            parts->published[i].free_blocks[class] = (uint16_t)core->blocks;
        }
        parts->idle[i / 64] |= (uint64_t)1 << i % 64;
    }
    for (unsigned class = 0; class < WATCH_CLASSES; class ++)
        parts->free_total[class] = parts->block_total;
    parts->idle_count = options->cores;
    set_slow_cores(engine);
}

static bool start_policy(struct engine *engine)
{
    const struct engine_options *options = &engine->options;
    struct engine_parts *parts = engine->parts;
    struct policy_setup setup = {.cores = options->cores,
                                 .inbox_capacity = options->inbox_capacity,
                                 .seed = options->traffic.seed,
                                 .busy_until_ns = parts->busy_until_ns};
    parts->policy = options->policy;
    parts->state = zeroed(1, parts->policy->state_bytes(&setup));
    if (parts->state == NULL)
        return false;
    parts->policy->start(parts->state, &setup);
    return true;
}

bool parts_start(struct engine *engine)
{
    const struct engine_options *options = &engine->options;
    struct engine_parts *parts = engine->parts;
    uint32_t cores = options->cores;
    parts->task_capacity = cores * options->inbox_capacity + TASKS_AT_DISPATCHER;
    uint64_t blocks = (uint64_t)cores * WATCH_CLASSES *
                      (options->blocks > options->tight_blocks ? options->blocks
                                                               : options->tight_blocks);
    parts->cores = zeroed(cores, sizeof *parts->cores);
    parts->busy_until_ns = zeroed(cores, sizeof *parts->busy_until_ns);
    parts->lines = zeroed(cores, sizeof *parts->lines);
    parts->published = parts->lines;
    if (options->delay_ns > 0)
        parts->published = zeroed(cores, sizeof *parts->published);
    parts->idle = zeroed((cores + 63) / 64, sizeof *parts->idle);
    /* Not set to zero: most of it is never touched. */
    parts->tasks = malloc(parts->task_capacity * sizeof *parts->tasks);
    parts->completions = (struct heap){.events = zeroed(cores, sizeof(struct event)),
                                       .capacity = cores};
    parts->releases = (struct heap){.events = malloc((blocks + cores) * sizeof(struct event)),
                                    .capacity = blocks + cores};
    engine->done_by_core = zeroed(cores, sizeof *engine->done_by_core);
    if (parts->cores == NULL || parts->busy_until_ns == NULL || parts->lines == NULL ||
        parts->published == NULL || parts->idle == NULL || parts->tasks == NULL ||
        parts->completions.events == NULL || parts->releases.events == NULL ||
        engine->done_by_core == NULL)
        return false;
    parts->unused_task = NO_TASK;
    start_cores(engine);
    return traffic_start(&parts->traffic, &options->traffic) && start_policy(engine);
}

void parts_stop(struct engine_parts *parts)
{
    traffic_stop(&parts->traffic);
    if (parts->published != parts->lines)
        free(parts->published);
    free(parts->lines);
    free(parts->cores);
    free(parts->busy_until_ns);
    free(parts->idle);
    free(parts->tasks);
    free(parts->completions.events);
    free(parts->releases.events);
    free(parts->deliveries.items);
    free(parts->notices.items);
    free(parts->state);
    free(parts);
}
