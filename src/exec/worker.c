/*
 * worker.c: runs one core's tasks: from its inbox, from the executor's held tasks, or stolen from
 * others; sleeps when there is none for long.
 *
 * A worker without a task polls for a while, then sleeps until woken. While blocks of its pool are
 * in use, or tasks wait that it leaves to quicker cores, it sleeps a few milliseconds at a time and
 * takes back remote frees: a core that seems to have no block gets no task that would wake it.
 *
 * If the program has its own events, a worker without a task sleeps in the program's `wait`
 * instead, without polling first.
 *
 * A task may end its thread, by pthread_exit or cancellation: a new thread continues in its place.
 *
 * Owner: the worker's thread; doze is shared, docs/protocols/ring.md. Design:
 * docs/design/executor.md
 */
#include "base/bits.h"
#include "exec/parts.h"
#include "exec/policy_parts.h"
#include "os/os.h"
#include "os/worker.h"

enum {
    IDLE_ROUNDS_MAX = 2000, /* idle rounds before a sleep: some 100 us             */
    ROUNDS_A_STEAL = 64,    /* idle rounds between two tries to steal              */
    TASKS_A_ROUND = 32,     /* tasks between two waits for the program's events    */
    CLASSES_A_TASK = 4,     /* classes whose remote frees are taken back before a task */
    PAUSE_MS_MAX = 16,      /* longest sleep while blocks are in use               */
    JOIN_STEP_MS = 100,     /* time between two checks whether a worker has ended */
};

static _Thread_local struct calm_worker *here;

struct calm_worker *worker_here(void)
{
    return here;
}

static void add(_Atomic uint64_t *count, uint64_t more)
{
    store(count, load(count, RELAXED) + more, RELAXED);
}

void worker_publish(struct calm_worker *worker)
{
    const struct calm_pool_occupancy *watch = calm_pool_watch(worker->pool);
    struct watch_line *line = worker->line;
    for (uint32_t class = 0; class < worker->exec->classes; class ++) {
        uint32_t blocks = calm_pool_watch_free(watch, class);
        uint16_t shown = blocks < UINT16_MAX ? (uint16_t)blocks : UINT16_MAX;
        if (load(&line->free_blocks[class], RELAXED) != shown)
            store(&line->free_blocks[class], shown, RELAXED);
    }
}

static bool is_whole(const struct calm_worker *worker)
{
    return calm_pool_watch_bytes(calm_pool_watch(worker->pool)) == worker->whole_bytes;
}

/* Takes back remote frees of the next `classes` classes in turn. Returns whether there were any. A
 * core that is never idle would otherwise keep showing no block of a class, and get no task that
 * needs one. */
static bool take_back(struct calm_worker *worker, uint32_t classes)
{
    uint32_t found = 0;
    if (is_whole(worker))
        return false;
    for (; classes > 0; classes--)
        found += calm_pool_drain(worker->pool);
    if (found > 0) {
        worker->lacks_block = false;
        worker_publish(worker);
    }
    return found > 0;
}

