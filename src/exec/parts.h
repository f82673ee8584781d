/*
 * parts.h: the executor's structs and the functions its sources share.
 *
 * One mapping holds the executor, the watch lines, workers, dispatchers with their policies'
 * states, and the slots of all inboxes. It is populated at the start, so no page faults later.
 *
 * Owner: each struct says which thread writes. Design: docs/design/executor.md
 */
#ifndef CALM_EXEC_PARTS_H
#define CALM_EXEC_PARTS_H

#include "calmalloc/exec.h"
#include "exec/inbox.h"
#include "exec/policy.h"

enum {
    DISPATCHERS_MAX = 8,
    IDLE_WORDS = CALM_EXEC_CORES_MAX / 64,
};

/* The head of a slot, before the payload. */
struct job {
    _Alignas(16) calm_task_function function;
    uint64_t submitted_ns;
    uint64_t key;
    size_t block_bytes;
    uint32_t hint_ns;
    uint32_t payload_bytes;
    uint8_t class;
    bool is_sent; /* runs on this core only */
};

ALWAYS_INLINE void *job_payload(struct job *job)
{
    return job + 1;
}

/* A policy's state. One thread at a time; a thread that finds it busy tries the next. */
struct dispatcher {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t is_busy;

    void *state; /* of the thread inside */
};

/* False: another thread is inside. */
ALWAYS_INLINE bool dispatcher_enter(struct dispatcher *dispatcher)
{
    return load(&dispatcher->is_busy, RELAXED) == 0 &&
           exchange(&dispatcher->is_busy, 1, ACQUIRE) == 0;
}

ALWAYS_INLINE void dispatcher_leave(struct dispatcher *dispatcher)
{
    store(&dispatcher->is_busy, 0, RELEASE);
}

struct calm_worker {
    /* Constant once the worker has started. */
    _Alignas(CACHE_LINE_BYTES) struct calm_exec *exec;
    struct watch_line *line;
    const struct calm_pool_config *pool_config;
    calm_pool *pool;
    void *steal_state;
    struct job *loot; /* copy of a stolen task */
    uint32_t core;
    uint32_t cpu;
    int error; /* of the start */

    struct inbox inbox;

    /* DOZE_ words: the worker sleeps on it; a thread with news wakes the worker. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t doze;

    /* The worker writes; other threads read. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t done;
    _Atomic uint64_t stolen_count;
    _Atomic uint64_t moved; /* tasks put back into an inbox, which count twice as accepted */
    _Atomic uint64_t sleeps;
    _Atomic uint64_t busy_ns;
    _Atomic uint64_t threads_ended;
    _Atomic bool is_pinned;
    uint64_t whole_bytes;     /* of its pool when all blocks are free */
    uint32_t pause_ms;        /* of the next timed sleep */
    bool was_sent;            /* whether the last task was sent; sent and other tasks take turns */
    bool lacks_block;         /* for the task it would have stolen; cleared by news */
    struct job *running;      /* or NULL */
    struct inbox *running_of; /* the slot's inbox; NULL: the job is `loot` */
    uint64_t begun_ns;        /* start of the running task */

    /* Written by the worker's last thread; read by the stop that waits for it. */
    uint64_t thread;
    uint32_t task; /* the kernel's thread id */
    _Atomic uint32_t is_over;
};

struct calm_exec {
    /* Constant. */
    const struct policy *policy;
    struct watch_line *lines;
    struct calm_worker *workers;
    struct dispatcher *dispatchers;
    size_t block_bytes[CALM_EXEC_CLASSES_MAX];
    uint32_t classes;
    uint32_t cores;
    uint32_t dispatcher_count;
    uint32_t inbox_capacity;
    uint32_t payload_bytes;
    uint32_t wait_ms;
    enum calm_exec_full full;
    void (*on_shed)(const struct calm_task *, void *);
    void *on_shed_context;
    struct calm_exec_events events; /* none if `wait` is NULL */
    size_t mapped_bytes;

    /* The starting and stopping thread's. */
    uint32_t started; /* threads started and not joined */

    /* Tasks that a bounded policy holds until a core finishes a task. */
    struct inbox held;

    /* Threads that wait for a task to end sleep on `room`. Workers read `waiters`. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t waiters;
    _Atomic uint32_t room;

    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t asleep[IDLE_WORDS]; /* sleeping cores */

    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t ready; /* workers that started or failed to */
    _Atomic uint64_t rejected, shed, waited;
};

enum doze { DOZE_AWAKE, DOZE_ASLEEP };

/* --- dispatch.c --- */

/* Accepts a task, as calm_exec_submit. Waits if `may_wait` and the rule is CALM_EXEC_WAIT. */
int dispatch(struct calm_exec *exec, const struct calm_task *task, bool may_wait);

/* Sends a task to a core, which runs it. Returns 0, a code for a bad task, CALM_EXEC_EFULL or
 * CALM_EXEC_ESTOPPED. */
int dispatch_to(struct calm_exec *exec, uint32_t core, const struct calm_task *task);

/* --- exec.c --- */

/* Tasks ever accepted. */
uint64_t exec_accepted(const calm_exec *exec);

/* --- running.c --- */

/* Make the executor visible to other processes, and invisible before its memory is released. */
void running_add(struct calm_exec *exec);
void running_remove(const struct calm_exec *exec);

/* --- worker.c --- */

/* Thread function of a worker; `argument` is its struct calm_worker. */
void *worker_main(void *argument);

/* Waits until the worker has ended, and joins its last thread. */
void worker_join(struct calm_worker *worker);

/* Writes the pool's free blocks to the worker's watch line; stores only changes. Worker's thread
 * only. */
void worker_publish(struct calm_worker *worker);

/* Wakes a sleeping worker. False: the worker was awake. Any thread, after publishing the news. */
bool worker_wake(struct calm_worker *worker);

/* Wakes one sleeping worker, if any. */
void worker_wake_any(struct calm_exec *exec);

/* The worker whose thread is calling, or NULL. */
struct calm_worker *worker_here(void);

#endif
