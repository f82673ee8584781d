/*
 * doze_model.c: the shipped exec/worker.c, inbox.c and ring.c under the explorer: a worker does not
 * sleep beside a task that was published or sent, nor beside a block that was freed to it.
 *
 * Of the executor there is what one worker needs. Its pool is a count of blocks in use and one of
 * blocks that others freed. Every sleep is without an end, as that of a whole pool is: so a wake-up
 * that is lost leaves all threads waiting.
 *
 * Not covered: what the machine reorders (the explorer runs all operations in one total order);
 * the kernel's own sleep, for which os_wait() stands; more than one worker, three threads or three
 * preemptions; the executor around the worker.
 */
#include "explore.h"

#include "exec/ring.c"

#include "exec/inbox.c"

#include "exec/worker.c"

enum { CAPACITY = 2 };

static struct calm_exec exec;
static struct calm_worker worker;
static struct watch_line line;
static const struct policy policy = {.name = "none"};
static _Alignas(
    64) char slots[2][CAPACITY * (sizeof(struct job) + CACHE_LINE_BYTES +
                                  INBOX_RINGS * INBOX_LAPS * sizeof(struct ring_place))];
static unsigned expected, ran;
static _Atomic uint32_t freed;

/* --- what the worker asks of others --- */

void os_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ms)
{
    (void)timeout_ms;
    while (atomic_load(word) == value)
        explore_sleep(word);
}

void os_wake(_Atomic uint32_t *word, uint32_t count)
{
    explore_wake(word, count);
}

uint64_t os_clock_ns(void)
{
    return 1;
}

bool os_worker_is_pinned(uint32_t task, uint32_t cpu)
{
    return task == cpu;
}

static struct calm_pool_occupancy occupancy;
static uint64_t free_bytes;

const struct calm_pool_occupancy *calm_pool_watch(const calm_pool *pool)
{
    (void)pool;
    return &occupancy;
}

uint64_t calm_pool_watch_bytes(const struct calm_pool_occupancy *watch)
{
    (void)watch;
    return free_bytes;
}

uint32_t calm_pool_drain(calm_pool *pool)
{
    (void)pool;
    uint32_t found = exchange(&freed, 0, ACQ_REL);
    free_bytes += found;
    return found;
}

/* --- the cases --- */

static void count_run(calm_worker *of, void *payload)
{
    (void)of;
    (void)payload;
    ran++;
}

static void begin(unsigned tasks)
{
    exec = (struct calm_exec){
        .policy = &policy, .lines = &line, .workers = &worker, .cores = 1, .classes = 1};
    line = (struct watch_line){0};
    worker = (struct calm_worker){.exec = &exec, .line = &line, .whole_bytes = 1, .pause_ms = 1};
    free_bytes = 1;
    inbox_start(&worker.inbox, slots[0], CAPACITY, sizeof(struct job));
    inbox_start(&exec.held, slots[1], CAPACITY, sizeof(struct job));
    freed = 0;
    expected = tasks;
    ran = 0;
}

static void begin_one(void)
{
    begin(1);
}

static void begin_two(void)
{
    begin(2);
}

/* A block is in use when the worker has nothing to do. */
static void begin_taken(void)
{
    begin(0);
    free_bytes = 0;
}

static void work_all(void)
{
    while (ran < expected)
        if (!run_own(&worker))
            sleep_now(&worker);
}

static void sleep_until_whole(void)
{
    while (!is_whole(&worker))
        sleep_now(&worker);
}

/* As put() does. */
static void put_in(bool (*publish)(struct inbox *, void *), bool is_sent)
{
    struct job *job = inbox_reserve(&worker.inbox);
    *job = (struct job){.function = count_run, .is_sent = is_sent};
    watch_arrived(&line);
    publish(&worker.inbox, job);
    worker_wake(&worker);
}

static void publish_one(void)
{
    put_in(inbox_publish, false);
}

static void send_one(void)
{
    put_in(inbox_send, true);
}

/* As calm_exec_free() does. */
static void free_one(void)
{
    store(&freed, 1, RELEASE);
    worker_wake(&worker);
}

/* An inbox whose two places are taken. */
static void begin_full(void)
{
    begin(2);
    for (unsigned i = 0; i < CAPACITY; i++)
        publish_one();
}

/* As put() does where the worker has just given a place back. */
static void take_place(void)
{
    if (!watch_reserve(&line, CAPACITY))
        return;
    struct job *job = inbox_reserve(&worker.inbox);
    if (job == NULL)
        explore_fail("a place without a slot");
    inbox_return(&worker.inbox, job);
    watch_left(&line);
}

static void end(void)
{
    if (ran != expected)
        explore_fail("a task did not run");
    if (atomic_load(&worker.doze) != DOZE_AWAKE || atomic_load(&exec.asleep[0]) != 0)
        explore_fail("a worker that is awake says that it sleeps");
}

int main(void)
{
    const struct explore_case cases[] = {
        {"doze: one publishes", 3, 2, begin_one, {work_all, publish_one}, end},
        {"doze: one sends", 3, 2, begin_one, {work_all, send_one}, end},
        {"doze: one publishes, one sends", 2, 3, begin_two, {work_all, publish_one, send_one}, end},
        {"doze: a place is taken as it is given back",
         3,
         2,
         begin_full,
         {work_all, take_place},
         end},
        {"doze: one frees", 3, 2, begin_taken, {sleep_until_whole, free_one}, end},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        explore(&cases[i]);
    return 0;
}
