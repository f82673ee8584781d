/*
 * main.c: calmq: starts the cores, and stops them so that nothing accepted is lost.
 *
 * A stop (a signal, SHUTDOWN) refuses what is new. With --keep the connections end and what
 * is queued goes to the file; without, they end when all was taken, and a job whose worker does not
 * answer in its time is dropped. A second signal ends the wait, and what is lost is said.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "listen.h"
#include "signals.h"

#define SECOND_NS ((uint64_t)1000000000)

enum { DESCRIPTORS_BESIDE = 256, LOOK_MS = 10, END_LOOKS_MAX = 500, MESSAGES_A_CONNECTION = 2 };
enum { ROWS_A_CONNECTION = 4 }; /* of who waits; more keys than these share buckets */

static struct server server;

static bool complain(const char *what, const char *why)
{
    fprintf(stderr, "calmq: %s: %s.\n", what, why);
    return false;
}

/* --- starting --- */

/* Memory for as long as the server lives, all of it there from the start. */
static void *claim(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static uint64_t power_above(uint64_t number)
{
    uint64_t power = 1;
    while (power < number)
        power *= 2;
    return power;
}

static void stop(void *context)
{
    (void)context;
    kill(getpid(), SIGTERM);
}

/* 96 bits at random, so that no two runs give a job the same id, whatever the clock says. */
static bool name_run(struct shard *shard)
{
    uint64_t number[2];
    if (getrandom(number, sizeof number, 0) != sizeof number)
        return false;
    snprintf(shard->job_run, sizeof shard->job_run, "%016" PRIx64 "%08" PRIx64 "-", number[0],
             number[1] >> 32);
    return true;
}

static bool start_shard(struct core *core, uint64_t seed, uint64_t buckets)
{
    struct shard *shard = &core->shard;
    uint64_t rows = power_above(server.options.connections * ROWS_A_CONNECTION);
    *shard = (struct shard){.host = {connection_resume, stop, info_write, connection_next,
                                     connection_describe, &server},
                            .core = core->number,
                            .cores = server.options.cores,
                            .message_bytes = server.options.message_bytes};
    shard->redeliver_ns = server.options.redeliver_s * SECOND_NS;
    shard->queues.seed = seed;
    shard->queues.bucket_mask = buckets - 1;
    shard->queues.buckets = claim(buckets * sizeof(struct queue *));
    shard->row_mask = rows - 1;
    shard->rows = claim(rows * sizeof(struct waiter *));
    shard->heap = claim(server.options.connections * sizeof(struct session *));
    shard->payload = claim(shard->message_bytes + REPLY_SMALL);
    return shard->queues.buckets != NULL && shard->rows != NULL && shard->heap != NULL &&
           shard->payload != NULL && name_run(shard);
}

/* The seed that FILE was written with, so that all fits where it was; else a new one. */
static bool choose_seed(void)
{
    uint64_t *seed = &server.keep.header.seed;
    return server.keep.start != NULL || getrandom(seed, sizeof *seed, 0) == sizeof *seed;
}

static bool start_cores(void)
{
    uint32_t cores = server.options.cores;
    uint64_t buckets = power_above(server.options.memory_bytes / cores / QUEUE_BLOCK_BYTES);
    server.cores = claim(sizeof(struct core) * cores);
    if (server.cores == NULL || !choose_seed())
        return complain("no memory for the cores", strerror(errno));
    for (uint32_t i = 0; i < cores; i++) {
        struct core *core = &server.cores[i];
        core->server = &server;
        core->number = i;
        core->wake_fd = eventfd(0, EFD_CLOEXEC);
        if (core->wake_fd < 0 || !start_shard(core, server.keep.header.seed, buckets))
            return complain("no memory for the cores", strerror(errno));
    }
    return true;
}

static uint32_t count_cpus(void)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t usable;
    if (sched_getaffinity(0, sizeof usable, &usable) == 0)
        cpus = CPU_COUNT(&usable);
    return cpus < 1 ? 1 : cpus > LOOPS_MAX ? (uint32_t)LOOPS_MAX : (uint32_t)cpus;
}

