/*
 * dispatch.c: has a policy choose a core, and puts the task into its inbox.
 *
 * Several threads may submit at once. A policy's state is one thread's at a time, so there are a
 * few dispatchers, each with a state; who finds one busy takes the next, and where all are busy the
 * task goes to the next feasible core without a policy. Nobody waits for a dispatcher. A policy
 * without a state is asked without one.
 *
 * A place of a core is taken by its line's count, before the slot: so whether a core has room is
 * decided by one word, and who took a place finds a slot.
 *
 * Owner: dispatcher.is_busy for its state; counters are atomic. Protocol: docs/protocols/ring.md.
 * Design: docs/design/executor.md
 */
#include "base/bits.h"
#include "exec/parts.h"
#include "exec/policy_parts.h"
#include "os/os.h"
#include "os/worker.h"

enum {
    WAIT_STEP_MS = 5,     /* a wait looks again this often, whatever it was told */
    SLOT_LOOKS_MAX = 100, /* where a thread is amid giving one back              */
};

/* The first block size that holds `bytes`, POLICY_NO_CLASS for 0, or `classes` when none does. */
static uint32_t class_of_block(const struct calm_exec *exec, size_t bytes)
{
    uint32_t class = 0;
    if (bytes == 0)
        return POLICY_NO_CLASS;
    while (class < exec->classes && exec->block_bytes[class] < bytes)
        class ++;
    return class;
}

static struct policy_view view_now(const struct calm_exec *exec)
{
    return (struct policy_view){.lines = exec->lines,
                                .cores = exec->cores,
                                .inbox_capacity = exec->inbox_capacity,
                                .now_ns = os_clock_ns()};
}

/* A dispatcher that nobody is in, or NULL. */
static struct dispatcher *enter(struct calm_exec *exec)
{
    for (uint32_t i = 0; i < exec->dispatcher_count; i++) {
        struct dispatcher *dispatcher = &exec->dispatchers[i];
        if (dispatcher_enter(dispatcher))
            return dispatcher;
    }
    return NULL;
}

/* Where the task is to go. */
static uint32_t choose(struct calm_exec *exec, const struct policy_view *view,
                       const struct policy_task *task)
{
    const struct policy *policy = exec->policy;
    if (exec->dispatcher_count == 0)
        return policy->choose(NULL, view, task);
    if (policy->bound != 0 && ring_is_ready(&exec->held.ready))
        return POLICY_HOLD; /* behind those before it */
    struct dispatcher *dispatcher = enter(exec);
    if (dispatcher == NULL)
        return policy->bound != 0
                   ? POLICY_HOLD
                   : policy_next_feasible(view, task, (uint32_t)(view->now_ns % view->cores));
    uint32_t core = policy->choose(dispatcher->state, view, task);
    dispatcher_leave(dispatcher);
    return core;
}

static void fill(struct job *slot, const struct calm_task *task, const struct job *facts)
{
    *slot = *facts;
    if (task->payload_bytes > 0)
        __builtin_memcpy(job_payload(slot), task->payload, task->payload_bytes);
}

static int publish(struct inbox *inbox, struct job *slot)
{
    bool is_accepted = slot->is_sent ? inbox_send(inbox, slot)
                                     : inbox_publish_marked(inbox, slot, slot->class);
    return is_accepted ? 0 : CALM_EXEC_ESTOPPED;
}

/* Copies the task into a slot of the inbox: 0, CALM_EXEC_EFULL or CALM_EXEC_ESTOPPED. */
static int deliver(struct inbox *inbox, const struct calm_task *task, const struct job *facts)
{
    struct job *slot = NULL;
    for (unsigned looks = 0; looks < SLOT_LOOKS_MAX && slot == NULL; looks++)
        slot = (struct job *)inbox_reserve(inbox);
    if (slot == NULL)
        return ring_is_closed(&inbox->ready) ? CALM_EXEC_ESTOPPED : CALM_EXEC_EFULL;
    fill(slot, task, facts);
    return publish(inbox, slot);
}

/* After a task was put into a core's inbox. */
static void tell(struct calm_exec *exec, struct calm_worker *worker, const struct job *facts,
                 bool is_first)
{
    if (is_first)
        watch_oldest(worker->line, facts->submitted_ns);
    worker_wake(worker);
    /* After Z4: of two that put a task here, the later one sees both. */
    if (exec->policy->steal != NULL && watch_count(worker->line) >= 2 &&
        (!facts->is_sent || ring_is_ready(&worker->inbox.ready)))
        worker_wake_any(exec);
}

