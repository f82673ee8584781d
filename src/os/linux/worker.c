/*
 * worker.c: the C library's threads, and the scheduler's CPU masks.
 */
#define _GNU_SOURCE

#include "os/worker.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <time.h>

#include "base/bits.h"
#include "os/linux/syscall.h"

enum { MASK_WORDS = 64 }; /* 4096 CPUs */

int os_worker_start(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    int was = errno; /* the C library's calls may overwrite errno */
    int error = pthread_create(&thread, NULL, body, argument);
    errno = was;
    return -error;
}

uint64_t os_worker_self(void)
{
    return (uint64_t)pthread_self();
}

void os_worker_leave(void)
{
    pthread_detach(pthread_self());
}

void os_worker_join(uint64_t worker)
{
    pthread_join((pthread_t)worker, NULL);
}

/* What a thread runs when it ends. */
static _Thread_local struct exit_call {
    void (*function)(void *);
    void *argument;
    unsigned rounds; /* rounds of destructors so far */
} exit_call;

static pthread_key_t at_end; /* value: the thread's exit_call, or NULL */
static int at_end_error;

/* Runs in the last round, so that other keys' destructors, which may use the value, run first. */
static void run_at_exit(void *value)
{
    struct exit_call *words = (struct exit_call *)value;
    if (++words->rounds < PTHREAD_DESTRUCTOR_ITERATIONS && pthread_setspecific(at_end, value) == 0)
        return;
    words->function(words->argument);
}

static void create_key(void)
{
    at_end_error = pthread_key_create(&at_end, run_at_exit);
}

int os_worker_at_end(void (*when_ended)(void *), void *argument)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, create_key);
    if (at_end_error != 0)
        return -at_end_error;
    exit_call.function = when_ended;
    exit_call.argument = argument;
    exit_call.rounds = 0;
    return -pthread_setspecific(at_end, when_ended == NULL ? NULL : &exit_call);
}

/* Reads a thread's CPU mask (0: the calling thread). Returns the number of words in use. */
static size_t read_mask(uint32_t task, uint64_t *mask)
{
    long bytes = system_call(SYS_sched_getaffinity, (long)task, MASK_WORDS * 8, (long)mask, 0, 0,
                             0);
    return bytes > 0 ? (size_t)bytes / 8 : 0;
}

int os_worker_pin(uint32_t cpu)
{
    uint64_t mask[MASK_WORDS] = {0};
    if (cpu >= MASK_WORDS * 64)
        return -EINVAL;
    mask[cpu / 64] = (uint64_t)1 << cpu % 64;
    return (int)system_call(SYS_sched_setaffinity, 0, sizeof mask, (long)mask, 0, 0, 0);
}

uint32_t os_worker_task(void)
{
    return (uint32_t)system_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

static size_t cpus_of(uint32_t task, uint32_t *cpus, size_t most)
{
    uint64_t mask[MASK_WORDS] = {0};
    size_t count = 0, words = read_mask(task, mask);
    for (size_t word = 0; word < words; word++)
        for (uint64_t left = mask[word]; left != 0 && count < most; left &= left - 1)
            cpus[count++] = (uint32_t)(word * 64 + bit_lowest(left));
    return count;
}

bool os_worker_is_pinned(uint32_t task, uint32_t cpu)
{
    uint32_t cpus[2];
    return cpus_of(task, cpus, 2) == 1 && cpus[0] == cpu;
}

size_t os_worker_cpus(uint32_t *cpus, size_t most)
{
    return cpus_of(0, cpus, most);
}

uint64_t os_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
