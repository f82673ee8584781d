/*
 * exec.h: one worker and one pool a core, and a dispatcher that sends each task where it fits.
 *
 * A task is a function and a small payload, which is copied into the inbox of one core, or into
 * that of the tasks that the policy holds. Each core has one worker, pinned, which runs its
 * tasks to completion and allocates from its own pool only. Tasks begin in the order of the inbox,
 * where those that were sent and the others are two queues that take turns; idle cores may steal
 * from the others. Cores share nothing but their inboxes, which are bounded, and one watch line
 * each, by which a policy chooses the core.
 *
 * An executor, a task or an output that is NULL is CALM_EXEC_ENULL, of each function that returns a
 * code.
 *
 * Units: bytes, nanoseconds and milliseconds as names say. Threads: unless said otherwise, any. No
 * function touches errno. After calm_exec_start nothing is allocated outside the pools, and no
 * system call is made while every core has work. Link with calmexec. Design:
 * docs/design/executor.md; which policy when: docs/dispatch.md.
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

/* What submit does when no core is feasible: of each the inbox is full or the pool has no block of
 * the size, as its watch line says; under the policy `hash` of the key's own core. */
enum calm_exec_full {
    CALM_EXEC_REJECT,      /* returns CALM_EXEC_EFULL                                   */
    CALM_EXEC_SHED_OLDEST, /* drops the oldest waiting task of the busiest core at which any waits
                              (`hash`: of the key's own; `jbsq`: of those that are held), one that
                              was sent only where no other waits, and tells on_shed; where none
                              waits, as CALM_EXEC_REJECT */
    CALM_EXEC_WAIT         /* waits up to wait_ms, then as CALM_EXEC_REJECT; a worker never waits */
};

/* 0 is success; codes of pools (calmalloc/pool.h) come as they are. */
enum calm_exec_error {
    CALM_EXEC_ENULL = 100, /* a pointer that must not be NULL is                            */
    CALM_EXEC_ECORES,      /* no core, more than CALM_EXEC_CORES_MAX, or than `cpus` says   */
    CALM_EXEC_ECPU,        /* a CPU that this process may not use                           */
    CALM_EXEC_ECLASSES,    /* pools of different block sizes, or more than 16 sizes         */
    CALM_EXEC_EINBOX,      /* a capacity that is no power of two from 2 to CALM_EXEC_INBOX_MAX */
    CALM_EXEC_EPAYLOAD,    /* a payload above what was declared, or above the limit         */
    CALM_EXEC_EPOLICY,     /* no policy is called that                                      */
    CALM_EXEC_EFULL_RULE,  /* no rule of enum calm_exec_full                                */
    CALM_EXEC_ENOMEM,      /* no memory for inboxes                                         */
    CALM_EXEC_ETHREAD,     /* the system starts no more threads                             */
    CALM_EXEC_EFULL,       /* no core was feasible, or the named core's inbox is full       */
    CALM_EXEC_ESTOPPED,    /* the executor stops                                            */
    CALM_EXEC_ECORE,       /* a core that there is not                                      */
    CALM_EXEC_EBLOCK,      /* no pool has blocks as large as the task needs                 */
    CALM_EXEC_EWORKER,     /* a worker may not do this: it would wait for itself            */
    CALM_EXEC_ERROR_END
};

/* One sentence for a code of this header or of pool.h; a static string. */
const char *calm_exec_strerror(int code);

/* An executor, and one of its workers. Their fields are their own. */
typedef struct calm_exec calm_exec;
typedef struct calm_worker calm_worker;

/*
 * Runs on a worker's thread. `payload` is the worker's until the function returns; aligned to 16. A
 * task that ends its thread, by pthread_exit or as the thread is cancelled, has ended, and a new
 * thread goes on with the others once the destructors of its thread-specific data have run, three
 * rounds of them: calm_exec_core_stats.threads_ended says how often. Where the system starts no
 * thread, the ending one goes on; it is then cancelled no more. A C++ exception that leaves a task
 * ends the process. One thread-specific key is the executor's.
 */
typedef void (*calm_task_function)(calm_worker *worker, void *payload);

/* What a core is to run. */
struct calm_task {
    calm_task_function function;
    const void *payload; /* copied; NULL when payload_bytes is 0                              */
    uint32_t payload_bytes;
    uint32_t hint_ns;   /* how long it will run, 0: unknown; on_shed gets it, no policy asks  */
    size_t block_bytes; /* of the block that it will allocate, 0: none; what feasibility asks */
    uint64_t key;       /* `hash`: tasks of one key run on one core, one at a time, in the order
                           in which they were accepted; `affine`: on that core while it has room */
};

/*
 * Events of the program's own, such as sockets, that workers serve between tasks. A worker's round
 * is: some of its tasks; `wait`, which asks the kernel for events and waits for the first of them
 * where there was no task; `serve`, which handles what `wait` found. Such a worker does not look
 * for tasks for a while before it waits.
 *
 * wait: returns when there is an event, or `wake` was called for the core since the last wait, or
 * after wait_ms; 0: at once, UINT64_MAX: no limit. wake: any thread; must not wait. The first call
 * of `wait` on a core is the place to set things up, since it is on the worker's thread.
 */
