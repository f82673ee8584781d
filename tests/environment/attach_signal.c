/*
 * attach_signal.c: a signal's handler allocates as a thread's first malloc attaches a cache, and
 * makes all threads work on their CPUs' caches. That is the program's mistake, and many make it.
 * No cache may then have two owners: a fork's child would look for its caches for ever.
 *
 * Seen to fail, in one process of five, with an attach that ends before the exit hook is armed.
 */
#define _GNU_SOURCE

#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSES = 40, THREADS = 24, BLOCKS = 600, SECONDS = 20, DELAY_NS_MAX = 12 * 1000 };

static pthread_barrier_t end;
static unsigned long random_state = 1;
static _Thread_local volatile sig_atomic_t is_first;

static void allocate(int signal)
{
    static _Thread_local void *blocks[BLOCKS];
    (void)signal;
    if (!is_first)
        return;
    is_first = 0;
    for (size_t step = 50; step <= 70; step += 20) {
        for (size_t i = 0; i < BLOCKS; i++)
            blocks[i] = malloc(16 + i % (step - 10) * step);
        for (size_t i = 0; i < BLOCKS; i++)
            free(blocks[i]);
    }
}

/* The next thread begins when this one is attached. */
static void *first_malloc(void *next)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    struct itimerspec delay = {
        .it_value.tv_nsec = 1 + (long)(random_next(&random_state) % DELAY_NS_MAX)};
    int timer;
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    CHECK(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) == 0, "no timer");
    is_first = 1;
    syscall(SYS_timer_settime, timer, 0, &delay, NULL);
    void *block = hidden(malloc(100));
    is_first = 0;
    free(block);
    syscall(SYS_timer_delete, timer);
    pthread_barrier_wait(next);
    pthread_barrier_wait(&end);
    return NULL;
}

static void run_once(void)
{
    pthread_t threads[THREADS];
    random_state = (unsigned long)getpid() * 7919;
    CHECK(signal(SIGUSR1, allocate) != SIG_ERR, "no handler");
    pthread_barrier_init(&end, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_barrier_t next;
        pthread_barrier_init(&next, NULL, 2);
        CHECK(pthread_create(&threads[i], NULL, first_malloc, &next) == 0, "no thread");
        pthread_barrier_wait(&next);
        pthread_barrier_destroy(&next);
    }
    pthread_barrier_wait(&end);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pid_t child = fork();
    CHECK(child >= 0, "no child");
    if (child == 0) {
        free(hidden(malloc(10)));
        _exit(0);
    }
    int status;
    double begin = seconds_now();
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (seconds_now() - begin > SECONDS)
            kill(child, SIGKILL); /* it blocks other signals */
        sleep_ms(1);
    }
    CHECK(status == 0, "a fork's child ended with status %#x", (unsigned)status);
    check_heap();
}

int main(int count, char **arguments)
{
    check_is_calmalloc();
    if (count > 1) {
        run_once();
        return 0;
    }
    cpu_set_t all;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0, "no CPUs");
    for (unsigned i = 0; i < PROCESSES; i++) {
        pid_t child = fork();
        CHECK(child >= 0, "no child");
        if (child == 0) {
            cpu_set_t two; /* beyond two threads a CPU they share caches */
            CPU_ZERO(&two);
            for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&two) < 2; cpu++)
                if (CPU_ISSET(cpu, &all))
                    CPU_SET(cpu, &two);
            sched_setaffinity(0, sizeof two, &two);
            execl("/proc/self/exe", arguments[0], "once", (char *)NULL);
            _exit(1);
        }
        check_child_succeeds(child, "a process");
    }
    return 0;
}
