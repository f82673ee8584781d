/*
 * cut_off.c: a signal finds threads in the middle of malloc or free and ends them there by the bare
 * system call, or keeps them there for ever. The others go on, lose nothing and get nothing that
 * another has, and the heap does not grow with the number of ends.
 *
 *   cut_off end|stay
 *
 * What a victim's table holds stays whole, and is freed by others: live.h. What a victim had just
 * taken from a depot or was about to give is lost with it, at most a slab and a batch for each end.
 * Whom it finds in a refill or a flush keeps its core's cache as well; of few victims, all may.
 *
 * Seen to fail with sequences that are not named in the area, and so never aborted; and, for the
 * growth by hundreds of victims, with tables that nobody frees.
 */
#define _GNU_SOURCE

#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "live.h"

enum {
    WORKERS = 2,
    VICTIMS_END = 600,
    VICTIMS_STAY = 60, /* fewer than there are caches for cores */
    SIZE_MAX_HERE = 3000,
    STACK_BYTES = 128 * 1024,
    STEPS_BETWEEN = 200,
    SLAB_AND_BATCH_BYTES = 96 * 1024,
    CACHE_BYTES = 160 * 1024, /* what it holds, and its own memory */
};

static struct live of_workers[WORKERS];
static atomic_ulong worker_steps;
static atomic_bool is_over;
static bool does_end;
static atomic_int cut;

static void *worker(void *live)
{
    while (!atomic_load(&is_over)) {
        live_step(live, SIZE_MAX_HERE);
        atomic_fetch_add(&worker_steps, 1);
    }
    live_end(live);
    return NULL;
}

static void *victim(void *live)
{
    for (;;)
        live_step(live, SIZE_MAX_HERE);
    return NULL;
}

static void cut_off(int number)
{
    (void)number;
    if (!live_is_inside)
        return;
    atomic_fetch_add(&cut, 1);
    if (does_end)
        syscall(SYS_exit, 0);
    for (;;)
        pause();
}

/* Returns when so many more steps were done: the workers go on. */
static void wait_for_workers(unsigned long steps)
{
    unsigned long target = atomic_load(&worker_steps) + steps;
    while (atomic_load(&worker_steps) < target)
        sleep_ms(1);
}

static void sleep_some_us(unsigned long microseconds)
{
    struct timespec rest = {0, (long)microseconds * 1000};
    nanosleep(&rest, NULL);
}

/* Lets a victim run for a moment and cuts it off; its blocks are the caller's then. */
static void run_victim(struct live *live, unsigned long *seed)
{
    pthread_attr_t small_stack;
    pthread_attr_init(&small_stack);
    pthread_attr_setstacksize(&small_stack, STACK_BYTES);
    int before = atomic_load(&cut);
    pthread_t thread;
    CHECK(pthread_create(&thread, &small_stack, victim, live) == 0, "no thread");
    do {
        sleep_some_us(random_next(seed) % 300);
        pthread_kill(thread, SIGUSR1);
    } while (atomic_load(&cut) == before);
    if (does_end)
        pthread_join(thread, NULL);
    live_end(live);
}

static void run_victims(int count)
{
    static struct live live = {.seed = 9};
    static unsigned long seed = 10;
    for (int i = 0; i < count; i++) {
        run_victim(&live, &seed);
        wait_for_workers(STEPS_BETWEEN);
    }
}

int main(int count, char **words)
{
    check_is_calmalloc();
    check_is_by_cores();
    check_time_limit(110);
    does_end = count > 1 && strcmp(words[1], "end") == 0;
    int victims = does_end ? VICTIMS_END : VICTIMS_STAY;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = cut_off;
    sigfillset(&action.sa_mask);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
    pthread_t workers[WORKERS];
    for (size_t w = 0; w < WORKERS; w++) {
        of_workers[w].seed = w + 1;
        CHECK(pthread_create(&workers[w], NULL, worker, &of_workers[w]) == 0, "no thread");
    }
    run_victims(victims / 3);
    size_t before = resident_bytes();
    run_victims(victims - victims / 3);
    size_t after = resident_bytes();
    printf("%zu KiB after %d victims, %zu KiB after %d\n", before / KIB, victims / 3, after / KIB,
           victims);
    fflush(stdout);
    size_t lost = SLAB_AND_BATCH_BYTES + (does_end ? 0 : CACHE_BYTES);
    size_t lost_max = (size_t)(victims - victims / 3) * lost;
    CHECK(after < before + lost_max, "the heap grows with every victim");
    atomic_store(&is_over, true);
    for (int w = 0; w < WORKERS; w++)
        pthread_join(workers[w], NULL);
    _exit(0);
}
