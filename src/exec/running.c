/*
 * running.c: the table of executors, which lets another process observe them.
 *
 * Other processes read the table through its facts, like the heap's (front/watch.c); this process
 * does not read it. An executor that finds the table full is not visible.
 *
 * Owner: each entry belongs to the executor that took it. Design: docs/design/watching.md
 */
#include "base/facts.h"
#include "calmalloc/calmalloc.h"
#include "exec/parts.h"
#include "pool/pool.h"

/* EXEC_FACTS_VERSION: incremented when a fact changes its meaning or disappears. */
enum { RUNNING_MAX = 8, EXEC_FACTS_VERSION = 3 };

static struct calm_exec *_Atomic running[RUNNING_MAX];

static const struct watch_fact exec_facts[] = {
    FACT_AT("running", running),
    FACT_NUMBER("running.count", RUNNING_MAX),
    FACT_NUMBER("exec.bytes", sizeof(struct calm_exec)),
    FACT_NUMBER("exec.policy", offsetof(struct calm_exec, policy)),
    FACT_NUMBER("exec.lines", offsetof(struct calm_exec, lines)),
    FACT_NUMBER("exec.workers", offsetof(struct calm_exec, workers)),
    FACT_NUMBER("exec.block_bytes", offsetof(struct calm_exec, block_bytes)),
    FACT_NUMBER("exec.classes", offsetof(struct calm_exec, classes)),
    FACT_NUMBER("exec.cores", offsetof(struct calm_exec, cores)),
    FACT_NUMBER("exec.inbox_capacity", offsetof(struct calm_exec, inbox_capacity)),
    FACT_NUMBER("exec.rejected", offsetof(struct calm_exec, rejected)),
    FACT_NUMBER("exec.shed", offsetof(struct calm_exec, shed)),
    FACT_NUMBER("exec.waited", offsetof(struct calm_exec, waited)),
    FACT_NUMBER("policy.name", offsetof(struct policy, name)),
    FACTS_END,
};

static const struct watch_fact worker_facts[] = {
    FACT_NUMBER("worker.bytes", sizeof(struct calm_worker)),
    FACT_NUMBER("worker.pool", offsetof(struct calm_worker, pool)),
    FACT_NUMBER("worker.cpu", offsetof(struct calm_worker, cpu)),
    FACT_NUMBER("worker.doze", offsetof(struct calm_worker, doze)),
    FACT_NUMBER("worker.done", offsetof(struct calm_worker, done)),
    FACT_NUMBER("worker.stolen", offsetof(struct calm_worker, stolen_count)),
    FACT_NUMBER("worker.sleeps", offsetof(struct calm_worker, sleeps)),
    FACT_NUMBER("worker.busy_ns", offsetof(struct calm_worker, busy_ns)),
    FACT_NUMBER("worker.is_pinned", offsetof(struct calm_worker, is_pinned)),
    FACT_NUMBER("worker.whole_bytes", offsetof(struct calm_worker, whole_bytes)),
    FACT_NUMBER("doze.asleep", DOZE_ASLEEP),
    FACTS_END,
};

static const struct watch_fact line_facts[] = {
    FACT_NUMBER("line.bytes", sizeof(struct watch_line)),
    FACT_NUMBER("line.count", offsetof(struct watch_line, count)),
    FACT_NUMBER("line.service_ns", offsetof(struct watch_line, service_ns)),
    FACT_NUMBER("line.latency_ns", offsetof(struct watch_line, latency_ns)),
    FACT_NUMBER("line.free_blocks", offsetof(struct watch_line, free_blocks)),
    FACT_NUMBER("pool.class_count", offsetof(struct calm_pool, class_count)),
    FACT_NUMBER("pool.classes", offsetof(struct calm_pool, classes)),
    FACT_NUMBER("pool.class_bytes", sizeof(struct pool_class)),
    FACT_NUMBER("pool.class_stride", offsetof(struct pool_class, stride)),
    FACT_NUMBER("pool.class_count_of", offsetof(struct pool_class, count)),
    FACT_NUMBER("pool.backlog", offsetof(struct calm_pool, watch.remote_backlog)),
    FACTS_END,
};

static const struct fact_table exec_table = {
    .magic = "calmexec facts",
    .version = EXEC_FACTS_VERSION,
    .bytes = sizeof(struct fact_table),
    .library = CALM_VERSION_TEXT,
    .lists = {exec_facts, worker_facts, line_facts},
};

void running_add(struct calm_exec *exec)
{
    FACTS_NOTE(exec_table);
    for (unsigned i = 0; i < RUNNING_MAX; i++) {
        struct calm_exec *nobody = NULL;
        if (compare_swap(&running[i], &nobody, exec, RELEASE, RELAXED))
            return;
    }
}

void running_remove(const struct calm_exec *exec)
{
    for (unsigned i = 0; i < RUNNING_MAX; i++)
        if (load(&running[i], RELAXED) == exec)
            store(&running[i], NULL, RELAXED);
}
