/*
 * exec.c: starts and stops an executor; the public calls on executors and workers.
 *
 * A start maps all memory and starts one thread for each core, which pins itself and creates its
 * pool; then it waits for all results. A stop closes all inboxes, so no task is accepted any
 * longer; each worker ends when all accepted tasks are done.
 *
 * Owner: start and stop belong to one thread. Design: docs/design/executor.md
 */
#include "base/bits.h"
#include "base/claim.h"
#include "exec/parts.h"
#include "os/os.h"
#include "os/worker.h"

enum {
    DRAIN_STEP_MS = 5,   /* a drain checks at least this often       */
    READY_STEP_MS = 100, /* time between two checks for started workers */
};

/* --- configuration --- */

static bool same_blocks(const struct calm_pool_config *a, const struct calm_pool_config *b)
{
    if (a->classes != b->classes)
        return false;
    for (size_t i = 0; i < a->classes; i++)
        if (a->block_bytes[i] != b->block_bytes[i])
            return false;
    return true;
}

static int check_pools(const struct calm_exec_config *config)
{
    for (uint32_t core = 0; core < config->cores; core++) {
        struct calm_pool_limits limits;
        int result = calm_pool_bound(&config->pools[core], &limits);
        if (result != 0)
            return result;
        if (config->pools[core].classes > CALM_EXEC_CLASSES_MAX ||
            !same_blocks(&config->pools[0], &config->pools[core]))
            return CALM_EXEC_ECLASSES;
    }
    return 0;
}

static int check(const struct calm_exec_config *config, const struct policy **policy)
{
    if (config->pools == NULL)
        return CALM_EXEC_ENULL;
    if (config->cores == 0 || config->cores > CALM_EXEC_CORES_MAX)
        return CALM_EXEC_ECORES;
    if (config->inbox_capacity < 2 || config->inbox_capacity > CALM_EXEC_INBOX_MAX ||
        (config->inbox_capacity & (config->inbox_capacity - 1)) != 0)
        return CALM_EXEC_EINBOX;
    if (config->payload_bytes > CALM_EXEC_PAYLOAD_MAX)
        return CALM_EXEC_EPAYLOAD;
    if ((unsigned)config->full > CALM_EXEC_WAIT)
        return CALM_EXEC_EFULL_RULE;
    const struct calm_exec_events *events = config->events;
    if (events != NULL && (events->wait == NULL || events->serve == NULL || events->wake == NULL))
        return CALM_EXEC_ENULL;
    *policy = policy_find(config->policy == NULL ? POLICY_DEFAULT : config->policy);
    return *policy == NULL ? CALM_EXEC_EPOLICY : check_pools(config);
}

/* Chooses each core's CPU: the configured one, or the usable CPUs in turn. */
static int choose_cpus(const struct calm_exec_config *config, struct calm_worker *workers)
{
    uint32_t usable[CALM_EXEC_CORES_MAX];
    size_t count = os_worker_cpus(usable, CALM_EXEC_CORES_MAX);
    for (uint32_t core = 0; core < config->cores; core++) {
        size_t i = 0;
        uint32_t cpu = config->cpus != NULL ? config->cpus[core] : usable[core % count];
        while (i < count && usable[i] != cpu)
            i++;
        if (i == count)
            return CALM_EXEC_ECPU;
        workers[core].cpu = cpu;
    }
    return 0;
}

/* --- the mapping --- */

static size_t whole_lines(size_t bytes)
{
    return align_up(bytes, CACHE_LINE_BYTES);
}

/* Bytes of each part of the mapping. */
struct sizes {
    size_t inbox, steal_state, loot; /* for each core      */
    size_t state;                    /* for each dispatcher */
    size_t all;
    uint32_t dispatchers;
};

static size_t job_bytes(const struct calm_exec_config *config)
{
    return sizeof(struct job) + config->payload_bytes;
}

static struct sizes sizes_of(const struct calm_exec_config *config, const struct policy *policy,
                             const struct policy_setup *setup)
{
    struct sizes sizes = {
        .inbox = inbox_bytes(config->inbox_capacity, job_bytes(config)),
        .steal_state = policy->steal == NULL ? 0 : whole_lines(policy->state_bytes(setup)),
        .loot = whole_lines(job_bytes(config)),
        .state = whole_lines(policy->state_bytes(setup)),
    };
    if (sizes.state > 0)
        sizes.dispatchers = (uint32_t)size_min(config->cores + 1, DISPATCHERS_MAX);
    size_t core = sizeof(struct watch_line) + sizeof(struct calm_worker) + sizes.inbox +
                  sizes.steal_state + sizes.loot;
    size_t dispatcher = sizeof(struct dispatcher) + sizes.state;
    sizes.all = whole_lines(sizeof(struct calm_exec)) + core * config->cores +
                dispatcher * sizes.dispatchers + sizes.inbox;
    return sizes;
}

/* Takes the next `bytes`, whole cache lines, of the mapping. */
static void *take_bytes(char **at, size_t bytes)
{
    void *taken = *at;
    *at += bytes;
    return taken;
}

