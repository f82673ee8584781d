/*
 * signals.c: handlers that do not allocate interrupt the heap anywhere, a thousand times a second
 * and more, and change nothing; and signals reach the program's own threads only: a process-wide
 * signal that every thread of the program blocks stays pending until it is asked for.
 */
#define _GNU_SOURCE

#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 3, LIVE = 300, ENOUGH = 1000 };

static atomic_long handled;
static atomic_long handled_by_strangers;
static atomic_bool is_over;
static _Thread_local bool is_ours;

static void handler(int number)
{
    (void)number;
    int keep = errno;
    atomic_fetch_add(&handled, 1);
    if (!is_ours)
        atomic_fetch_add(&handled_by_strangers, 1);
    errno = keep;
}

/* In a new thread the handler may run only once the thread has said whose it is. */
static void mask_handled(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    sigaddset(&set, SIGUSR1);
    CHECK(pthread_sigmask(how, &set, NULL) == 0, "pthread_sigmask fails");
}

static void *worker(void *argument)
{
    is_ours = true;
    mask_handled(SIG_UNBLOCK);
    unsigned long seed = (unsigned long)(size_t)argument;
    void *live[LIVE] = {NULL};
    size_t sizes[LIVE] = {0};
    while (!atomic_load(&is_over)) {
        size_t slot = random_next(&seed) % LIVE;
        CHECK(live[slot] == NULL || block_is_signed(live[slot], sizes[slot]),
              "a block was overwritten");
        free(live[slot]);
        sizes[slot] = 1 + random_next(&seed) % (slot == 0 ? 3000000 : 3000);
        live[slot] = malloc(sizes[slot]);
        CHECK(live[slot] != NULL, "no memory");
        block_sign(live[slot], sizes[slot]);
    }
    for (size_t slot = 0; slot < LIVE; slot++)
        free(live[slot]);
    return NULL;
}

static void run_interrupted(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGPROF, &action, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0,
          "sigaction");
    pthread_t workers[WORKERS];
    mask_handled(SIG_BLOCK);
    for (size_t w = 0; w < WORKERS; w++)
        CHECK(pthread_create(&workers[w], NULL, worker, (void *)(w + 1)) == 0, "no thread");
    mask_handled(SIG_UNBLOCK);
    struct itimerval timer = {{0, 500}, {0, 500}};
    CHECK(setitimer(ITIMER_PROF, &timer, NULL) == 0, "setitimer");
    double end = seconds_now() + 2;
    while (seconds_now() < end || atomic_load(&handled) <= ENOUGH) {
        for (int w = 0; w < WORKERS; w++)
            pthread_kill(workers[w], SIGUSR1);
        kill(getpid(), SIGUSR1);
        sleep_ms(0);
    }
    memset(&timer, 0, sizeof timer);
    setitimer(ITIMER_PROF, &timer, NULL);
    atomic_store(&is_over, true);
    for (int w = 0; w < WORKERS; w++)
        pthread_join(workers[w], NULL);
    CHECK(atomic_load(&handled_by_strangers) == 0,
          "%ld signals ran in a thread that is not the program's",
          atomic_load(&handled_by_strangers));
}

/* Frees much, so that whatever gives memory back starts, and asks for the signal that must still be
 * pending.
 */
static void run_blocked(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR2);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0, "pthread_sigmask");
    for (unsigned wait_ms = 0; wait_ms <= 600; wait_ms += 200) {
        void *blocks[100];
        for (int i = 0; i < 100; i++) {
            blocks[i] = malloc(MIB);
            CHECK(blocks[i] != NULL, "no memory");
            memset(blocks[i], 1, MIB);
        }
        for (int i = 0; i < 100; i++)
            free(blocks[i]);
        sleep_ms(wait_ms);
        kill(getpid(), SIGTERM);
        kill(getpid(), SIGUSR2);
        sleep_ms(50);
        for (int i = 0; i < 2; i++) {
            struct timespec patience = {5, 0};
            int got = sigtimedwait(&set, NULL, &patience);
            CHECK(got == SIGTERM || got == SIGUSR2,
                  "a blocked signal went to a thread that is not the program's");
        }
    }
}

int main(void)
{
    is_ours = true;
    check_is_calmalloc();
    check_time_limit(60);
    run_blocked();
    run_interrupted();
    return 0;
}
