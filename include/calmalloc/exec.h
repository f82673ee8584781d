/*
 * exec.h: one worker and one pool for each core, and a dispatcher that sends each task where it
 * fits.
 *
 * A task is a function and a small payload, which is copied into the inbox of one core, or into the
 * inbox of tasks that the policy holds. Each core has one pinned worker, which runs its tasks to
 * completion and allocates only from its own pool. Tasks begin in the order of the inbox, where
 * sent tasks and others are two queues that take turns; cores may steal from other cores. Cores
 * share only their inboxes, which are bounded, and one watch line each, by which a policy chooses
 * the core.
 *
 * A NULL executor, task or output is CALM_EXEC_ENULL, for each function that returns a code.
 *
 * Units: bytes, nanoseconds and milliseconds as names say. Threads: any, unless noted. No function
 * touches errno. After calm_exec_start nothing is allocated outside the pools, and no system call
 * is made while every core has work. Link with calmexec. Design: docs/design/executor.md; choice of
 * policy: docs/dispatch.md.
 */
#ifndef CALMALLOC_EXEC_H
#define CALMALLOC_EXEC_H

#include <calmalloc/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Limits. */
enum {
    CALM_EXEC_CORES_MAX = 1024,
    CALM_EXEC_CLASSES_MAX = 16, /* block sizes of its pools                       */
    CALM_EXEC_INBOX_MAX = 1 << 20,
    CALM_EXEC_PAYLOAD_MAX = 64 * 1024
};

/* What submit does when no core is feasible, since by its watch line each has a full inbox or a
 * pool without a block of the size. Under the policy `hash` only the key's own core counts. */
enum calm_exec_full {
    CALM_EXEC_REJECT,      /* returns CALM_EXEC_EFULL                                   */
    CALM_EXEC_SHED_OLDEST, /* drops the oldest waiting task of the busiest core with one
                              (`hash`: of the key's core; `jbsq`: of the held tasks), a sent
                              task only if no other waits, and calls on_shed; if none
                              waits, or other threads stopped for 20 ms while they took it, as
                              CALM_EXEC_REJECT */
    CALM_EXEC_WAIT         /* waits up to wait_ms, then as CALM_EXEC_REJECT; a worker never waits */
};

/* 0 is success; codes of pools (calmalloc/pool.h) are passed on. */
enum calm_exec_error {
    CALM_EXEC_ENULL = 100, /* a pointer that must not be NULL is                            */
    CALM_EXEC_ECORES,      /* no core, or more than CALM_EXEC_CORES_MAX                     */
    CALM_EXEC_ECPU,        /* a CPU that this process may not use                           */
    CALM_EXEC_ECLASSES,    /* pools of different block sizes, or more than 16 sizes         */
    CALM_EXEC_EINBOX,      /* a capacity that is not a power of two from 2 to CALM_EXEC_INBOX_MAX */
    CALM_EXEC_EPAYLOAD,    /* a payload above the declared size, or above the limit         */
    CALM_EXEC_EPOLICY,     /* no policy has this name                                       */
    CALM_EXEC_EFULL_RULE,  /* no rule of enum calm_exec_full                                */
    CALM_EXEC_ENOMEM,      /* no memory for inboxes                                         */
    CALM_EXEC_ETHREAD,     /* the system starts no more threads                             */
    CALM_EXEC_EFULL,       /* no core was feasible, or the named core's inbox is full       */
    CALM_EXEC_ESTOPPED,    /* the executor stops                                            */
    CALM_EXEC_ECORE,       /* no core has this number                                       */
    CALM_EXEC_EBLOCK,      /* no pool has blocks as large as the task needs                 */
    CALM_EXEC_EWORKER,     /* a worker may not do this: it would wait for itself            */
    CALM_EXEC_ERROR_END
};

/* Returns one sentence for a code of this header or of pool.h; a static string. */
const char *calm_exec_strerror(int code);

/* An executor, and one of its workers. Their fields are private. */
typedef struct calm_exec calm_exec;
typedef struct calm_worker calm_worker;

/*
 * Runs on a worker's thread. `payload` belongs to the worker until the function returns; it is
 * aligned to 16. A task that ends its thread, by pthread_exit or cancellation, has ended. A new
 * thread continues with the others once the destructors of the old one's thread-specific data have
 * run, three rounds of them; calm_exec_core_stats.threads_ended counts these. If the system starts
 * no thread, the ending one continues; it can then no longer be cancelled. A C++ exception that
 * leaves a task ends the process. The executor uses one thread-specific key.
 */
typedef void (*calm_task_function)(calm_worker *worker, void *payload);

/* A task for a core. */
struct calm_task {
    calm_task_function function;
    const void *payload; /* copied; NULL when payload_bytes is 0                              */
    uint32_t payload_bytes;
    uint32_t hint_ns;   /* expected run time, 0: unknown; passed to on_shed; no policy uses it */
    size_t block_bytes; /* of the block it will allocate, 0: none; for feasibility */
    uint64_t key;       /* `hash`: tasks of one key run on one core, one at a time, in the order
                           of acceptance; `affine`: on that core while it has room */
};