static void begin_dispatcher(struct calm_exec *exec, struct dispatcher *dispatcher, char **at,
                             const struct sizes *sizes, const struct policy_setup *setup)
{
    dispatcher->state = take_bytes(at, sizes->state);
    exec->policy->start(dispatcher->state, setup);
}

static void begin_worker(struct calm_exec *exec, uint32_t core, char **at,
                         const struct sizes *sizes, const struct calm_exec_config *config,
                         const struct policy_setup *setup)
{
    struct calm_worker *worker = &exec->workers[core];
    struct policy_setup own = *setup;
    own.seed += core + 1; /* each thief draws its own numbers */
    worker->exec = exec;
    worker->core = core;
    worker->line = &exec->lines[core];
    worker->pool_config = &config->pools[core];
    inbox_start(&worker->inbox, take_bytes(at, sizes->inbox), config->inbox_capacity,
                job_bytes(config));
    worker->steal_state = take_bytes(at, sizes->steal_state);
    worker->loot = (struct job *)take_bytes(at, sizes->loot);
    if (exec->policy->steal != NULL)
        exec->policy->start(worker->steal_state, &own);
}

static void begin_exec(struct calm_exec *exec, const struct calm_exec_config *config,
                       const struct policy *policy, const struct sizes *sizes,
                       const struct policy_setup *setup)
{
    char *at = (char *)exec + whole_lines(sizeof *exec);
    exec->policy = policy;
    exec->cores = config->cores;
    exec->dispatcher_count = sizes->dispatchers;
    exec->inbox_capacity = config->inbox_capacity;
    exec->payload_bytes = config->payload_bytes;
    exec->wait_ms = config->wait_ms;
    exec->full = config->full;
    exec->on_shed = config->on_shed;
    exec->on_shed_context = config->on_shed_context;
    if (config->events != NULL)
        exec->events = *config->events;
    exec->mapped_bytes = sizes->all;
    exec->classes = (uint32_t)config->pools[0].classes;
    __builtin_memcpy(exec->block_bytes, config->pools[0].block_bytes,
                     exec->classes * sizeof(size_t));
    exec->lines = (struct watch_line *)take_bytes(&at, sizeof(struct watch_line) * exec->cores);
    exec->workers = (struct calm_worker *)take_bytes(&at, sizeof(struct calm_worker) * exec->cores);
    exec->dispatchers = (struct dispatcher *)take_bytes(&at, sizeof(struct dispatcher) *
                                                                 sizes->dispatchers);
    inbox_start(&exec->held, take_bytes(&at, sizes->inbox), config->inbox_capacity,
                job_bytes(config));
    for (uint32_t i = 0; i < sizes->dispatchers; i++)
        begin_dispatcher(exec, &exec->dispatchers[i], &at, sizes, setup);
    for (uint32_t core = 0; core < exec->cores; core++)
        begin_worker(exec, core, &at, sizes, config, setup);
}

/* --- threads --- */

static void close_all(struct calm_exec *exec)
{
    inbox_close(&exec->held);
    for (uint32_t core = 0; core < exec->cores; core++)
        inbox_close(&exec->workers[core].inbox);
    for (uint32_t core = 0; core < exec->cores; core++)
        worker_wake(&exec->workers[core]);
}

/* Stops the started workers and waits for them. */
static void join_all(struct calm_exec *exec)
{
    close_all(exec);
    for (uint32_t core = 0; core < exec->started; core++)
        worker_join(&exec->workers[core]);
    exec->started = 0;
}

static void release(struct calm_exec *exec)
{
    for (uint32_t core = 0; core < exec->cores; core++)
        calm_pool_destroy(exec->workers[core].pool);
    claim_return(exec, exec->mapped_bytes);
}

/* Starts the workers and waits until each has its pool. */
static int begin_threads(struct calm_exec *exec)
{
    for (; exec->started < exec->cores; exec->started++) {
        struct calm_worker *worker = &exec->workers[exec->started];
        if (os_worker_start(worker_main, worker) != 0)
            return CALM_EXEC_ETHREAD;
    }
    for (uint32_t ready; (ready = load(&exec->ready, ACQUIRE)) < exec->cores;)
        os_wait(&exec->ready, ready, READY_STEP_MS);
    for (uint32_t core = 0; core < exec->cores; core++)
        if (exec->workers[core].error != 0)
            return exec->workers[core].error;
    return 0;
}