/* Into a core's inbox, if a place is to be had, which is taken first, so that a burst sees itself.
 */
static int put(struct calm_exec *exec, uint32_t core, const struct calm_task *task,
               const struct job *facts)
{
    struct calm_worker *worker = &exec->workers[core];
    uint32_t most = exec->policy->bound != 0 && !facts->is_sent ? exec->policy->bound
                                                                : exec->inbox_capacity;
    if (!watch_reserve(worker->line, most))
        return ring_is_closed(&worker->inbox.ready) ? CALM_EXEC_ESTOPPED : CALM_EXEC_EFULL;
    bool is_first = !inbox_is_ready(&worker->inbox);
    int result = deliver(&worker->inbox, task, facts);
    if (result == 0)
        tell(exec, worker, facts, is_first);
    else
        watch_left(worker->line);
    return result;
}

/* Into the chosen core's inbox; where others were quicker, into the next feasible one's, unless the
 * choice is binding. */
static int put_near(struct calm_exec *exec, const struct policy_view *view,
                    const struct policy_task *asked, uint32_t core, const struct calm_task *task,
                    const struct job *facts)
{
    int result = CALM_EXEC_EFULL;
    if (exec->policy->is_binding && !policy_feasible(view, asked, core))
        return result;
    for (uint32_t tries = 0; tries <= exec->cores && core < exec->cores; tries++) {
        result = put(exec, core, task, facts);
        if (result != CALM_EXEC_EFULL || exec->policy->is_binding || exec->policy->bound != 0)
            break;
        core = policy_next_feasible(view, asked, core + 1 < exec->cores ? core + 1 : 0);
    }
    return result;
}

/* Kept by the executor until a core has finished one. */
static int hold(struct calm_exec *exec, const struct calm_task *task, const struct job *facts)
{
    int result = deliver(&exec->held, task, facts);
    if (result == 0)
        worker_wake_any(exec);
    return result;
}

static uint32_t busiest(const struct calm_exec *exec)
{
    uint32_t best = 0;
    for (uint32_t core = 1; core < exec->cores; core++)
        if (watch_count(&exec->lines[core]) > watch_count(&exec->lines[best]))
            best = core;
    return best;
}

/* Drops the oldest task that waits in an inbox, of those that were sent if there is no other, and
 * returns its slot for the new one; NULL: none waits. */
static struct job *shed(struct calm_exec *exec, struct inbox *inbox)
{
    struct job *slot = (struct job *)inbox_take(inbox);
    if (slot == NULL)
        slot = (struct job *)inbox_take_sent(inbox);
    if (slot == NULL)
        return NULL;
    struct calm_task dropped = {.function = slot->function,
                                .payload = job_payload(slot),
                                .payload_bytes = slot->payload_bytes,
                                .hint_ns = slot->hint_ns,
                                .block_bytes = slot->block_bytes,
                                .key = slot->key};
    if (exec->on_shed != NULL)
        exec->on_shed(&dropped, exec->on_shed_context);
    return slot;
}

/* CALM_EXEC_EFULL: none waits at the core. */
static int shed_at(struct calm_exec *exec, uint32_t core, const struct calm_task *task,
                   const struct job *facts)
{
    struct calm_worker *worker = &exec->workers[core];
    struct job *slot = shed(exec, &worker->inbox);
    if (slot == NULL)
        return CALM_EXEC_EFULL;
    bool is_first = !inbox_is_ready(&worker->inbox);
    fill(slot, task, facts);
    int result = publish(&worker->inbox, slot);
    fetch_add(&exec->shed, 1, RELEASE); /* pairs with all_done() */
    if (result == 0)
        tell(exec, worker, facts, is_first);
    else
        watch_left(worker->line);
    return result;
}

/* Of the tasks that are held. */
static int shed_held(struct calm_exec *exec, const struct calm_task *task, const struct job *facts)
{
    struct job *slot = shed(exec, &exec->held);
    if (slot == NULL)
        return CALM_EXEC_EFULL;
    fill(slot, task, facts);
    int result = publish(&exec->held, slot);
    fetch_add(&exec->shed, 1, RELEASE);
    worker_wake_any(exec);
    return result;
}

/* Of the busiest core, or of the next at which any waits; of the one that the choice binds to; or
 * of the held ones. */
static int shed_and_put(struct calm_exec *exec, uint32_t chosen, const struct calm_task *task,
                        const struct job *facts)
{
    if (exec->policy->is_binding)
        return shed_at(exec, chosen, task, facts);
    if (exec->policy->bound != 0)
        return shed_held(exec, task, facts);
    uint32_t core = busiest(exec);
    int result = CALM_EXEC_EFULL;
    for (uint32_t seen = 0; seen < exec->cores && result == CALM_EXEC_EFULL; seen++) {
        result = shed_at(exec, core, task, facts);
        core = core + 1 < exec->cores ? core + 1 : 0;
    }
    return result;
}

