/*
 * exec_stats.c: an executor's statistics, and a sentence for each error code.
 */
#include "exec/parts.h"
#include "os/worker.h"

EXPORT void calm_exec_stats_read(const calm_exec *exec, struct calm_exec_stats *out)
{
    calm_exec *readable = (calm_exec *)(uintptr_t)exec;
    *out = (struct calm_exec_stats){
        .accepted = exec_accepted(exec),
        .rejected = load(&readable->rejected, RELAXED),
        .shed = load(&readable->shed, RELAXED),
        .waited = load(&readable->waited, RELAXED),
        .cores = exec->cores,
        .policy = exec->policy->name,
    };
}

EXPORT int calm_exec_core_stats_read(const calm_exec *exec, uint32_t core,
                                     struct calm_exec_core_stats *out)
{
    if (exec == NULL || out == NULL)
        return CALM_EXEC_ENULL;
    if (core >= exec->cores)
        return CALM_EXEC_ECORE;
    struct calm_worker *worker = &exec->workers[core];
    *out = (struct calm_exec_core_stats){
        .done = load(&worker->done, RELAXED),
        .stolen = load(&worker->stolen_count, RELAXED),
        .sleeps = load(&worker->sleeps, RELAXED),
        .busy_ns = load(&worker->busy_ns, RELAXED),
        .in_flight = watch_count(worker->line),
        .cpu = worker->cpu,
        .threads_ended = load(&worker->threads_ended, RELAXED),
        .is_pinned = os_worker_is_pinned(worker->task, worker->cpu),
        .free_bytes = calm_pool_watch_bytes(calm_pool_watch(worker->pool)),
    };
    return 0;
}

EXPORT const char *calm_exec_strerror(int code)
{
    static const char *const sentences[] = {
        "A pointer that must not be NULL is NULL.",
        "The number of cores is 0 or above the limit; give 1 to 1024.",
        "This process may not use one of the CPUs; see taskset -p.",
        "The cores' pools differ in their block sizes, or have more than 16; give all the same.",
        "The inbox's capacity is no power of two from 2 to 1048576.",
        "The payload is larger than payload_bytes declares, or than 65536 bytes.",
        "There is no policy of this name; ./calm sim --help lists them.",
        "The rule for a full executor is none of enum calm_exec_full.",
        "The kernel has no memory for the inboxes; make them or the payload smaller.",
        "The system starts no more threads; see ulimit -u.",
        "No core is feasible: inboxes are full or pools are exhausted; try again later.",
        "The executor stops and takes no more tasks.",
        "There is no core of this number.",
        "No pool has blocks as large as the task needs.",
        "A worker may not do this: it would wait for itself.",
    };
    _Static_assert(sizeof sentences / sizeof sentences[0] == CALM_EXEC_ERROR_END - CALM_EXEC_ENULL,
                   "a sentence for each code");
    if (code < CALM_EXEC_ENULL)
        return calm_strerror(code);
    return code < CALM_EXEC_ERROR_END ? sentences[code - CALM_EXEC_ENULL]
                                      : "This is no code of the executor.";
}