EXPORT int calm_exec_start(const struct calm_exec_config *config, calm_exec **out)
{
    const struct policy *policy;
    void *memory;
    if (config == NULL || out == NULL)
        return CALM_EXEC_ENULL;
    int result = check(config, &policy);
    if (result != 0)
        return result;
    struct policy_setup setup = {
        .cores = config->cores, .inbox_capacity = config->inbox_capacity, .seed = config->seed};
    struct sizes sizes = sizes_of(config, policy, &setup);
    if (claim_map(sizes.all, false, &memory) != 0)
        return CALM_EXEC_ENOMEM;
    struct calm_exec *exec = (struct calm_exec *)memory;
    if (claim_populate(memory, sizes.all) != 0)
        result = CALM_EXEC_ENOMEM;
    else
        begin_exec(exec, config, policy, &sizes, &setup);
    if (result == 0)
        result = choose_cpus(config, exec->workers);
    if (result != 0) {
        claim_return(memory, sizes.all);
        return result;
    }
    result = begin_threads(exec);
    if (result != 0) {
        join_all(exec);
        release(exec);
        return result;
    }
    running_add(exec);
    *out = exec;
    return 0;
}

static bool is_own_worker(const calm_exec *exec)
{
    const struct calm_worker *worker = worker_here();
    return worker != NULL && worker->exec == exec;
}

EXPORT int calm_exec_stop(calm_exec *exec)
{
    if (exec == NULL)
        return CALM_EXEC_ENULL;
    if (is_own_worker(exec))
        return CALM_EXEC_EWORKER;
    join_all(exec);
    return 0;
}

EXPORT int calm_exec_destroy(calm_exec *exec)
{
    int result = exec == NULL ? 0 : calm_exec_stop(exec);
    if (exec != NULL && result == 0) {
        running_remove(exec);
        release(exec);
    }
    return result;
}

/* --- counting --- */

/* Places ever taken in inboxes, less those of tasks that were put back. */
uint64_t exec_accepted(const calm_exec *exec)
{
    uint64_t moved = 0, places = 0;
    for (uint32_t core = 0; core < exec->cores; core++)
        moved += load(&exec->workers[core].moved, ACQUIRE);
    places = inbox_total(&exec->held);
    for (uint32_t core = 0; core < exec->cores; core++)
        places += inbox_total(&exec->workers[core].inbox);
    return places - moved;
}

/* Whether all accepted tasks had ended at some moment. Reads ended tasks first, so a task accepted
 * meanwhile cannot make the result true. */
static bool all_done(const calm_exec *exec)
{
    uint64_t ended = load(&((calm_exec *)(uintptr_t)exec)->shed, ACQUIRE);
    for (uint32_t core = 0; core < exec->cores; core++)
        ended += load(&exec->workers[core].done, ACQUIRE);
    return ended == exec_accepted(exec);
}

EXPORT int calm_exec_drain(calm_exec *exec)
{
    if (exec == NULL)
        return CALM_EXEC_ENULL;
    if (is_own_worker(exec))
        return CALM_EXEC_EWORKER;
    fetch_add(&exec->waiters, 1, ACQ_REL);
    for (;;) {
        uint32_t seen = load(&exec->room, ACQUIRE);
        if (all_done(exec))
            break;
        os_wait(&exec->room, seen, DRAIN_STEP_MS);
    }
    fetch_sub(&exec->waiters, 1, ACQ_REL);
    return 0;
}

/* --- tasks --- */

EXPORT int calm_exec_submit(calm_exec *exec, const struct calm_task *task)
{
    return dispatch(exec, task, worker_here() == NULL);
}

EXPORT size_t calm_exec_submit_many(calm_exec *exec, const struct calm_task *tasks, size_t count,
                                    int *error)
{
    size_t done = 0;
    int result = 0;
    while (done < count && (result = calm_exec_submit(exec, &tasks[done])) == 0)
        done++;
    if (error != NULL)
        *error = result;
    return done;
}

EXPORT int calm_exec_send(calm_exec *exec, uint32_t core, const struct calm_task *task)
{
    if (exec == NULL)
        return CALM_EXEC_ENULL;
    return core < exec->cores ? dispatch_to(exec, core, task) : CALM_EXEC_ECORE;
}

EXPORT int calm_exec_free(calm_exec *exec, void *block)
{
    if (exec == NULL)
        return CALM_EXEC_ENULL;
    for (uint32_t core = 0; core < exec->cores; core++) {
        struct calm_worker *worker = &exec->workers[core];
        if (!calm_pool_owns(worker->pool, block))
            continue;
        int result = calm_pool_free_remote(worker->pool, block);
        worker_wake(worker);
        return result;
    }
    return block == NULL ? 0 : CALM_EFOREIGN;
}

EXPORT uint32_t calm_worker_core(const calm_worker *worker)
{
    return worker->core;
}

EXPORT calm_exec *calm_worker_exec(const calm_worker *worker)
{
    return worker->exec;
}

EXPORT calm_pool *calm_worker_pool(const calm_worker *worker)
{
    return worker->pool;
}

EXPORT void *calm_worker_alloc(calm_worker *worker, size_t bytes)
{
    void *block = calm_pool_alloc(worker->pool, bytes);
    worker_publish(worker); /* now, since the task may run long */
    return block;
}

EXPORT int calm_worker_free(calm_worker *worker, void *block)
{
    return block == NULL || calm_pool_owns(worker->pool, block)
               ? calm_pool_free(worker->pool, block)
               : calm_exec_free(worker->exec, block);
}