/*
 * The program's own events, such as sockets, which workers serve between tasks. A worker's round
 * is: some of its tasks; `wait`, which asks the kernel for events, and waits for the first one if
 * there was no task; `serve`, which handles the events that `wait` found. Such a worker does not
 * poll for tasks before it waits.
 *
 * wait: returns when there is an event, or `wake` was called for the core since the last wait, or
 * after wait_ms; 0: at once, UINT64_MAX: no limit. wake: any thread; must not wait. Set things up
 * in the first call of `wait` on a core, which is on the worker's thread.
 */
struct calm_exec_events {
    void (*wait)(calm_worker *worker, uint64_t wait_ms, void *context);
    void (*serve)(calm_worker *worker, void *context);
    void (*wake)(uint32_t core, void *context);
    void *context;
};

/* The configuration of an executor. */
struct calm_exec_config {
    const struct calm_pool_config *pools; /* one for each of `cores`, with equal block sizes      */
    uint32_t cores;
    const uint32_t *cpus;    /* the CPU of each core; NULL: the usable ones in turn               */
    uint32_t inbox_capacity; /* most tasks that wait or run on a core, besides one
                                stolen; also most held tasks; a power of two */
    uint32_t payload_bytes;  /* largest payload of any task                                       */
    const char *policy;      /* NULL: the default; `./calm sim --help` names them                 */
    uint64_t seed;           /* for the policy's random numbers                                   */
    enum calm_exec_full full;
    uint32_t wait_ms; /* for CALM_EXEC_WAIT                        */
    void (*on_shed)(const struct calm_task *, void *); /* from the submitting thread; may be NULL */
    void *on_shed_context;
    const struct calm_exec_events *events; /* NULL: none; copied */
};

/*
 * Starts the workers. Returns 0 when each has its pool and runs; or a code, and then nothing
 * remains. Cost: maps inboxes and pools, starts threads.
 */
int calm_exec_start(const struct calm_exec_config *config, calm_exec **out);

/*
 * Refuses tasks from now on, runs all accepted ones, ends the workers. A submission that races with
 * the stop is either accepted, and then runs, or gets CALM_EXEC_ESTOPPED, as all later ones do.
 * Waits for running tasks; CALM_EXEC_EWORKER from a worker. One thread, once.
 */
int calm_exec_stop(calm_exec *exec);

/* Stops the executor if still running, and releases its memory and its pools. No call may be under
 * way, or begin. NULL is ignored. */
int calm_exec_destroy(calm_exec *exec);

/* Waits for a moment at which all accepted tasks have ended; while other threads submit there may
 * be none. CALM_EXEC_EWORKER from a worker. */
int calm_exec_drain(calm_exec *exec);

/* Submits a task. 0: accepted, and it will run. A code: it will not run. */
int calm_exec_submit(calm_exec *exec, const struct calm_task *task);

/* Submits tasks in order, up to the first refused one, whose code goes to *error; 0 if none is
 * refused. Returns the number accepted. `error` may be NULL. */
size_t calm_exec_submit_many(calm_exec *exec, const struct calm_task *tasks, size_t count,
                             int *error);

/* Sends a task to one core, bypassing the policy: the task runs there, and no other core steals it.
 * Any thread, including workers; never waits, and sheds no task. */
int calm_exec_send(calm_exec *exec, uint32_t core, const struct calm_task *task);

/* Frees a block of any core's pool, from any thread. Returns as calm_pool_free_remote. Wakes the
 * core if it sleeps. */
int calm_exec_free(calm_exec *exec, void *block);

/* For tasks. The calling thread is the worker's. */
uint32_t calm_worker_core(const calm_worker *worker);
calm_exec *calm_worker_exec(const calm_worker *worker);
calm_pool *calm_worker_pool(const calm_worker *worker);
void *calm_worker_alloc(calm_worker *worker, size_t bytes); /* calm_pool_alloc on its own pool */
int calm_worker_free(calm_worker *worker, void *block);     /* of its own or another core's */

/* Statistics of one core. */
struct calm_exec_core_stats {
    uint64_t done;          /* tasks that ran here                                  */
    uint64_t stolen;        /* of these, taken from another core's inbox            */
    uint64_t sleeps;        /* times the worker had nothing to do for long          */
    uint64_t busy_ns;       /* in tasks                                             */
    uint32_t in_flight;     /* waiting or running now                               */
    uint32_t cpu;           /* that the core is pinned to                           */
    uint64_t threads_ended; /* threads that tasks ended                          */
    bool is_pinned;         /* false: the system refused, or took the CPU away      */
    uint64_t free_bytes;    /* of its pool, as its watch line says                  */
};

/* Statistics of an executor. */
struct calm_exec_stats {
    uint64_t accepted;
    uint64_t rejected; /* answered with CALM_EXEC_EFULL */
    uint64_t shed;
    uint64_t waited; /* submissions that had to wait   */
    uint32_t cores;
    const char *policy;
};

/* Fills *out; each count is exact, but not all are of one moment. */
void calm_exec_stats_read(const calm_exec *exec, struct calm_exec_stats *out);

/* As calm_exec_stats_read, for one core; or CALM_EXEC_ECORE. */
int calm_exec_core_stats_read(const calm_exec *exec, uint32_t core,
                              struct calm_exec_core_stats *out);

#ifdef __cplusplus
}
#endif

#endif
