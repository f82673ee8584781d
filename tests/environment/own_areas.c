/*
 * own_areas.c: the C library registers no area for sequences (GLIBC_TUNABLES), so threads have
 * areas of our own. Threads come and go by the hundred, joined and detached, and hand blocks over;
 * each works on its core's cache, and the kernel never finds an area that has gone.
 *
 * Seen to fail without areas of our own, and with areas that the kernel is not told of.
 */
#define _GNU_SOURCE

#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "live.h"

enum { ROUNDS = 40, AT_A_TIME = 8, STEPS = 500, SIZE_MAX_HERE = 5000, WAIT_MS = 20000 };

extern const unsigned int __rseq_size __attribute__((weak));

static struct live of_places[AT_A_TIME];
static pthread_mutex_t locks[AT_A_TIME];
static pthread_barrier_t all_here;
static atomic_int ended;

/* Goes on with what the last thread of this place left. */
static void *worker(void *argument)
{
    size_t place = (size_t)argument;
    pthread_mutex_lock(&locks[place]);
    for (int i = 0; i < STEPS; i++)
        live_step(&of_places[place], SIZE_MAX_HERE);
    pthread_mutex_unlock(&locks[place]);
    atomic_fetch_add(&ended, 1);
    return NULL;
}

static void *rest(void *argument)
{
    worker(argument);
    pthread_barrier_wait(&all_here);
    pthread_barrier_wait(&all_here);
    return NULL;
}

/* None of these threads is near its end. */
static void check_areas(void)
{
    pthread_t threads[AT_A_TIME];
    pthread_barrier_init(&all_here, NULL, AT_A_TIME + 1);
    for (size_t place = 0; place < AT_A_TIME; place++)
        CHECK(pthread_create(&threads[place], NULL, rest, (void *)place) == 0, "no thread");
    pthread_barrier_wait(&all_here);
    CHECK(own_caches() == 0, "%zu threads have a cache of their own", own_caches());
    pthread_barrier_wait(&all_here);
    for (size_t place = 0; place < AT_A_TIME; place++)
        pthread_join(threads[place], NULL);
    atomic_store(&ended, 0);
}

static void run_threads(void)
{
    pthread_t joined[AT_A_TIME];
    for (size_t place = 0; place < AT_A_TIME; place++) {
        pthread_t detached;
        CHECK(pthread_create(&joined[place], NULL, worker, (void *)place) == 0, "no thread");
        CHECK(pthread_create(&detached, NULL, worker, (void *)place) == 0, "no thread");
        pthread_detach(detached);
    }
    for (size_t place = 0; place < AT_A_TIME; place++)
        pthread_join(joined[place], NULL);
}

int main(void)
{
    check_is_calmalloc();
    check_is_by_cores();
    check_time_limit(100);
    if (&__rseq_size != NULL && __rseq_size != 0)
        check_skip("the C library registers areas all the same");
    for (size_t place = 0; place < AT_A_TIME; place++) {
        of_places[place].seed = place + 1;
        pthread_mutex_init(&locks[place], NULL);
    }
    check_areas();
    for (int i = 0; i < ROUNDS; i++)
        run_threads();
    for (int waited = 0; atomic_load(&ended) < 2 * ROUNDS * AT_A_TIME; waited++) {
        CHECK(waited < WAIT_MS, "detached threads do not end");
        sleep_ms(1);
    }
    for (size_t place = 0; place < AT_A_TIME; place++)
        live_end(&of_places[place]);
    check_heap();
    return 0;
}