/* Each connection is a descriptor, and none may be refused for want of one. */
static bool raise_descriptors(void)
{
    struct rlimit limit;
    rlim_t wanted = server.options.connections + DESCRIPTORS_BESIDE;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return true;
    limit.rlim_cur = wanted;
    if (limit.rlim_max < wanted)
        limit.rlim_max = wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return true;
    return complain("--connections needs more open files than `ulimit -n` allows", strerror(errno));
}

/* A pool counts its blocks in so many bits. */
static bool is_memory_in_reach(void)
{
    uint64_t most = (uint64_t)CALM_POOL_BLOCKS_MAX * QUEUE_BLOCK_BYTES;
    if (server.options.memory_bytes / server.options.cores <= most)
        return true;
    return complain("--memory is more than 8 GiB for each core",
                    "start with less, or more --cores");
}
_Static_assert((uint64_t)CALM_POOL_BLOCKS_MAX *QUEUE_BLOCK_BYTES == (uint64_t)8 << 30,
               "the sentence says so");

static bool start_exec(void)
{
    static const size_t block_bytes[] = {QUEUE_BLOCK_BYTES};
    static const uint32_t percent[] = {100};
    static struct calm_pool_config pools[LOOPS_MAX];
    uint32_t cores = server.options.cores;
    for (uint32_t core = 0; core < cores; core++)
        pools[core] = (struct calm_pool_config){.block_bytes = block_bytes,
                                                .percent = percent,
                                                .classes = 1,
                                                .bytes = server.options.memory_bytes / cores};
    struct calm_exec_events events = {core_wait, core_serve, core_wake, &server};
    uint64_t messages = (uint64_t)server.options.connections * MESSAGES_A_CONNECTION;
    struct calm_exec_config config = {
        .pools = pools,
        .cores = cores,
        .inbox_capacity = (uint32_t)power_above(messages + DESCRIPTORS_BESIDE),
        .payload_bytes = 4 * sizeof(void *),
        .policy = "hash", /* all messages are sent: there is nothing to steal */
        .events = &events};
    int error = calm_exec_start(&config, &server.exec);
    if (error == CALM_EBYTES_SMALL || error == CALM_ESHARE_SMALL)
        return complain("a core's memory holds nothing",
                        "start with more --memory, or fewer --cores");
    return error == 0 || complain("the cores do not start", calm_exec_strerror(error));
}

static void pause_ms(long ms)
{
    struct timespec pause = {.tv_nsec = ms * 1000000};
    nanosleep(&pause, NULL);
}

/* Whether all cores have opened their loops, which says what is wrong. */
static bool await_cores(void)
{
    for (uint32_t core = 0; core < server.options.cores; core++) {
        while (atomic_load(&server.cores[core].state) == CORE_STARTS)
            pause_ms(1);
        if (atomic_load(&server.cores[core].state) == CORE_FAILED)
            return false;
    }
    return true;
}

static void ask_all(void (*what)(struct core *core))
{
    _Atomic uint32_t answers = 0;
    for (uint32_t core = 0; core < server.options.cores; core++)
        core_ask(&server.cores[core], what, &answers);
    while (atomic_load(&answers) < server.options.cores)
        pause_ms(1);
}

static bool choose_loop(void)
{
    const char *wanted = server.options.loop;
    server.loop = &loop_epoll;
    if ((wanted == NULL || strcmp(wanted, "io_uring") == 0) && loop_uring.is_available())
        server.loop = &loop_uring;
    if (wanted != NULL && strcmp(wanted, server.loop->name) != 0)
        return complain("--loop io_uring", "this system or this build has none; use epoll");
    return true;
}

