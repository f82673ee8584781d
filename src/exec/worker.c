/*
 * worker.c: runs the tasks of one core: its inbox, what the executor holds, what others have too
 * much of; and sleeps when there is nothing for long.
 *
 * A worker that finds nothing looks on for a while, then sleeps until somebody wakes it. While
 * blocks of its pool are in use, or tasks wait that it leaves to quicker cores, it sleeps a few
 * milliseconds at a time and takes back what others freed, since a core that seems to have no block
 * is sent no task that would wake it.
 *
 * Where the program has events of its own, a worker sleeps in the program's `wait` instead, and
 * does so whenever it has no task.
 *
 * A task may end its thread, by pthread_exit or as it is cancelled: another thread goes on where
 * that one stopped.
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
    LOOKS_MAX_IDLE = 2000, /* before it sleeps: some 100 us                       */
    LOOKS_A_STEAL = 64,    /* between two looks at the others' inboxes            */
    TASKS_A_ROUND = 32,    /* between two looks at the program's events           */
    CLASSES_A_TASK = 4,    /* whose remote frees are taken back before it         */
    PAUSE_MS_MAX = 16,     /* of a sleep while blocks are in use                  */
    JOIN_STEP_MS = 100,    /* between two looks whether a worker is over */
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

/* Takes back what others freed, of the next classes in turn; whether there was any. A core that is
 * never idle would else go on saying that it has no block of a class, and get no task that asks for
 * one. */
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

/* The running task has ended, by its return or with its thread: its slot goes back, then its place.
 */
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

/* Runs a job where it lies: in a slot of `inbox`, or where that is NULL in `loot`. */
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

/* Whether the oldest task that the policy holds can run here now; once the executor stops, any. */
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

/* A job that was taken and is in `loot` goes back, to the end of its inbox. False: that was closed
 * meanwhile, and has its slot back. */
static bool put_back(struct calm_worker *worker, struct inbox *inbox, struct job *job)
{
    bool is_back = inbox_publish_marked(inbox, job, worker->loot->class);
    if (is_back)
        add(&worker->moved, 1);
    return is_back;
}

/* One that the policy holds, to run where it lies. Where another thread took the one that was
 * looked at, and this one has no block, it goes back, to the end. */
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

/* Runs the next of its own inbox, or of those that the policy holds. What was sent and what was not
 * take turns, so that a core that is never without the one still runs the other. */
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
        watch_oldest(worker->line, job->submitted_ns); /* what waits now is younger */
    run(worker, of, job);
    return true;
}

/* Whether a thief would find a task that it can run, as far as can be seen: what was sent is not
 * for it, nor what needs a block that it has not. */
static bool has_loot(const void *thief, uint32_t core)
{
    const struct calm_worker *worker = (const struct calm_worker *)thief;
    uint32_t class;
    return inbox_oldest_mark(&worker->exec->workers[core].inbox, &class) &&
           has_block(worker, class);
}

/* The policy's say, or POLICY_NOBODY. */
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
 * Takes the oldest task that was not sent and waits at a core that the policy names, if this one
 * has a block for it; what others freed counts. It runs as a copy, so that the victim has its slot
 * and its place back at once. Where another thread took that task, and the next is one that it has
 * no block for, that goes back, to the end, and the thief looks no more until there is news, so
 * that it does not turn the others' inboxes round and round.
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

/* Whether there is loot that the policy leaves to others for now: a slow thief takes what has
 * waited for long. */
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
 * Says that it sleeps, looks once more, sleeps (Z3). Who has news publishes it, then changes the
 * same word: either comes first, so it finds the worker asleep, or the worker finds the news.
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
        /* One that was woken already may have a long task before it looks at others. */
        for (uint64_t cores = fetch_or(&exec->asleep[word], 0, ACQ_REL); cores != 0; /* Z5 */
             cores &= cores - 1)
            if (worker_wake(&exec->workers[word * 64 + bit_lowest(cores)]))
                return;
    }
}

/* One look without work: takes back remote frees, now and then looks at the others, at last
 * sleeps. */
static void idle(struct calm_worker *worker, unsigned looks)
{
    if (looks == 0)
        worker->pause_ms = 1;
    take_back(worker, worker->exec->classes);
    if (looks < LOOKS_MAX_IDLE && worker->exec->events.wait == NULL)
        cpu_relax();
    else
        sleep_now(worker);
}

/* The rest of a round where the program has events: what came is served while the worker is awake,
 * so that nobody wakes it in vain. */
static void serve(struct calm_worker *worker, bool is_busy)
{
    const struct calm_exec_events *events = &worker->exec->events;
    for (unsigned more = 1; is_busy && more < TASKS_A_ROUND && run_own(worker);)
        more++;
    if (is_busy)
        events->wait(worker, 0, events->context);
    events->serve(worker, events->context);
    worker_publish(worker); /* it may have allocated */
}

/* Until its inbox is closed and all is done. */
static void work(struct calm_worker *worker)
{
    unsigned looks = 0;
    while (!inbox_is_over(&worker->inbox) || !inbox_is_over(&worker->exec->held)) {
        bool is_busy = false;
        if (looks % LOOKS_A_STEAL == 0 || looks >= LOOKS_MAX_IDLE)
            is_busy = steal(worker); /* what waits longer elsewhere comes first */
        is_busy = run_own(worker) || is_busy;
        if (!is_busy)
            idle(worker, looks);
        if (worker->exec->events.wait != NULL)
            serve(worker, is_busy);
        looks = is_busy ? 0 : looks + (looks <= LOOKS_MAX_IDLE);
    }
}

/* The last thing that the worker's last thread does with it. */
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

static void go_on(void *argument);

/* The calling thread works from now on, also where another one stopped amid its sleep. */
static void take_over(struct calm_worker *worker)
{
    here = worker;
    worker->thread = os_worker_self();
    worker->task = os_worker_task();
    if (os_worker_at_end(go_on, worker) != 0 && worker->pool == NULL)
        worker->error = CALM_EXEC_ETHREAD;
    store(&worker->is_pinned, os_worker_pin(worker->cpu) == 0, RELAXED);
    fetch_and(&worker->exec->asleep[worker->core / 64], ~((uint64_t)1 << worker->core % 64),
              ACQ_REL);
    exchange(&worker->doze, DOZE_AWAKE, ACQ_REL);
}

/* A task, or what the program does in `wait` or `serve`, ends the calling thread. Another one goes
 * on, and where the system starts none this one does, before it ends. */
static void go_on(void *argument)
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
    take_over(worker);
    if (worker->pool == NULL)
        create_pool(worker);
    if (worker->error == 0)
        work(worker);
    worker_end(worker);
    return NULL;
}

void worker_join(struct calm_worker *worker)
{
    while (load(&worker->is_over, ACQUIRE) == 0)
        os_wait(&worker->is_over, 0, JOIN_STEP_MS);
    os_worker_join(worker->thread);
}
