/*
 * dispatch.c: has a policy choose a core, and puts the task into its inbox.
 *
 * Several threads may submit at once. A policy's state is one thread's at a time, so there are a
 * few dispatchers, each with a state; who finds one busy takes the next, and where all are busy the
 * task goes to the next feasible core without a policy. Nobody waits for a dispatcher.
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
    HEARD_MAX = 16,   /* outcomes that one decision takes in */
    SHED_TRIES = 2,   /* tasks dropped for one */
    WAIT_STEP_MS = 5, /* a wait looks again this often, whatever it was told */
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

/* Tells the policy what workers reported, a bounded part of it. */
static void hear(const struct calm_exec *exec, struct dispatcher *dispatcher,
                 const struct policy_view *view)
{
    const struct policy *policy = exec->policy;
    struct policy_outcome *outcome;
    for (unsigned heard = 0;
         policy->finished != NULL && heard < HEARD_MAX &&
         (outcome = (struct policy_outcome *)inbox_take(&dispatcher->outcomes)) != NULL;
         heard++) {
        policy->finished(dispatcher->state, view, outcome);
        inbox_return(&dispatcher->outcomes, outcome);
    }
    for (uint32_t word = 0; policy->idle != NULL && word < (exec->cores + 63) / 64; word++) {
        if (load(&dispatcher->idle[word], RELAXED) == 0)
            continue;
        for (uint64_t cores = exchange(&dispatcher->idle[word], 0, ACQUIRE); cores != 0;
             cores &= cores - 1)
            policy->idle(dispatcher->state, word * 64 + bit_lowest(cores));
    }
}

/* Where the task is to go; *dispatcher is who wants to hear of it. */
static struct policy_choice choose(struct calm_exec *exec, const struct policy_task *task,
                                   uint32_t *number)
{
    struct policy_view view = view_now(exec);
    struct dispatcher *dispatcher = enter(exec);
    *number = NO_DISPATCHER;
    if (dispatcher == NULL)
        return policy_chose(
            policy_next_feasible(&view, task, (uint32_t)(view.now_ns % view.cores)));
    hear(exec, dispatcher, &view);
    struct policy_choice choice = exec->policy->choose(dispatcher->state, &view, task);
    *number = (uint32_t)(dispatcher - exec->dispatchers);
    dispatcher_leave(dispatcher);
    return choice;
}

/* Copies the task into a slot of the inbox: 0, CALM_EXEC_EFULL or CALM_EXEC_ESTOPPED. */
static int deliver(struct inbox *inbox, const struct calm_task *task, const struct job *facts)
{
    struct job *job = (struct job *)inbox_reserve(inbox);
    if (job == NULL)
        return ring_is_closed(&inbox->ready) ? CALM_EXEC_ESTOPPED : CALM_EXEC_EFULL;
    *job = *facts;
    if (task->payload_bytes > 0)
        __builtin_memcpy(job_payload(job), task->payload, task->payload_bytes);
    bool is_accepted = facts->is_sent ? inbox_send(inbox, job)
                                      : inbox_publish_marked(inbox, job, job->class);
    return is_accepted ? 0 : CALM_EXEC_ESTOPPED;
}