static uint32_t fewer(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void wake_waiters(struct calm_exec *exec)
{
    if (likely(load(&exec->waiters, RELAXED) == 0))
        return;
    fetch_add(&exec->room, 1, RELEASE);
    os_wake(&exec->room, UINT32_MAX);
}

static void count_done(struct calm_worker *worker)
{
    store(&worker->done, load(&worker->done, RELAXED) + 1, RELEASE); /* pairs with all_done() */
    wake_waiters(worker->exec);
}

/* Ends the running task, which returned or ended its thread: returns its slot, then its place. */
static void finish(struct calm_worker *worker)
{
    struct watch_line *line = worker->line;
    struct job *job = worker->running;
    uint64_t ended_ns = os_clock_ns();
    uint64_t sojourn_ns = ended_ns - job->submitted_ns;
    uint64_t service_ns = ended_ns - worker->begun_ns;
    watch_served(line, service_ns < UINT32_MAX ? (uint32_t)service_ns : UINT32_MAX,
                 sojourn_ns < UINT32_MAX ? (uint32_t)sojourn_ns : UINT32_MAX);
    add(&worker->busy_ns, service_ns);
    worker->lacks_block = false;
    worker->running = NULL;
    worker_publish(worker);
    if (worker->running_of != NULL)
        inbox_return(worker->running_of, job);
    watch_left(line);
    count_done(worker);
}

/* Runs a job in its slot of `inbox`, or in `loot` if `inbox` is NULL. */
static void run(struct calm_worker *worker, struct inbox *inbox, struct job *job)
{
    take_back(worker, fewer(worker->exec->classes, CLASSES_A_TASK));
    worker->running = job;
    worker->running_of = inbox;
    worker->begun_ns = os_clock_ns();
    job->function(worker, job_payload(job));
    finish(worker);
}

static bool has_block(const struct calm_worker *worker, uint32_t class)
{
    return class >= WATCH_CLASSES || watch_free(worker->line, class) > 0;
}

/* Whether the oldest held task can run here now. While the executor stops, any held task can. */
static bool may_take_held(const struct calm_worker *worker)
{
    const struct inbox *held = &worker->exec->held;
    uint32_t class;
    if (worker->exec->policy->bound == 0 || !inbox_oldest_mark(held, &class))
        return false;
    return ring_is_closed(&held->ready) ||
           policy_has_room(worker->line, class, watch_count(worker->line));
}

static void copy_to_loot(struct calm_worker *worker, const struct job *job)
{
    __builtin_memcpy(worker->loot, job, sizeof *job + job->payload_bytes);
}

/* Puts a taken job, of which `loot` has a copy, at the end of its inbox. False: the inbox has
 * closed and took the slot back; only the copy is left. */
static bool put_back(struct calm_worker *worker, struct inbox *inbox, struct job *job)
{
    bool is_back = inbox_publish_marked(inbox, job, worker->loot->class);
    if (is_back)
        add(&worker->moved, 1);
    return is_back;
}

/* Takes a held task, to run in its slot. If another thread took the inspected task and this core
 * has no block for the next one, that one goes to the end of the inbox. */
static struct job *take_held(struct calm_worker *worker)
{
    struct inbox *held = &worker->exec->held;
    if (!may_take_held(worker))
        return NULL;
    struct job *job = (struct job *)inbox_take(held);
    if (job == NULL)
        return NULL;
    if (ring_is_closed(&held->ready) ||
        policy_has_room(worker->line, job->class, watch_count(worker->line)))
        return job;
    copy_to_loot(worker, job);
    return put_back(worker, held, job) ? NULL : worker->loot;
}

/* Runs the next task of the worker's inbox, or a held one. Sent and other tasks take turns, so a
 * steady supply of one kind does not starve the other. */
static bool run_own(struct calm_worker *worker)
{
    struct inbox *inbox = &worker->inbox, *of = inbox;
    struct job *job = worker->was_sent ? NULL : (struct job *)inbox_take_sent(inbox);
    if (job == NULL)
        job = (struct job *)inbox_take(inbox);
    if (job == NULL) {
        job = take_held(worker);
        of = job == worker->loot ? NULL : &worker->exec->held;
    }
    if (job == NULL) {
        of = inbox;
        job = (struct job *)inbox_take_sent(inbox);
    }
    if (job == NULL)
        return false;
    worker->was_sent = job->is_sent;
    if (of != inbox)
        watch_arrived(worker->line);
    else if (!job->is_sent || !ring_is_ready(&inbox->ready))
        watch_oldest(worker->line, job->submitted_ns); /* tasks still waiting are younger */
    run(worker, of, job);
    return true;
}

/* Whether the core's oldest waiting task was not sent and the thief has a block for it. */
static bool has_loot(const void *thief, uint32_t core)
{
    const struct calm_worker *worker = (const struct calm_worker *)thief;
    uint32_t class;
    return inbox_oldest_mark(&worker->exec->workers[core].inbox, &class) &&
           has_block(worker, class);
}

/* The policy's victim, or POLICY_NOBODY. */
static uint32_t victim(struct calm_worker *worker)
{
    struct calm_exec *exec = worker->exec;
    if (exec->policy->steal == NULL || worker->lacks_block)
        return POLICY_NOBODY;
    struct policy_view view = {.lines = exec->lines,
                               .cores = exec->cores,
                               .inbox_capacity = exec->inbox_capacity,
                               .now_ns = os_clock_ns(),
                               .has_loot = has_loot,
                               .loot = worker};
    uint32_t core = exec->policy->steal(worker->steal_state, &view, worker->core);
    return core < exec->cores && core != worker->core ? core : POLICY_NOBODY;
}

/*
 * Steals the oldest unsent task that waits at the policy's victim, if this core has a block for it;
 * remote frees count. The task runs as a copy, so the victim gets its slot and place back at once.
 * If another thread took that task and this core has no block for the next one, that one goes to
 * the end of the inbox, and the thief stops stealing until there is news: otherwise thieves would
 * rotate the inboxes endlessly.
 */
static bool steal(struct calm_worker *worker)
{
    if (calm_pool_watch_backlog(calm_pool_watch(worker->pool)) > 0)
        take_back(worker, worker->exec->classes);
    uint32_t core = victim(worker);
    if (core == POLICY_NOBODY)
        return false;
    struct calm_worker *from = &worker->exec->workers[core];
    struct job *job = (struct job *)inbox_take(&from->inbox);
    if (job == NULL)
        return false;
    watch_oldest(from->line, job->submitted_ns);
    copy_to_loot(worker, job);
    worker->lacks_block = !has_block(worker, job->class);
    if (!worker->lacks_block)
        inbox_return(&from->inbox, job);
    else if (put_back(worker, &from->inbox, job))
        return false;
    watch_left(from->line);
    watch_arrived(worker->line);
    add(&worker->stolen_count, 1);
    run(worker, NULL, worker->loot);
    return true;
}

static bool has_work(struct calm_worker *worker)
{
    return inbox_is_ready(&worker->inbox) || may_take_held(worker) ||
           ring_is_closed(&worker->inbox.ready) || victim(worker) != POLICY_NOBODY;
}

/* Whether a task waits that the policy leaves to others for now: a slow thief takes it once it has
 * waited long. */
static bool may_steal_later(const struct calm_worker *worker)
{
    const struct calm_exec *exec = worker->exec;
    if (exec->policy->steal == NULL || worker->lacks_block)
        return false;
    for (uint32_t core = 0; core < exec->cores; core++)
        if (core != worker->core && watch_count(&exec->lines[core]) >= 2 && has_loot(worker, core))
            return true;
    return false;
}

/*
 * Announces sleep, checks once more for news, sleeps (Z3). A thread with news publishes it, then
 * changes the same word. In either order, the thread finds the worker asleep or the worker finds
 * the news.
 */
static void sleep_now(struct calm_worker *worker)
{
    struct calm_exec *exec = worker->exec;
    _Atomic uint64_t *word = &exec->asleep[worker->core / 64];
    uint64_t bit = (uint64_t)1 << worker->core % 64;
    fetch_or(word, bit, ACQ_REL);                  /* Z1: pairs with Z5 */
    exchange(&worker->doze, DOZE_ASLEEP, ACQ_REL); /* Z2: pairs with Z4 */
    bool has_news = take_back(worker, exec->classes) || has_work(worker);
    store(&worker->is_pinned, os_worker_is_pinned(worker->task, worker->cpu), RELAXED);
    bool has_time = is_whole(worker) && !may_steal_later(worker);
    uint64_t wait_ms = has_news ? 0 : has_time ? UINT64_MAX : worker->pause_ms;
    add(&worker->sleeps, wait_ms > 0);
    if (exec->events.wait != NULL)
        exec->events.wait(worker, wait_ms, exec->events.context);
    else if (wait_ms > 0)
        os_wait(&worker->doze, DOZE_ASLEEP, wait_ms);
    if (wait_ms > 0 && worker->pause_ms < PAUSE_MS_MAX)
        worker->pause_ms *= 2;
    worker->lacks_block = false;
    fetch_and(word, ~bit, ACQ_REL);
    exchange(&worker->doze, DOZE_AWAKE, ACQ_REL);
}

bool worker_wake(struct calm_worker *worker)
{
    const struct calm_exec_events *events = &worker->exec->events;
    if (exchange(&worker->doze, DOZE_AWAKE, ACQ_REL) != DOZE_ASLEEP) /* Z4 */
        return false;
    if (events->wake != NULL)
        events->wake(worker->core, events->context);
    else
        os_wake(&worker->doze, 1);
    return true;
}

void worker_wake_any(struct calm_exec *exec)
{
    for (uint32_t word = 0; word < (exec->cores + 63) / 64; word++) {
        /* A worker that was woken already may have a long task first. */
        for (uint64_t cores = fetch_or(&exec->asleep[word], 0, ACQ_REL); cores != 0; /* Z5 */
             cores &= cores - 1)
            if (worker_wake(&exec->workers[word * 64 + bit_lowest(cores)]))
                return;
    }
}

/* One idle round: takes back remote frees, then pauses or sleeps. */
static void idle(struct calm_worker *worker, unsigned idle_rounds)
{
    if (idle_rounds == 0)
        worker->pause_ms = 1;
    take_back(worker, worker->exec->classes);
    if (idle_rounds < IDLE_ROUNDS_MAX && worker->exec->events.wait == NULL)
        cpu_relax();
    else
        sleep_now(worker);
}

/* The rest of a round with program events: handles them while the worker is awake, so that no
 * thread wakes it in vain. */
static void serve(struct calm_worker *worker, bool is_busy)
{
    const struct calm_exec_events *events = &worker->exec->events;
    for (unsigned more = 1; is_busy && more < TASKS_A_ROUND && run_own(worker);)
        more++;
    if (is_busy)
        events->wait(worker, 0, events->context);
    events->serve(worker, events->context);
    worker_publish(worker); /* serve() may have allocated */
}

/* Runs tasks until both inboxes are closed and empty. */
static void run_tasks(struct calm_worker *worker)
{
    unsigned idle_rounds = 0;
    while (!inbox_is_over(&worker->inbox) || !inbox_is_over(&worker->exec->held)) {
        bool is_busy = false;
        if (idle_rounds % ROUNDS_A_STEAL == 0 || idle_rounds >= IDLE_ROUNDS_MAX)
            is_busy = steal(worker); /* a task that waits longer elsewhere comes first */
        is_busy = run_own(worker) || is_busy;
        if (!is_busy)
            idle(worker, idle_rounds);
        if (worker->exec->events.wait != NULL)
            serve(worker, is_busy);
        idle_rounds = is_busy ? 0 : idle_rounds + (idle_rounds <= IDLE_ROUNDS_MAX);
    }
}

/* The last access of the worker's last thread to the worker. */
static void worker_end(struct calm_worker *worker)
{
    here = NULL;
    os_worker_at_end(NULL, NULL);
    store(&worker->is_over, 1, RELEASE);
    os_wake(&worker->is_over, 1);
}

static void create_pool(struct calm_worker *worker)
{
    struct calm_exec *exec = worker->exec;
    if (worker->error == 0)
        worker->error = calm_pool_create(worker->pool_config, &worker->pool);
    if (worker->error == 0) {
        worker->whole_bytes = calm_pool_watch_bytes(calm_pool_watch(worker->pool));
        worker_publish(worker);
    }
    fetch_add(&exec->ready, 1, RELEASE);
    os_wake(&exec->ready, 1);
}

static void replace_thread(void *argument);

/* Makes the calling thread the worker's, also if the last one ended during its sleep. */
static void adopt_worker(struct calm_worker *worker)
{
    here = worker;
    worker->thread = os_worker_self();
    worker->task = os_worker_task();
    if (os_worker_at_end(replace_thread, worker) != 0 && worker->pool == NULL)
        worker->error = CALM_EXEC_ETHREAD;
    store(&worker->is_pinned, os_worker_pin(worker->cpu) == 0, RELAXED);
    fetch_and(&worker->exec->asleep[worker->core / 64], ~((uint64_t)1 << worker->core % 64),
              ACQ_REL);
    exchange(&worker->doze, DOZE_AWAKE, ACQ_REL);
}

/* Runs when a task, or the program's `wait` or `serve`, ends the calling thread. A new thread
 * continues; if the system starts none, this one continues before it ends. */
static void replace_thread(void *argument)
{
    struct calm_worker *worker = (struct calm_worker *)argument;
    add(&worker->threads_ended, 1);
    if (worker->running != NULL)
        finish(worker);
    here = NULL;
    if (os_worker_start(worker_main, worker) == 0)
        os_worker_leave();
    else
        worker_main(worker);
}

void *worker_main(void *argument)
{
    struct calm_worker *worker = (struct calm_worker *)argument;
    adopt_worker(worker);
    if (worker->pool == NULL)
        create_pool(worker);
    if (worker->error == 0)
        run_tasks(worker);
    worker_end(worker);
    return NULL;
}

void worker_join(struct calm_worker *worker)
{
    while (load(&worker->is_over, ACQUIRE) == 0)
        os_wait(&worker->is_over, 0, JOIN_STEP_MS);
    os_worker_join(worker->thread);
}
