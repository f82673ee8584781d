/*
 * core.c: a worker's round: its connections' events between the executor's tasks.
 *
 * Owner: the worker; core_wake and core_ask any thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server.h"

enum { MS_NS = 1000000, POOL_TRIES = 64, POOL_STEP_BYTES = 4096, FAILED_PAUSE_MS = 10 };

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* A pool of a block for each connection that may come here. */
static int make_buffers(struct core *core)
{
    static const uint32_t percent[] = {100};
    const struct options *options = &core->server->options;
    size_t block_bytes[] = {(connection_bytes(options) + 63) / 64 * 64};
    struct calm_pool_limits limits = {.blocks = {0}};
    struct calm_pool_config config = {.block_bytes = block_bytes,
                                      .percent = percent,
                                      .classes = 1,
                                      .bytes = (options->connections + 1) * block_bytes[0]};
    for (unsigned tries = 0; limits.blocks[0] < options->connections; tries++) {
        int error = tries == POOL_TRIES ? CALM_EBYTES_SMALL : calm_pool_bound(&config, &limits);
        if (error != 0)
            return error;
        config.bytes += POOL_STEP_BYTES;
    }
    config.flags = CALM_POOL_LAZY; /* any core may get most of the connections */
    return calm_pool_create(&config, &core->buffers);
}

static void open_core(struct core *core, calm_worker *worker)
{
    const struct options *options = &core->server->options;
    struct loop_setup setup = {.handler = {.accepted = connection_accepted,
                                           .received = connection_received,
                                           .sent = connection_sent,
                                           .context = core},
                               .number = core->number,
                               .sockets = options->connections,
                               .wake_fd = core->wake_fd};
    int error = make_buffers(core);
    core->is_open = true;
    core->worker = worker;
    core->shard.queues.pool = calm_worker_pool(worker);
    core->shard.job_blocks_max = blocks_in(options->memory_bytes / options->cores) / 2;
    core->loop = error == 0 ? core->server->loop->open(&setup) : NULL;
    if (error != 0)
        fprintf(stderr, "calmq: no pool for connections: %s\n", calm_strerror(error));
    else if (core->loop == NULL)
        fprintf(stderr, "calmq: %s does not start: %s; try --loop %s.\n", core->server->loop->name,
                strerror(errno), core->server->loop == &loop_uring ? "epoll" : "io_uring");
    atomic_store(&core->state, core->loop == NULL ? CORE_FAILED : CORE_RUNS);
}

static uint64_t earlier(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

void core_wait(calm_worker *worker, uint64_t wait_ms, void *context)
{
    struct server *server = context;
    struct core *core = &server->cores[calm_worker_core(worker)];
    if (!core->is_open)
        open_core(core, worker);
    if (core->loop == NULL) { /* the server is about to end */
        struct timespec pause = {.tv_nsec = FAILED_PAUSE_MS * MS_NS};
        nanosleep(&pause, NULL);
        return;
    }
    uint64_t wait_ns = wait_ms > UINT64_MAX / MS_NS ? UINT64_MAX : wait_ms * MS_NS;
    uint64_t deadline_ns = connections_deadline_ns(core);
    deadline_ns = earlier(deadline_ns, shard_deadline_ns(&core->shard));
    deadline_ns = earlier(deadline_ns, shard_redeliver_ns(&core->shard));
    if (wait_ns > 0 && deadline_ns != UINT64_MAX) {
        uint64_t now = now_ns();
        uint64_t left_ns = deadline_ns > now ? deadline_ns - now : 0;
        wait_ns = left_ns < wait_ns ? left_ns : wait_ns;
    }
    server->loop->wait(core->loop, core->first_ready == NULL ? wait_ns : 0);
}

void core_serve(calm_worker *worker, void *context)
{
    struct server *server = context;
    struct core *core = &server->cores[calm_worker_core(worker)];
    if (core->loop == NULL)
        return;
    core->shard.now_ns = now_ns();
    server->loop->serve(core->loop);
    if (core->shard.now_ns >= shard_redeliver_ns(&core->shard))
        shard_redeliver(&core->shard);
    connections_serve(core);
}

void core_wake(uint32_t number, void *context)
{
    struct server *server = context;
    uint64_t one = 1;
    ssize_t written = write(server->cores[number].wake_fd, &one, sizeof one);
    (void)written; /* it fails only when the count is at its end: the core is awake then */
}

/* --- what the server asks of it --- */

struct question {
    struct core *core;
    void (*what)(struct core *core);
    _Atomic uint32_t *answers;
};

static void answer(calm_worker *worker, void *payload)
{
    struct question *question = payload;
    (void)worker;
    question->what(question->core);
    atomic_fetch_add(question->answers, 1);
}

void core_ask(struct core *core, void (*what)(struct core *core), _Atomic uint32_t *answers)
{
    struct question question = {core, what, answers};
    struct calm_task task = {
        .function = answer, .payload = &question, .payload_bytes = sizeof question};
    while (calm_exec_send(core->server->exec, core->number, &task) == CALM_EXEC_EFULL)
        continue;
}

void core_listen(struct core *core)
{
    struct server *server = core->server;
    core->is_listening = true;
    server->loop->listen(core->loop, server->listeners[core->number], server->listener_count);
}

void core_refuse(struct core *core)
{
    core->shard.is_stopping = true;
    core->shard.drops_late_jobs = core->server->options.keep_path == NULL;
    shard_sweep(&core->shard, true);
}

void core_end(struct core *core)
{
    core->server->loop->stop_listening(core->loop);
    core->is_listening = false;
    core->is_closing = true;
    shard_sweep(&core->shard, true);
    connections_end(core);
}
