/*
 * purges.c: pages go back to the kernel while threads trade blocks, fork, are stopped and are ended
 * wherever they are.
 *
 * A look begins every millisecond, so that whoever frees is often in a depot when another thread
 * wants it. Children go on with what the parent's threads had in hand. A round that hangs is killed
 * by its alarm, and that is a failure.
 *
 * Seen to fail with a purge of slabs without the turn (B1 is wrong), and with a lock of the turn
 * that lets signals through (a thread that is ended has it for ever, and nothing is given back).
 */
#define _GNU_SOURCE

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "arguments.h"
#include "calmalloc/calmalloc.h"

enum {
    WORKERS = 3,      /* the main thread is the first */
    WORK_STEPS = 256, /* of each in a round, beside its crowd */
    CROWD = 16000,    /* blocks: some MiB become free in a round */
    CROWD_SLICE = 500,
    CHILD_STEPS = 300,
    STOP_US = 500,
    VICTIM_BLOCKS = 256,
    VICTIM_STACK = 512 * 1024,
    CHILD_SECONDS = 100,
    ROUND_SECONDS = 110,
    MIB = 1024 * 1024,
};

#ifdef __SANITIZE_THREAD__ /* it waits for ever for a thread that ended without its knowledge */
enum { HAS_VICTIMS = 0 };
#else
enum { HAS_VICTIMS = 1 };
#endif

/* Many small blocks, each with a number of its own in it. One thread allocates them, another frees
 * them a round later. */
struct crowd {
    uint64_t *blocks[CROWD];
    uint64_t numbers[CROWD];
};

struct worker {
    unsigned index;
    uint64_t random;
    struct oracle *oracle;
};

static struct crowd crowds[2][WORKERS]; /* of this round and of the last, in turn */
static struct worker workers[WORKERS];
static struct mailbox mailbox;
static pthread_barrier_t round_begins, round_ends;
static _Atomic bool is_over;
static _Atomic bool victim_works;
/* Not one that the C library keeps: there the next thread would find what the victim had of its
 * own, and a sanitizer stops at that. */
static _Alignas(4096) char victim_stack[VICTIM_STACK];
static uint64_t rounds_done;

static void pause_us(long microseconds)
{
    struct timespec pause = {.tv_nsec = microseconds * 1000};
    nanosleep(&pause, NULL);
}

static size_t crowd_size(uint64_t lot)
{
    size_t max = lot % 16 != 0 ? 450 : 6000;
    return sizeof(uint64_t) + (lot >> 8) % max;
}

static void crowd_fill(struct crowd *crowd, uint64_t *random, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        uint64_t lot = stress_random(random);
        crowd->blocks[i] = calm_malloc(crowd_size(lot));
        crowd->numbers[i] = lot;
        *crowd->blocks[i] = lot;
    }
}

static void crowd_empty(struct crowd *crowd, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (crowd->blocks[i] != NULL && *crowd->blocks[i] != crowd->numbers[i])
            stress_fail("block %p of a crowd changed", (void *)crowd->blocks[i]);
        calm_free(crowd->blocks[i]);
        crowd->blocks[i] = NULL;
    }
}

/* A crowd comes, and the neighbour's of the last round goes: one after the other, so that caches do
 * not keep the depots out of it. */
static void work_a_round(struct worker *worker)
{
    struct crowd *coming = &crowds[rounds_done % 2][worker->index];
    struct crowd *going = &crowds[(rounds_done + 1) % 2][(worker->index + 1) % WORKERS];
    bool is_first = worker->index % 2 == 0;
    for (size_t at = 0; at < 2 * CROWD; at += CROWD_SLICE) {
        size_t from = at % CROWD;
        if ((at < CROWD) == is_first)
            crowd_fill(coming, &worker->random, from, from + CROWD_SLICE);
        else
            crowd_empty(going, from, from + CROWD_SLICE);
        oracle_steps(worker->oracle, WORK_STEPS / (2 * CROWD / CROWD_SLICE));
    }
}

static void *work(void *argument)
{
    for (;;) {
        pthread_barrier_wait(&round_begins);
        if (atomic_load(&is_over))
            return NULL;
        work_a_round(argument);
        pthread_barrier_wait(&round_ends);
    }
}

static void on_stop(int signal)
{
    (void)signal;
    pause_us(STOP_US);
}

static void on_end(int signal)
{
    (void)signal;
    syscall(SYS_exit, 0);
}

/* Works on small blocks of its own until it is ended, and they are lost with it. */
static void *be_victim(void *seed)
{
    void *blocks[VICTIM_BLOCKS] = {NULL};
    uint64_t random = (uintptr_t)seed;
    atomic_store(&victim_works, true);
    for (;;) {
        uint64_t lot = stress_random(&random);
        void **block = &blocks[lot % VICTIM_BLOCKS];
        calm_free(*block);
        *block = calm_malloc(lot >> 32 & 127);
    }
    return NULL;
}

