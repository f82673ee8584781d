/*
 * fork_under_load.c: threads allocate and free without pause while others fork. Each child, which
 * has one thread only, must be able to use the whole heap: allocate, free what other threads had
 * allocated, start threads, and fork again while its own threads work.
 */
#define _GNU_SOURCE

#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 4, FORKERS = 3, FORKS = 25, PARKED = 3000, LIVE = 400, CHILD_SECONDS = 60 };

static void *parked[WORKERS][PARKED];
static atomic_int parked_count;
static atomic_bool is_over;

static size_t size_of(size_t i)
{
    return i % 50 == 0 ? 40000 + i * 37 : 1 + i * 7 % 3000;
}

static void churn(unsigned long seed, size_t steps)
{
    static _Thread_local void *live[LIVE];
    static _Thread_local size_t sizes[LIVE];
    for (size_t step = 0; step < steps && !atomic_load(&is_over); step++) {
        size_t slot = random_next(&seed) % LIVE;
        CHECK(live[slot] == NULL || block_is_signed(live[slot], sizes[slot]),
              "a live block was overwritten");
        free(live[slot]);
        sizes[slot] = size_of(random_next(&seed) % 3000);
        live[slot] = malloc(sizes[slot]);
        CHECK(live[slot] != NULL, "no memory");
        block_sign(live[slot], sizes[slot]);
    }
    for (size_t slot = 0; slot < LIVE; slot++) {
        free(live[slot]);
        live[slot] = NULL;
    }
}

static void *worker(void *argument)
{
    size_t number = *(size_t *)argument;
    for (size_t i = 0; i < PARKED; i++) {
        parked[number][i] = malloc(size_of(i));
        CHECK(parked[number][i] != NULL, "no memory");
        block_sign(parked[number][i], size_of(i));
    }
    atomic_fetch_add(&parked_count, 1);
    while (!atomic_load(&is_over))
        churn(number + 1, 10000);
    return NULL;
}

static void *short_worker(void *argument)
{
    (void)argument;
    churn(99, 3000);
    return NULL;
}

/* What a child does; `depth` more generations follow. */
static void live_as_child(int depth)
{
    check_time_limit(CHILD_SECONDS);
    for (size_t w = 0; w < WORKERS; w++)
        for (size_t i = 0; i < PARKED; i++) {
            CHECK(block_is_signed(parked[w][i], size_of(i)),
                  "a block of another thread changed in the child");
            if (depth == 0)
                free(parked[w][i]);
        }
    churn(7, 3000);
    pthread_t threads[2];
    for (int t = 0; t < 2; t++)
        CHECK(pthread_create(&threads[t], NULL, short_worker, NULL) == 0,
              "the child cannot start a thread");
    if (depth > 0) {
        pid_t child = fork();
        if (child == 0) {
            live_as_child(depth - 1);
            _exit(0);
        }
        check_child_succeeds(child, "a grandchild");
    }
    for (int t = 0; t < 2; t++)
        pthread_join(threads[t], NULL);
}

static void *forker(void *argument)
{
    (void)argument;
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0) {
            live_as_child(i % 3);
            _exit(0);
        }
        check_child_succeeds(child, "a child");
    }
    return NULL;
}

int main(void)
{
    check_is_calmalloc();
    check_time_limit(120);
    pthread_t workers[WORKERS], forkers[FORKERS];
    size_t numbers[WORKERS];
    for (size_t w = 0; w < WORKERS; w++) {
        numbers[w] = w;
        CHECK(pthread_create(&workers[w], NULL, worker, &numbers[w]) == 0, "no thread");
    }
    while (atomic_load(&parked_count) < WORKERS)
        sleep_ms(1);
    for (int f = 0; f < FORKERS; f++)
        CHECK(pthread_create(&forkers[f], NULL, forker, NULL) == 0, "no thread");
    for (int f = 0; f < FORKERS; f++)
        pthread_join(forkers[f], NULL);
    atomic_store(&is_over, true);
    for (int w = 0; w < WORKERS; w++)
        pthread_join(workers[w], NULL);
    return 0;
}
