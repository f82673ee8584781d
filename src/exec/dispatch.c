/*
 * dispatch.c: asks a policy for a core, and puts the task into that core's inbox.
 *
 * Several threads may submit at once, but only one may use a policy's state. So there are a few
 * dispatchers, each with its own state. A thread that finds one busy tries the next; when all are
 * busy the task goes to the next feasible core without the policy. No thread waits for a
 * dispatcher. A policy without state needs no dispatcher.
 *
 * A thread takes a place in the core's count first, then a slot. So one word decides whether a core
 * has room, and a thread with a place finds a slot.
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
    WAIT_STEP_MS = 5,     /* a wait retries at least this often */
    SLOT_LOOKS_MAX = 100, /* tries while another thread is returning a slot      */
    /* Tries while the task to shed is between other threads' steps: 20 ms beyond the relaxed ones.
     */
    SHED_LOOKS_MAX = INBOX_RELAXES + 20,
};

/* The first class that holds `bytes`; POLICY_NO_CLASS for 0; `classes` when none does. */
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

/* Enters an idle dispatcher. NULL: all are busy. */
static struct dispatcher *enter_idle(struct calm_exec *exec)
{
    for (uint32_t i = 0; i < exec->dispatcher_count; i++) {
        struct dispatcher *dispatcher = &exec->dispatchers[i];
        if (dispatcher_enter(dispatcher))
            return dispatcher;
    }
    return NULL;
}

/* Chooses the core for a task, POLICY_REJECT or POLICY_HOLD. */
static uint32_t choose(struct calm_exec *exec, const struct policy_view *view,
                       const struct policy_task *task)
{
    const struct policy *policy = exec->policy;
    if (exec->dispatcher_count == 0)
        return policy->choose(NULL, view, task);
    if (policy->bound != 0 && ring_is_ready(&exec->held.ready))
        return POLICY_HOLD; /* behind the tasks held before */
    struct dispatcher *dispatcher = enter_idle(exec);
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

/* Call after putting a task into a core's inbox. */
static void notify_worker(struct calm_exec *exec, struct calm_worker *worker,
                          const struct job *facts, bool is_first)
{
    if (is_first)
        watch_oldest(worker->line, facts->submitted_ns);
    worker_wake(worker);
    /* After Z4: of two threads that add a task here, the later one sees both. */
    if (exec->policy->steal != NULL && watch_count(worker->line) >= 2 &&
        (!facts->is_sent || ring_is_ready(&worker->inbox.ready)))
        worker_wake_any(exec);
}

/* Puts the task into a core's inbox. Takes the place first, so that a burst counts its own
 * tasks. */
static int put_on_core(struct calm_exec *exec, uint32_t core, const struct calm_task *task,
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
        notify_worker(exec, worker, facts, is_first);
    else
        watch_left(worker->line);
    return result;
}

/* Puts the task into the chosen core's inbox. If other threads filled that inbox, tries the next
 * feasible cores, unless the policy is binding or bounded. */
static int put_or_next(struct calm_exec *exec, const struct policy_view *view,
                       const struct policy_task *asked, uint32_t core, const struct calm_task *task,
                       const struct job *facts)
{
    int result = CALM_EXEC_EFULL;
    if (exec->policy->is_binding && !policy_feasible(view, asked, core))
        return result;
    for (uint32_t tries = 0; tries <= exec->cores && core < exec->cores; tries++) {
        result = put_on_core(exec, core, task, facts);
        if (result != CALM_EXEC_EFULL || exec->policy->is_binding || exec->policy->bound != 0)
            break;
        core = policy_next_feasible(view, asked, core + 1 < exec->cores ? core + 1 : 0);
    }
    return result;
}

/* Puts the task into the executor's inbox `held`, until a core finishes a task. */
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

/* Drops the oldest waiting task of an inbox; a sent one only if no other waits. Returns its slot
 * for the new task. NULL: no task waits. */
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

/* Sheds a task that waits at the core. CALM_EXEC_EFULL: none waits. */
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
        notify_worker(exec, worker, facts, is_first);
    else
        watch_left(worker->line);
    return result;
}

/* Sheds a held task. CALM_EXEC_EFULL: none is held. */
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

/* calm_exec_stop closes the inbox of held tasks first. */
static bool is_stopping(const struct calm_exec *exec)
{
    return ring_is_closed(&exec->held.ready);
}

/* Sheds once: at the chosen core if the policy is binding; else a held task if it is bounded; else
 * at the busiest core, or the next one with a waiting task. */
static int shed_once(struct calm_exec *exec, uint32_t chosen, const struct calm_task *task,
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

/* A core that counts two tasks runs one, and the other waits. A full inbox of held tasks has
 * some. */
static bool any_waits(const struct calm_exec *exec, uint32_t chosen)
{
    if (exec->policy->bound != 0)
        return true;
    return watch_count(&exec->lines[exec->policy->is_binding ? chosen : busiest(exec)]) >= 2;
}

/* Looks again where a task waits but none was found: threads that shed at the same time have it in
 * their hands, or a thread that stopped between N1 and N2 hides it. */
static int shed_and_put(struct calm_exec *exec, uint32_t chosen, const struct calm_task *task,
                        const struct job *facts)
{
    int result = shed_once(exec, chosen, task, facts);
    for (unsigned looks = 0; result == CALM_EXEC_EFULL && any_waits(exec, chosen); looks++) {
        if (is_stopping(exec))
            return CALM_EXEC_ESTOPPED;
        if (looks == SHED_LOOKS_MAX)
            break;
        inbox_pause(looks);
        result = shed_once(exec, chosen, task, facts);
    }
    return result;
}

/* The slot's contents apart from the payload. */
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

/* Tries once to have the task accepted. While the executor stops, sheds nothing and returns
 * CALM_EXEC_ESTOPPED in place of CALM_EXEC_EFULL. */
static int attempt(struct calm_exec *exec, const struct calm_task *task, uint32_t class)
{
    struct policy_task asked = {.key = task->key, .class = class};
    struct policy_view view = view_now(exec);
    uint32_t core = choose(exec, &view, &asked);
    struct job facts = job_of(task, class);
    int result = core == POLICY_HOLD ? CALM_EXEC_EFULL
                                     : put_or_next(exec, &view, &asked, core, task, &facts);
    if (result == CALM_EXEC_EFULL && exec->policy->bound != 0)
        result = hold(exec, task, &facts);
    if (result != CALM_EXEC_EFULL)
        return result;
    if (is_stopping(exec))
        return CALM_EXEC_ESTOPPED;
    return exec->full == CALM_EXEC_SHED_OLDEST ? shed_and_put(exec, core, task, &facts) : result;
}

/* Time until the next attempt, in ms, rounded up. */
static uint64_t step_ms(uint64_t until_ns)
{
    uint64_t now_ns = os_clock_ns();
    uint64_t left_ms = until_ns > now_ns ? (until_ns - now_ns + 999999) / 1000000 : 0;
    return left_ms < WAIT_STEP_MS ? left_ms : (uint64_t)WAIT_STEP_MS;
}

/* Retries when a task ends, until wait_ms is over. */
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
    result = put_on_core(exec, core, task, &facts);
    if (result == CALM_EXEC_EFULL)
        fetch_add(&exec->rejected, 1, RELAXED);
    return result;
}