static void verify(const char *where)
{
    const char *verdict = calm_verify();
    if (verdict != NULL)
        stress_fail("calm_verify %s: %s", where, verdict);
}

/* The child's only thread works, and gives back. */
static void be_child(struct worker *worker)
{
    alarm((unsigned)arguments_environment("CALM_STRESS_CHILD_SECONDS", CHILD_SECONDS));
    verify("in a child");
    oracle_check(worker->oracle);
    worker->oracle->mailbox = NULL; /* blocks of threads that are not here stay where they are */
    work_a_round(worker);
    crowd_empty(&crowds[rounds_done % 2][worker->index], 0, CROWD);
    oracle_end(worker->oracle);
    verify("in a child that worked");
    _exit(0);
}

static void fork_once(struct worker *worker)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        be_child(worker);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        stress_fail("a child ended with status 0x%x", (unsigned)status);
}

static pthread_t start_victim(uint64_t lot)
{
    pthread_t victim;
    pthread_attr_t own_stack;
    pthread_attr_init(&own_stack);
    pthread_attr_setstack(&own_stack, victim_stack, VICTIM_STACK);
    atomic_store(&victim_works, false);
    if (pthread_create(&victim, &own_stack, be_victim, (void *)(uintptr_t)lot) != 0)
        stress_fail("pthread_create failed");
    pthread_attr_destroy(&own_stack);
    return victim;
}

/* It is ended in its work, and not while the C library or a sanitizer, with locks of theirs, still
 * begins it. */
static void end_victim(pthread_t victim)
{
    while (!atomic_load(&victim_works))
        pause_us(100);
    pthread_kill(victim, SIGUSR2);
}

/* A round, in which a worker is stopped, a victim is ended, and this thread forks. */
static void lead_a_round(const pthread_t *threads, uint64_t lot)
{
    pthread_t victim = 0;
    bool has_victim = HAS_VICTIMS && lot % 2 == 0;
    alarm((unsigned)arguments_environment("CALM_STRESS_CHILD_SECONDS", ROUND_SECONDS));
    if (has_victim)
        victim = start_victim(lot);
    pthread_barrier_wait(&round_begins);
    if (lot / 16 % 4 == 0)
        fork_once(&workers[0]);
    work_a_round(&workers[0]);
    pthread_kill(threads[1 + lot / 2 % (WORKERS - 1)], SIGUSR1);
    if (has_victim)
        end_victim(victim);
    pthread_barrier_wait(&round_ends);
    if (has_victim)
        pthread_join(victim, NULL);
}

static void begin(uint64_t seed)
{
    for (unsigned i = 0; i < WORKERS; i++) {
        struct worker *worker = &workers[i];
        worker->random = seed * WORKERS + i;
        oracle_begin(worker->oracle, worker->random);
        worker->oracle->mailbox = &mailbox;
        worker->oracle->live_max = 8 * (size_t)MIB;
        worker->oracle->size_max = seed % 2 == 0 ? 200000 : 2048;
    }
}

static void end(void)
{
    for (unsigned i = 0; i < WORKERS; i++) {
        crowd_empty(&crowds[0][i], 0, CROWD);
        crowd_empty(&crowds[1][i], 0, CROWD);
        oracle_end(workers[i].oracle);
    }
    mailbox_end(&mailbox);
    calm_trim();
    verify("at the end");
}

static void run(uint64_t seed, uint64_t rounds)
{
    pthread_t threads[WORKERS];
    uint64_t random = seed;
    begin(seed);
    atomic_store(&is_over, false);
    for (unsigned i = 1; i < WORKERS; i++)
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            stress_fail("pthread_create failed");
    for (uint64_t i = 0; i < rounds; i++) {
        lead_a_round(threads, stress_random(&random));
        rounds_done++;
        verify("after a round");
    }
    atomic_store(&is_over, true);
    pthread_barrier_wait(&round_begins);
    for (unsigned i = 1; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    end();
}

static void handle(int signal, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    if (sigaction(signal, &action, NULL) != 0)
        stress_fail("sigaction failed");
}

int main(int argc, char **argv)
{
    struct arguments arguments = arguments_read(argc, argv, 2, 40);
    handle(SIGUSR1, on_stop);
    handle(SIGUSR2, on_end);
    if (calm_option_set("purge_delay_ms", 1) != 0)
        stress_fail("no option purge_delay_ms");
    pthread_barrier_init(&round_begins, NULL, WORKERS);
    pthread_barrier_init(&round_ends, NULL, WORKERS);
    for (unsigned i = 0; i < WORKERS; i++)
        workers[i] = (struct worker){.index = i, .oracle = malloc(sizeof(struct oracle))};
    for (uint64_t i = 0; i < arguments.seeds; i++) {
        arguments_repro(&arguments, arguments.seed + i);
        run(arguments.seed + i, arguments.steps);
    }
    struct calm_stats stats;
    calm_stats_read(&stats);
    if (stats.purged_bytes < MIB)
        stress_fail("only %zu bytes were given back", stats.purged_bytes);
    return 0;
}