/* Into a core's inbox; the count comes first, so that a burst sees itself. */
static int put(struct calm_exec *exec, uint32_t core, const struct calm_task *task,
               const struct job *facts)
{
    struct calm_worker *worker = &exec->workers[core];
    watch_submitted(worker->line, task->hint_ns);
    bool is_first = !inbox_is_ready(&worker->inbox);
    int result = deliver(&worker->inbox, task, facts);
    if (result != 0) {
        watch_left(worker->line, task->hint_ns);
        return result;
    }
    if (is_first)
        watch_oldest(worker->line, facts->submitted_ns);
    worker_wake(worker);
    /* After Z4: of two that put a task here, the later one sees both. */
    if (exec->policy->steal != NULL && watch_count(worker->line) >= 2 &&
        (!facts->is_sent || ring_is_ready(&worker->inbox.ready)))
        worker_wake_any(exec);
    return 0;
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

/* Drops the oldest waiting task of a core, of those that were sent if there is no other. False:
 * none waits. */
static bool shed(struct calm_exec *exec, uint32_t core)
{
    struct calm_worker *worker = &exec->workers[core];
    struct job *job = (struct job *)inbox_take(&worker->inbox);
    if (job == NULL)
        job = (struct job *)inbox_take_sent(&worker->inbox);
    if (job == NULL)
        return false;
    struct calm_task task = {.function = job->function,
                             .payload = job_payload(job),
                             .payload_bytes = job->payload_bytes,
                             .hint_ns = job->hint_ns,
                             .block_bytes = job->block_bytes,
                             .key = job->key};
    if (exec->on_shed != NULL)
        exec->on_shed(&task, exec->on_shed_context);
    watch_left(worker->line, job->hint_ns);
    inbox_return(&worker->inbox, job);
    fetch_add(&exec->shed, 1, RELAXED);
    return true;
}

static int shed_and_put(struct calm_exec *exec, const struct calm_task *task,
                        const struct job *facts)
{
    int result = CALM_EXEC_EFULL;
    for (unsigned tries = 0; tries < SHED_TRIES && result == CALM_EXEC_EFULL; tries++) {
        uint32_t core = busiest(exec);
        if (!shed(exec, core))
            break;
        result = put(exec, core, task, facts);
    }
    return result;
}

/* What a task's slot carries beside the payload. */
static struct job job_of(const struct calm_task *task, uint32_t class, uint32_t dispatcher,
                         uint32_t ticket)
{
    return (struct job){.function = task->function,
                        .submitted_ns = os_clock_ns(),
                        .key = task->key,
                        .block_bytes = task->block_bytes,
                        .hint_ns = task->hint_ns,
                        .ticket = ticket,
                        .payload_bytes = task->payload_bytes,
                        .dispatcher = (uint16_t)dispatcher,
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
    struct policy_task asked = {.key = task->key, .hint_ns = task->hint_ns, .class = class};
    uint32_t number;
    struct policy_choice choice = choose(exec, &asked, &number);
    struct job facts = job_of(task, class, number, choice.ticket);
    int result = CALM_EXEC_EFULL;
    if (choice.core == POLICY_HOLD)
        result = hold(exec, task, &facts);
    else if (choice.core < exec->cores)
        result = put(exec, choice.core, task, &facts);
    if (result != CALM_EXEC_EFULL)
        return result;
    if (choice.ticket != 0)
        dispatch_report(exec, &facts, 0, true);
    if (is_stopping(exec))
        return CALM_EXEC_ESTOPPED;
    facts.ticket = 0;
    return exec->full == CALM_EXEC_SHED_OLDEST ? shed_and_put(exec, task, &facts) : result;
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
            os_wait(&exec->room, seen, WAIT_STEP_MS);
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
    struct job facts = job_of(task, POLICY_NO_CLASS, NO_DISPATCHER, 0);
    facts.is_sent = true;
    result = put(exec, core, task, &facts);
    if (result == CALM_EXEC_EFULL)
        fetch_add(&exec->rejected, 1, RELAXED);
    return result;
}

void dispatch_report(struct calm_exec *exec, const struct job *job, uint32_t sojourn_ns,
                     bool has_failed)
{
    if (job->dispatcher >= exec->dispatcher_count)
        return;
    struct inbox *outcomes = &exec->dispatchers[job->dispatcher].outcomes;
    struct policy_outcome *outcome = (struct policy_outcome *)inbox_reserve(outcomes);
    if (outcome == NULL)
        return;
    *outcome = (struct policy_outcome){
        .ticket = job->ticket, .sojourn_ns = sojourn_ns, .has_failed = has_failed};
    inbox_publish(outcomes, outcome);
}
