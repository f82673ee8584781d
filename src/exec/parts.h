/*
 * parts.h: what the executor is made of; shared by its sources.
 *
 * One mapping holds it all: the executor, the watch lines, workers, dispatchers with their
 * policies' states, and the slots of all inboxes. It is filled when the executor starts, so that no
 * page is faulted in later.
 *
 * Owner: each struct says who writes what. Design: docs/design/executor.md
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

/* What a slot carries before the payload. */
struct job {
    _Alignas(16) calm_task_function function;
    uint64_t submitted_ns;
    uint64_t key;
    size_t block_bytes;
    uint32_t hint_ns;
    uint32_t payload_bytes;
    uint8_t class;
    bool is_sent; /* to this core: it runs on no other */
};

ALWAYS_INLINE void *job_payload(struct job *job)
{
    return job + 1;
}

/* Decides where tasks go; one thread at a time, who finds it busy takes the next. */
struct dispatcher {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t is_busy;

    void *state; /* of whoever is inside */
};

/* False: somebody is inside. */
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
    /* Constant once the worker is ready. */
    _Alignas(CACHE_LINE_BYTES) struct calm_exec *exec;
    struct watch_line *line;
    const struct calm_pool_config *pool_config;
    calm_pool *pool;
    void *steal_state;
    struct job *loot; /* room for a stolen task */
    uint32_t core;
    uint32_t cpu;
    int error; /* of its start */

    struct inbox inbox;

    /* DOZE_ words: the worker sleeps on it, whoever has news for it wakes it. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t doze;

    /* The worker's; others read. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t done;
    _Atomic uint64_t stolen_count;
    _Atomic uint64_t moved; /* tasks that it put back into an inbox: they count twice as accepted */
    _Atomic uint64_t sleeps;
    _Atomic uint64_t busy_ns;
    _Atomic uint64_t threads_ended;
    _Atomic bool is_pinned;
    uint64_t whole_bytes;     /* of its pool, while all blocks are free */
    uint32_t pause_ms;        /* of its next timed sleep */
    bool was_sent;            /* its last own task; such ones and others take turns */
    bool lacks_block;         /* for what it would have stolen, since it last had news */
    struct job *running;      /* or NULL */
    struct inbox *running_of; /* that the slot goes back to; NULL: it is `loot` */
    uint64_t begun_ns;        /* the running task */

    /* Of the thread that ends it, and of the stop that waits for that. */
    uint64_t thread;
    uint32_t task; /* the kernel's number of it */
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
    struct calm_exec_events events; /* without `wait`: none */
    size_t mapped_bytes;

    /* Of whoever starts and stops it. */
    uint32_t started; /* threads that were started and not joined */

    /* Tasks that the policy keeps until a core has finished one. */
    struct inbox held;

    /* Threads that wait for a task's end sleep on `room`. Workers look at `waiters`. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t waiters;
    _Atomic uint32_t room;

    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t asleep[IDLE_WORDS]; /* cores whose worker sleeps */

    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t ready; /* workers that have begun, well or not */
    _Atomic uint64_t rejected, shed, waited;
};

enum doze { DOZE_AWAKE, DOZE_ASLEEP };

/* --- dispatch.c --- */

/* Accepts a task as calm_exec_submit does, waiting where the rule is to wait and the caller may. */
int dispatch(struct calm_exec *exec, const struct calm_task *task, bool may_wait);

/* Sends a task to a core, which runs it: 0, CALM_EXEC_EFULL or CALM_EXEC_ESTOPPED. */
int dispatch_to(struct calm_exec *exec, uint32_t core, const struct calm_task *task);

/* --- exec.c --- */

/* Tasks that were ever accepted. */
uint64_t exec_accepted(const calm_exec *exec);

/* --- running.c --- */

/* Lets another process see the executor; and no longer, before its memory goes. */
void running_add(struct calm_exec *exec);
void running_remove(const struct calm_exec *exec);

/* --- worker.c --- */

/* The thread of a worker; `argument` is its struct. */
void *worker_main(void *argument);

/* Waits until the worker is over, and for its last thread. */
void worker_join(struct calm_worker *worker);

/* Says on its line how the worker's pool is; only what changed is written. Its thread only. */
void worker_publish(struct calm_worker *worker);

/* Wakes a worker, if it sleeps and nobody did: whether it did. Any thread, after what it is to see
 * was published. */
bool worker_wake(struct calm_worker *worker);

/* Wakes one worker of those that sleep, if there are any. */
void worker_wake_any(struct calm_exec *exec);

/* The worker that the calling thread is, or NULL. */
struct calm_worker *worker_here(void);

#endif
