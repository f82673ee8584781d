/*
 * timers.c: timers that run a function in a thread. The C library's helper thread keeps its signal
 * blocked and allocates between two waits for it, so the heap must not unblock the signal.
 *
 * Seen to fail with a heap that sets its mask amid an attach instead of adding to the mask there
 * is: the process ends by signal 32.
 */
#define _GNU_SOURCE

#include "check.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { TIMERS = 8, ROUNDS = 20, PATIENCE_S = 20 };

static sem_t expired;

static void on_expiry(union sigval value)
{
    (void)value;
    free(hidden(malloc(100)));
    sem_post(&expired);
}

int main(void)
{
    timer_t timers[TIMERS];
    struct timespec now;
    check_is_calmalloc();
    CHECK(sem_init(&expired, 0, 0) == 0, "no semaphore");
    for (int i = 0; i < TIMERS; i++) {
        struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_expiry};
        CHECK(timer_create(CLOCK_MONOTONIC, &event, &timers[i]) == 0, "no timer");
    }
    for (int round = 0; round < ROUNDS; round++) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        struct itimerspec once = {.it_value = {now.tv_sec + (now.tv_nsec >= 990000000),
                                               (now.tv_nsec + 10000000) % 1000000000}};
        for (int i = 0; i < TIMERS; i++)
            CHECK(timer_settime(timers[i], TIMER_ABSTIME, &once, NULL) == 0, "no start");
        clock_gettime(CLOCK_REALTIME, &now);
        now.tv_sec += PATIENCE_S;
        for (int i = 0; i < TIMERS; i++)
            CHECK(sem_timedwait(&expired, &now) == 0, "round %d: %d of %d timers", round, i,
                  TIMERS);
    }
    check_heap();
    return 0;
}