static bool start(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    server.started_ns = (uint64_t)now.tv_sec * 1000000000;
    if (server.options.cores == 0)
        server.options.cores = count_cpus();
    if (!is_memory_in_reach() || (server.options.keep_path != NULL && !keep_open(&server)))
        return false;
    if (!choose_loop() || !raise_descriptors() || !start_cores() || !listen_open(&server) ||
        !start_exec() || !await_cores() || !keep_fill(&server))
        return false;
    ask_all(core_listen);
    return true;
}

static void say_hello(void)
{
    const struct options *options = &server.options;
    char tcp[64] = "";
    if (options->port >= 0)
        snprintf(tcp, sizeof tcp, "%s:%u", options->bind, server.port);
    fprintf(stderr,
            "calmq: listens on %s%s%s; %s, %u cores, %.1f MiB for queues, up to %u connections, "
            "requests up to %zu KiB.\n",
            tcp, options->port >= 0 && options->unix_path != NULL ? " and " : "",
            options->unix_path != NULL ? options->unix_path : "", server.loop->name, options->cores,
            (double)options->memory_bytes / (1 << 20), options->connections,
            options->message_bytes >> 10);
}

/* --- stopping --- */

/* Whether a second signal has come. */
static bool is_hurried(const sigset_t *signals)
{
    struct timespec wait = {.tv_nsec = LOOK_MS * 1000000};
    return signal_hurries(sigtimedwait(signals, NULL, &wait));
}

static uint64_t left(void)
{
    uint64_t sum = 0;
    for (uint32_t core = 0; core < server.options.cores; core++)
        sum += server.cores[core].shard.items + server.cores[core].shard.open_jobs;
    return sum;
}

/* Jobs that nobody answered in time, while it waited. */
static uint64_t late(void)
{
    uint64_t sum = 0;
    for (uint32_t core = 0; core < server.options.cores; core++)
        sum += server.cores[core].shard.dropped_jobs;
    return sum;
}

/* Until all that was accepted was taken, or there is no patience. */
static void wait_for_consumers(const sigset_t *signals)
{
    if (left() > 0)
        fprintf(stderr,
                "calmq: waits until %" PRIu64 " items and open jobs are taken; a second signal "
                "drops them.\n",
                left());
    while (left() > 0 && !is_hurried(signals))
        continue;
}

/* A file that cannot be written may be so for a moment: who looks after the machine is told. */
static bool keep(const sigset_t *signals)
{
    const char *path = server.options.keep_path;
    bool is_written = keep_write(&server);
    if (!is_written)
        fprintf(stderr,
                "calmq: cannot write %s: %s; tries again until it can; a second signal drops what "
                "is queued.\n",
                path, strerror(errno));
    while (!is_written && !is_hurried(signals))
        is_written = keep_write(&server);
    if (is_written)
        fprintf(stderr, "calmq: %" PRIu64 " items and open jobs are in %s.\n", left(), path);
    return is_written;
}

static int stop_all(const sigset_t *signals)
{
    bool is_kept = server.options.keep_path != NULL;
    ask_all(core_refuse);
    if (!is_kept)
        wait_for_consumers(signals);
    ask_all(core_end);
    for (unsigned looks = 0; server.clients > 0 && looks < END_LOOKS_MAX; looks++)
        pause_ms(LOOK_MS);
    calm_exec_stop(server.exec);
    listen_close(&server);
    is_kept = is_kept && keep(signals);
    for (uint32_t core = 0; core < server.options.cores; core++)
        server.loop->close(server.cores[core].loop);
    uint64_t dropped = is_kept ? 0 : left() + late();
    if (dropped > 0)
        fprintf(stderr, "calmq: %" PRIu64 " items and open jobs are dropped.\n", dropped);
    fprintf(stderr, "calmq: stopped.\n");
    return dropped > 0;
}

int main(int argc, char **argv)
{
    sigset_t signals;
    int code = options_read(&server.options, argc, argv), signal_number;
    if (code != 0)
        return code < 0 ? 0 : code;
    signals_take(&signals);
    if (!start()) {
        listen_remove(&server);
        return 1;
    }
    say_hello();
    sigwait(&signals, &signal_number);
    return stop_all(&signals);
}