/* What a task's slot carries beside the payload. */
static struct job job_of(const struct calm_task *task, uint32_t class)
{
    return (struct job){.function = task->function,
                        .submitted_ns = os_clock_ns(),
                        .key = task->key,
                        .block_bytes = task->block_bytes,
                        .hint_ns = task->hint_ns,
                        .payload_bytes = task->payload_bytes,
                        .class = (uint8_t)class};
}

/* A stop closes the held tasks' inbox first. */
static bool is_stopping(const struct calm_exec *exec)
{
    return ring_is_closed(&exec->held.ready);
}

/* One attempt to have the task accepted. Once the executor stops nothing is shed for it, and no
 * policy's refusal is a reason to try again. */
static int attempt(struct calm_exec *exec, const struct calm_task *task, uint32_t class)
{
    struct policy_task asked = {.key = task->key, .class = class};
    struct policy_view view = view_now(exec);
    uint32_t core = choose(exec, &view, &asked);
    struct job facts = job_of(task, class);
    int result = core == POLICY_HOLD ? CALM_EXEC_EFULL
                                     : put_near(exec, &view, &asked, core, task, &facts);
    if (result == CALM_EXEC_EFULL && exec->policy->bound != 0)
        result = hold(exec, task, &facts);
    if (result != CALM_EXEC_EFULL)
        return result;
    if (is_stopping(exec))
        return CALM_EXEC_ESTOPPED;
    return exec->full == CALM_EXEC_SHED_OLDEST ? shed_and_put(exec, core, task, &facts) : result;
}

/* How long to wait until the next look, in ms, rounded up. */
static uint64_t step_ms(uint64_t until_ns)
{
    uint64_t now_ns = os_clock_ns();
    uint64_t left_ms = until_ns > now_ns ? (until_ns - now_ns + 999999) / 1000000 : 0;
    return left_ms < WAIT_STEP_MS ? left_ms : (uint64_t)WAIT_STEP_MS;
}

/* Tries again whenever a task has ended, until the time is over. */
static int attempt_for(struct calm_exec *exec, const struct calm_task *task, uint32_t class)
{
    uint64_t until_ns = os_clock_ns() + (uint64_t)exec->wait_ms * 1000000;
    int result = CALM_EXEC_EFULL;
    fetch_add(&exec->waited, 1, RELAXED);
    fetch_add(&exec->waiters, 1, ACQ_REL);
    do {
        uint32_t seen = load(&exec->room, ACQUIRE);
        result = attempt(exec, task, class);
        if (result == CALM_EXEC_EFULL)
            os_wait(&exec->room, seen, step_ms(until_ns));
    } while (result == CALM_EXEC_EFULL && os_clock_ns() < until_ns);
    fetch_sub(&exec->waiters, 1, ACQ_REL);
    return result;
}

static int check(const struct calm_exec *exec, const struct calm_task *task)
{
    if (exec == NULL || task == NULL || task->function == NULL ||
        (task->payload == NULL && task->payload_bytes > 0))
        return CALM_EXEC_ENULL;
    return task->payload_bytes > exec->payload_bytes ? CALM_EXEC_EPAYLOAD : 0;
}

int dispatch(struct calm_exec *exec, const struct calm_task *task, bool may_wait)
{
    int result = check(exec, task);
    if (result != 0)
        return result;
    uint32_t class = class_of_block(exec, task->block_bytes);
    if (class == exec->classes && class != POLICY_NO_CLASS)
        return CALM_EXEC_EBLOCK;
    result = attempt(exec, task, class);
    if (result == CALM_EXEC_EFULL && may_wait && exec->full == CALM_EXEC_WAIT && exec->wait_ms > 0)
        result = attempt_for(exec, task, class);
    if (result == CALM_EXEC_EFULL)
        fetch_add(&exec->rejected, 1, RELAXED);
    return result;
}

int dispatch_to(struct calm_exec *exec, uint32_t core, const struct calm_task *task)
{
    int result = check(exec, task);
    if (result != 0)
        return result;
    struct job facts = job_of(task, POLICY_NO_CLASS);
    facts.is_sent = true;
    result = put(exec, core, task, &facts);
    if (result == CALM_EXEC_EFULL)
        fetch_add(&exec->rejected, 1, RELAXED);
    return result;
}