struct calm_exec_events {
    void (*wait)(calm_worker *worker, uint64_t wait_ms, void *context);
    void (*serve)(calm_worker *worker, void *context);
    void (*wake)(uint32_t core, void *context);
    void *context;
};

/* What an executor is to be. */
struct calm_exec_config {
    const struct calm_pool_config *pools; /* `cores` of them, with the same block sizes           */
    uint32_t cores;
    const uint32_t *cpus;    /* the CPU of each core; NULL: the usable ones in turn               */
    uint32_t inbox_capacity; /* tasks that wait or run on a core, beside one that it stole; of those
                                that the policy holds as many; a power of two */
    uint32_t payload_bytes;  /* the largest of any task                                           */
    const char *policy;      /* NULL: the default; `./calm sim --help` names them                 */
    uint64_t seed;           /* of the policy's draws                                             */
    enum calm_exec_full full;
    uint32_t wait_ms; /* for CALM_EXEC_WAIT                        */
    void (*on_shed)(const struct calm_task *, void *); /* from the submitting thread; may be NULL */
    void *on_shed_context;
    const struct calm_exec_events *events; /* NULL: none; copied */
};

/*
 * Starts the workers. Returns 0 when each has its pool and runs, or a code, and then nothing is
 * left behind. Cost: maps inboxes and pools, starts threads.
 */
int calm_exec_start(const struct calm_exec_config *config, calm_exec **out);

/*
 * Takes no more tasks, runs all that were accepted, ends the workers. Submissions that race with it
 * are accepted, and then run, or answered with CALM_EXEC_ESTOPPED, as all later ones are. Waits for
 * running tasks; CALM_EXEC_EWORKER from a worker. One thread, once.
 */
int calm_exec_stop(calm_exec *exec);

/* Stops it if that was not done, and gives back its memory and its pools. No call may be under way,
 * or begin. NULL is ignored. */
int calm_exec_destroy(calm_exec *exec);

/* Waits for a moment at which all that was accepted has ended; while others go on submitting there
 * may be none. CALM_EXEC_EWORKER from a worker. */
int calm_exec_drain(calm_exec *exec);

/* Accepts a task: 0, and it will run; or a code, and it will not. */
int calm_exec_submit(calm_exec *exec, const struct calm_task *task);

/* Submits tasks in order, up to the first that is not accepted, whose code goes to *error, 0 if
 * there is none. Returns how many were. `error` may be NULL. */
size_t calm_exec_submit_many(calm_exec *exec, const struct calm_task *tasks, size_t count,
                             int *error);

/* Sends a task to one core, past the policy: it runs there, and no other core steals it. Any
 * thread, a worker's too; never waits, and sheds nothing for it. */
int calm_exec_send(calm_exec *exec, uint32_t core, const struct calm_task *task);

/* Frees a block of any core's pool, from any thread; what calm_pool_free_remote says. Wakes the
 * core if it sleeps. */
int calm_exec_free(calm_exec *exec, void *block);

/* What a task may ask its worker. The calling thread is the worker's. */
uint32_t calm_worker_core(const calm_worker *worker);
calm_exec *calm_worker_exec(const calm_worker *worker);
calm_pool *calm_worker_pool(const calm_worker *worker);
void *calm_worker_alloc(calm_worker *worker, size_t bytes); /* calm_pool_alloc on its own pool */
int calm_worker_free(calm_worker *worker, void *block);     /* its own block, or any other core's */

/* What one core did. */
struct calm_exec_core_stats {
    uint64_t done;          /* tasks that ran here                                  */
    uint64_t stolen;        /* of them, taken from another core's inbox             */
    uint64_t sleeps;        /* times the worker found nothing to do for long        */
    uint64_t busy_ns;       /* in tasks                                             */
    uint32_t in_flight;     /* waiting or running now                               */
    uint32_t cpu;           /* that the core is pinned to                           */
    uint64_t threads_ended; /* by tasks                                          */
    bool is_pinned;         /* false: the system refused, or took the CPU away      */
    uint64_t free_bytes;    /* of its pool, as its watch line says                  */
};

/* What an executor did. */
struct calm_exec_stats {
    uint64_t accepted;
    uint64_t rejected; /* answered with CALM_EXEC_EFULL */
    uint64_t shed;
    uint64_t waited; /* submissions that had to wait   */
    uint32_t cores;
    const char *policy;
};

/* Fills *out; each count is exact, all are not of one moment. */
void calm_exec_stats_read(const calm_exec *exec, struct calm_exec_stats *out);

/* The same for one core; or CALM_EXEC_ECORE. */
int calm_exec_core_stats_read(const calm_exec *exec, uint32_t core,
                              struct calm_exec_core_stats *out);

#ifdef __cplusplus
}
#endif

#endif
